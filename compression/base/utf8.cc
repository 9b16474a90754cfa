#include "compression/base/utf8.h"

namespace atolld {
namespace {

// Returns the number of bytes of the first character; 0 if it is not valid (RFC 3629).
size_t CharacterBytes(absl::string_view text) {
  const auto at = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  const size_t bytes = lead >= 0xc2 && lead < 0xe0   ? 2
                       : lead >= 0xe0 && lead < 0xf0 ? 3
                       : lead >= 0xf0 && lead < 0xf5 ? 4
                                                     : 0;
  if (bytes == 0 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (lead == 0xe0 && at(1) < 0xa0) || (lead == 0xf0 && at(1) < 0x90);
  const bool beyond = (lead == 0xed && at(1) >= 0xa0) || (lead == 0xf4 && at(1) >= 0x90);
  return overlong || beyond ? 0 : bytes;
}

}  // namespace

Utf8Character Utf8FrontOf(absl::string_view text) {
  Utf8Character front;
  const size_t bytes = CharacterBytes(text);
  front.code = static_cast<unsigned char>(text[0]);
  if (bytes == 0) return front;
  front.bytes = bytes;
  front.valid = true;
  if (bytes > 1) front.code &= 0xffu >> (bytes + 1);
  for (size_t i = 1; i < bytes; ++i) {
    front.code = front.code << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
  }
  return front;
}

}  // namespace atolld

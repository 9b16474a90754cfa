#include "compression/base/utf8.h"

#include <cstring>

namespace atolld {

size_t Utf8Length(absl::string_view text) {
  const auto at = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = at(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                        : lead >= 0xe0 && lead <= 0xef ? 3
                        : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  // The second byte's range excludes overlong forms, surrogates and what lies above U+10FFFF.
  const uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (at(1) < low || at(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (at(i) < 0x80 || at(i) > 0xbf) return 0;
  }
  return length;
}

size_t FindInvalidUtf8(absl::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    uint64_t word;
    if (i + sizeof(word) <= text.size()) {  // most text is ASCII: eight bytes at once
      std::memcpy(&word, text.data() + i, sizeof(word));
      if ((word & 0x8080808080808080u) == 0) {
        i += sizeof(word);
        continue;
      }
    }
    const size_t length = Utf8Length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return text.size();
}

uint32_t ReadUtf8(absl::string_view sequence) {
  const auto lead = static_cast<uint8_t>(sequence[0]);
  if (sequence.size() == 1) return lead;
  // The lead byte of n bytes has 7 - n bits of the character.
  uint32_t character = lead & ((1u << (7 - sequence.size())) - 1);
  for (const char byte : sequence.substr(1)) {
    character = (character << 6) | (static_cast<uint8_t>(byte) & 0x3f);
  }
  return character;
}

void AppendUtf8(uint32_t character, std::string* out) {
  if (character < 0x80) {
    out->push_back(static_cast<char>(character));
    return;
  }
  static constexpr uint32_t kLeads[] = {0xc0, 0xe0, 0xf0};  // of one, two, three more bytes
  const int more = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
  out->push_back(static_cast<char>(kLeads[more - 1] | (character >> (6 * more))));
  for (int i = more - 1; i >= 0; --i) {
    out->push_back(static_cast<char>(0x80 | ((character >> (6 * i)) & 0x3f)));
  }
}

Utf8Character Utf8FrontOf(absl::string_view text) {
  const size_t bytes = Utf8Length(text);
  if (bytes == 0) return {1, static_cast<uint8_t>(text[0]), false};
  return {bytes, ReadUtf8(text.substr(0, bytes)), true};
}

}  // namespace atolld

#include "compression/base/pasted.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "compression/base/utf8.h"

namespace atolld {
namespace {

// Converts UTF-16. `high` is the place of the more significant byte in each pair. Half a character,
// and an odd byte at the end, become U+FFFD.
std::string FromUtf16(absl::string_view text, size_t high) {
  constexpr uint32_t kReplacement = 0xfffd;
  const auto unit = [text, high](size_t at) {
    return static_cast<uint32_t>(static_cast<unsigned char>(text[at + high])) << 8 |
           static_cast<unsigned char>(text[at + 1 - high]);
  };
  std::string out;
  size_t at = 0;
  for (; at + 1 < text.size(); at += 2) {
    uint32_t code = unit(at);
    if (code >= 0xd800 && code < 0xdc00 && at + 3 < text.size() &&
        (unit(at + 2) & 0xfc00) == 0xdc00) {
      code = 0x10000 + ((code & 0x3ff) << 10) + (unit(at + 2) & 0x3ff);
      at += 2;
    }
    AppendUtf8((code & 0xfffff800) == 0xd800 ? kReplacement : code, &out);
  }
  if (at < text.size()) AppendUtf8(kReplacement, &out);
  return out;
}

// Returns the place of the more significant byte in each pair of UTF-16, or -1 if the text is not
// UTF-16.
int Utf16High(absl::string_view text) {
  if (absl::StartsWith(text, "\xfe\xff")) return 0;
  if (absl::StartsWith(text, "\xff\xfe")) return 1;
  size_t zeros[2] = {0, 0};
  for (size_t i = 0; i < text.size(); ++i) zeros[i % 2] += text[i] == '\0' ? 1 : 0;
  // Plain ASCII in it has a zero in each pair, always at the same place.
  if (text.size() < 2 || zeros[0] + zeros[1] < text.size() / 2 - text.size() / 16) return -1;
  if (zeros[0] == 0) return 1;
  return zeros[1] == 0 ? 0 : -1;
}

// Returns what a character of a pasted text was meant to be, or null if it was meant as it is.
const char* MeantBy(uint32_t code) {
  const auto within = [code](uint32_t first, uint32_t last) {
    return code >= first && code <= last;
  };
  if (within(0x09, 0x0d) || code == 0x85 || code == 0xa0 || code == 0x1680 ||
      within(0x2000, 0x200a) || within(0x2028, 0x2029) || code == 0x202f || code == 0x205f ||
      code == 0x3000) {
    return " ";
  }
  // The byte order mark, soft hyphens, joiners, marks of direction, variation selectors.
  if (code == 0 || code == 0xad || code == 0x34f || code == 0x61c || code == 0x180e ||
      within(0x200b, 0x200f) || within(0x202a, 0x202e) || within(0x2060, 0x206f) ||
      within(0xfe00, 0xfe0f) || code == 0xfeff || code == 0xfffc) {
    return "";
  }
  if (within(0x2010, 0x2013) || code == 0x2212 || code == 0xfe63 || code == 0xff0d) return "-";
  if (within(0x2014, 0x2015)) return "--";
  if (within(0x2018, 0x201b) || code == 0x2032 || within(0x2039, 0x203a) || code == 0xff07) {
    return "'";
  }
  if (within(0x201c, 0x201f) || code == 0x2033 || code == 0xab || code == 0xbb || code == 0xff02 ||
      within(0x300c, 0x300f)) {
    return "\"";
  }
  return nullptr;
}

}  // namespace

std::string CleanPasted(absl::string_view text) {
  const int high = Utf16High(text);
  const std::string converted = high < 0 ? "" : FromUtf16(text, static_cast<size_t>(high));
  if (high >= 0) text = converted;
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character front = Utf8FrontOf(text);
    const char* const meant = front.valid ? MeantBy(front.code) : nullptr;
    if (meant != nullptr) {
      out += meant;
    } else {
      out.append(text.data(), front.bytes);
    }
    text.remove_prefix(front.bytes);
  }
  return std::string(absl::StripAsciiWhitespace(out));
}

}  // namespace atolld

#include "compression/base/names.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compression/base/utf8.h"

namespace atolld {
namespace {

constexpr size_t kMaxNameBytes = 64;  // longer than any name of ours

}  // namespace

bool IsValidId(absl::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

size_t SpellingDistance(absl::string_view a, absl::string_view b) {
  // Three rows of the classic table (optimal string alignment): the row before the last is for
  // swaps.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

std::string NearestName(absl::string_view name, absl::Span<const std::string> candidates) {
  const std::string wanted = absl::AsciiStrToLower(name.substr(0, kMaxNameBytes));
  std::string nearest;
  size_t least = static_cast<size_t>(-1);
  for (const std::string& candidate : candidates) {
    const std::string known = absl::AsciiStrToLower(candidate.substr(0, kMaxNameBytes));
    const size_t distance = SpellingDistance(wanted, known);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string UnknownNameMessage(absl::string_view kind, absl::string_view name,
                               absl::Span<const std::string> candidates) {
  std::string message =
      absl::StrCat("unknown ", kind, " \"", absl::CHexEscape(name.substr(0, kMaxNameBytes)), "\"");
  if (candidates.empty()) return message;
  absl::StrAppend(&message, ": did you mean \"", NearestName(name, candidates),
                  "\"? Known: ", absl::StrJoin(candidates, ", "));
  return message;
}

std::string LikelyName(absl::string_view name, absl::Span<const std::string> candidates) {
  const std::string* nearest = nullptr;
  size_t smallest = 0;
  for (const std::string& candidate : candidates) {
    const size_t distance = SpellingDistance(name, candidate);
    const size_t limit = std::max(std::max(name.size(), candidate.size()) / 3, size_t{1});
    if (distance > limit || distance >= candidate.size()) continue;
    if (nearest == nullptr || distance < smallest) {
      nearest = &candidate;
      smallest = distance;
    }
  }
  return nearest == nullptr ? std::string() : *nearest;
}

std::string Suggestion(absl::string_view name, absl::Span<const std::string> candidates) {
  const std::string nearest = LikelyName(name, candidates);
  if (!nearest.empty()) return absl::StrCat("; did you mean '", nearest, "'?");
  if (candidates.empty()) return "";
  return absl::StrCat("; valid are: ", absl::StrJoin(candidates, ", "));
}

// -----------------------------------------------------------------------------------------------

namespace {

struct Character {
  size_t bytes = 1;
  uint32_t code = 0;  // its own byte if it is not valid
  bool shown = false;
};

bool IsShown(uint32_t code) {
  const auto within = [code](uint32_t first, uint32_t last) {
    return code >= first && code <= last;
  };
  if (code < 0x80) return within(0x20, 0x7e);
  return !within(0x80, 0x9f)  // C1
         && code != 0x061c    // marks and overrides of direction, and isolates
         && !within(0x200e, 0x200f) && !within(0x2028, 0x202e) && !within(0x2066, 0x2069);
}

// Returns the first character of a text that is not empty.
Character FrontOf(absl::string_view text) {
  const Utf8Character front = Utf8FrontOf(text);
  return {front.bytes, front.code, front.valid && IsShown(front.code)};
}

// Escapes unprintable characters, except those in `kept`.
std::string Escaped(absl::string_view text, absl::string_view kept) {
  std::string out;
  out.reserve(text.size() + 16);
  while (!text.empty()) {
    const Character front = FrontOf(text);
    if (front.shown || (front.bytes == 1 && kept.find(text[0]) != absl::string_view::npos)) {
      out.append(text.data(), front.bytes);
    } else if (front.code == '\n') {
      out += "\\n";
    } else if (front.bytes == 1) {
      absl::StrAppendFormat(&out, "\\x%02x", front.code);
    } else {
      absl::StrAppendFormat(&out, "\\u%04x", front.code);
    }
    text.remove_prefix(front.bytes);
  }
  return out;
}

}  // namespace

std::string OneLine(absl::string_view text, size_t most) {
  std::string line;
  while (!text.empty()) {
    const Character front = FrontOf(text);
    const bool space = text[0] == '\n' || text[0] == '\r' || text[0] == '\t' || text[0] == ' ';
    const absl::string_view next = space ? " " : front.shown ? text.substr(0, front.bytes) : "?";
    if (line.size() + next.size() > most) break;
    if (!space || (!line.empty() && line.back() != ' ')) line.append(next.data(), next.size());
    text.remove_prefix(front.bytes);
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

bool IsPrintable(absl::string_view text) {
  while (!text.empty()) {
    const Character front = FrontOf(text);
    if (!front.shown) return false;
    text.remove_prefix(front.bytes);
  }
  return true;
}

std::string Printable(absl::string_view text) { return Escaped(text, ""); }

std::string PrintableText(absl::string_view text) { return Escaped(text, "\n\t"); }

}  // namespace atolld

#include "compression/base/names.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

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

// How many bytes the character at the front has; 0: it is none (RFC 3629).
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

std::string OneLine(absl::string_view text, size_t most) {
  std::string line;
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    const bool space = text[0] == '\n' || text[0] == '\r' || text[0] == '\t' || text[0] == ' ';
    const auto first = static_cast<unsigned char>(text[0]);
    const bool plain = bytes > 1 || (bytes == 1 && first >= 0x20 && first != 0x7f);
    const absl::string_view next = space ? " " : plain ? text.substr(0, bytes) : "?";
    if (line.size() + next.size() > most) break;
    if (!space || (!line.empty() && line.back() != ' ')) line.append(next.data(), next.size());
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

}  // namespace atolld

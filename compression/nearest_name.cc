#include "compression/nearest_name.h"

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

// Levenshtein's distance, one row of the table at a time.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string NearestName(absl::string_view name, absl::Span<const std::string> candidates) {
  const std::string wanted = absl::AsciiStrToLower(name.substr(0, kMaxNameBytes));
  std::string nearest;
  size_t least = static_cast<size_t>(-1);
  for (const std::string& candidate : candidates) {
    const std::string known = absl::AsciiStrToLower(candidate.substr(0, kMaxNameBytes));
    const size_t distance = EditDistance(wanted, known);
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

}  // namespace atolld

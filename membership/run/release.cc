#include "membership/run/release.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace atolld {
namespace {

bool IsFrom(const Release& first, absl::string_view software) {
  const std::optional<Release> release = ParseRelease(software);
  return !release || !(*release < first);
}

}  // namespace

std::optional<Release> ParseRelease(absl::string_view software) {
  const size_t end = software.find_first_of("-+~ ");
  const std::vector<absl::string_view> parts = absl::StrSplit(software.substr(0, end), '.');
  if (parts.size() != 3) return std::nullopt;
  int numbers[3];
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool digit = !parts[i].empty() && absl::ascii_isdigit(parts[i][0]);
    if (!digit || !absl::SimpleAtoi(parts[i], &numbers[i])) return std::nullopt;
  }
  return Release{numbers[0], numbers[1], numbers[2]};
}

bool FollowsChanges(absl::string_view software) { return IsFrom({0, 2, 0}, software); }

bool KnowsModes(absl::string_view software) { return IsFrom({0, 2, 0}, software); }

}  // namespace atolld

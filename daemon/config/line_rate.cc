#include "daemon/config/line_rate.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace atolld {
namespace {

constexpr std::pair<absl::string_view, uint64_t> kUnits[] = {
    {"Gbit", 1000000000}, {"Mbit", 1000000}, {"kbit", 1000}};

}  // namespace

absl::StatusOr<double> ParseRate(absl::string_view text) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  const size_t end = std::min(trimmed.find_first_not_of("0123456789."), trimmed.size());
  const absl::string_view unit = absl::StripLeadingAsciiWhitespace(trimmed.substr(end));
  double number = 0;
  for (const auto& [name, bits] : kUnits) {
    if (unit != name || end == 0 || !absl::ascii_isdigit(trimmed[0])) continue;
    if (!absl::SimpleAtod(trimmed.substr(0, end), &number) || number <= 0) break;
    return number * static_cast<double>(bits) / 8;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is no rate: write a number above 0 and one of kbit, Mbit, Gbit"));
}

std::string FormatLineRate(uint64_t bytes_per_second) {
  for (const auto& [name, bits] : kUnits) {
    if (bytes_per_second % (bits / 8) == 0) {
      return absl::StrCat(bytes_per_second / (bits / 8), name);
    }
  }
  return absl::StrFormat("%d.%03dkbit", bytes_per_second / 125, bytes_per_second % 125 * 8);
}

}  // namespace atolld

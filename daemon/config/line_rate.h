// Rates of lines as people write them: "100Mbit", "2.5Gbit", "500kbit" a second. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

// In bytes a second, above 0. INVALID_ARGUMENT: it is no number above 0 with one of kbit, Mbit,
// Gbit.
absl::StatusOr<double> ParseRate(absl::string_view text);

// In the largest unit in which it is a whole number; ParseRate gives the same number back.
std::string FormatLineRate(uint64_t bytes_per_second);

}  // namespace atolld

// The settings of an experiment: each named one with each combination of the grid.
//
// Pure functions, any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/experiment/experiment.h"

namespace atolld {

inline constexpr size_t kMostSettings = 1000;

// The values that one key of the grid is tried with; at least one.
using GridAxis = std::vector<SettingChange>;

// Without a named setting and a grid: one setting, called `base`, that changes nothing. The last
// axis varies fastest. A named setting's own value stands before the grid's where both have one,
// since the grid is applied later. INVALID_ARGUMENT, without the place: two have one name, or there
// are more than kMostSettings.
absl::StatusOr<std::vector<ExperimentSetting>> ExpandSettings(
    const std::vector<ExperimentSetting>& named, const std::vector<GridAxis>& axes,
    const std::string& base);

}  // namespace atolld

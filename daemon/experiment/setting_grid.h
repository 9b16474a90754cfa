// Makes the settings of an experiment: combines each named setting with each combination of the
// grid.
//
// Pure. May be called from any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/experiment/experiment.h"

namespace atolld {

inline constexpr size_t kMostSettings = 1000;

// The values to try for one key of the grid. There is at least one.
using GridAxis = std::vector<SettingChange>;

// Returns a setting for each pair of a named setting and a combination of the grid. If there are no
// named settings and no axes, returns one setting with the name `base` that changes nothing. The
// last axis varies fastest. If a named setting and the grid both change a key, the grid's value
// applies. Fails with INVALID_ARGUMENT if two settings have the same name or if there are more than
// kMostSettings; the message does not give the place.
absl::StatusOr<std::vector<ExperimentSetting>> ExpandSettings(
    const std::vector<ExperimentSetting>& named, const std::vector<GridAxis>& axes,
    const std::string& base);

}  // namespace atolld

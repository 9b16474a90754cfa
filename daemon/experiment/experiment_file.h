// Reads an experiment's file.
//
// The file is TOML: the sections of any run's config (docs/config.md), and beside them
// [experiment], [partition], [grid], [[setting]], [links], [faults] and [[ramp]], which
// docs/experiments.md describes. Law: every error is one line "FILE:LINE: what is wrong; what would
// be right". What a setting makes of the run is checked by PlanRun (run_plan.h). Any thread; only
// ReadExperiment looks at the disk.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "daemon/experiment/experiment.h"

namespace atolld {

absl::StatusOr<Experiment> ReadExperiment(const std::string& path);
// Of a file's text, which messages call `origin`.
absl::StatusOr<Experiment> ParseExperiment(const std::string& text, const std::string& origin,
                                           const std::string& folder);

}  // namespace atolld

// Reads an experiment's file.
//
// The file is TOML: the sections of any run's config (docs/config.md), together with [experiment],
// [partition], [grid], [[setting]], [links], [faults] and [[ramp]], which docs/experiments.md
// describes. Law: every error is one line "FILE:LINE: what is wrong; what would be right". PlanRun
// (run_plan.h) checks the config that a setting results in. ReadExperiment reads the disk and
// blocks; ParseExperiment is pure. May be called from any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "daemon/experiment/experiment.h"

namespace atolld {

absl::StatusOr<Experiment> ReadExperiment(const std::string& path);
// Parses the text of a file. `origin` is the file's name in messages. Relative paths start at
// `folder`.
absl::StatusOr<Experiment> ParseExperiment(const std::string& text, const std::string& origin,
                                           const std::string& folder);

}  // namespace atolld

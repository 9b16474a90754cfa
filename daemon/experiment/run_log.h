// What the log of a run of an experiment tells, and whether the run has left what a result is made
// of. Blocking; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "daemon/env/env.h"
#include "daemon/experiment/experiment_folder.h"

namespace atolld {

// The end of a log, from the beginning of a line on; "": there is none.
std::string TailOfLog(const std::string& path);
std::string LastLineOf(const std::string& path);

// The newest round that a log of `atoll local` or `atoll run watch` tells of; 0: none.
uint64_t NewestRound(absl::string_view log);

// Its report is of a sealed run, and its figures are there.
bool IsFinishedRun(Files& files, const RunPaths& paths);

}  // namespace atolld

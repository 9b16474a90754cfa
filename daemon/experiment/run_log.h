// Reads the log of an experiment's run, and checks that the run has left the files from which a
// result is made. LastLineOf and IsFinishedRun block; the others are pure. May be called from any
// thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "daemon/env/env.h"
#include "daemon/experiment/experiment_folder.h"

namespace atolld {

// Returns the last line of a log that is not blank, or an empty text if there is none.
std::string LastLineOf(const std::string& path);

// Returns, in one line, why the `atoll local` that wrote this log failed. It is the reason that
// `atoll local` printed at its end (see kWhyItEnded), with the last line of output that it quotes
// below. If there is no such reason, it is the last line that is not a hint about what to do next.
// Empty if the log is empty.
std::string ReasonIn(absl::string_view log);

// Returns the newest round in a log of `atoll local` or `atoll run watch`; 0 if there is none.
uint64_t NewestRound(absl::string_view log);

// Returns true if the report of the run says that it was sealed, and if its figures exist.
bool IsFinishedRun(Files& files, const RunPaths& paths);

}  // namespace atolld

// Executes one run of a churn benchmark: starts its processes, applies its faults, and finally
// checks that all replicas hold the same bits.
//
// A run of a stub model lasts `length`; any other run lasts until it is sealed. Its calls block.
// Used by one thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/bench/churn_faults.h"
#include "daemon/cli/run_watcher.h"
#include "daemon/config/config.h"
#include "daemon/env/env.h"

namespace atolld {

struct ChurnRunSettings {
  std::string name;  // The name of the run in the output, for example "without faults".
  Config config;     // The config, in which the number of peers and the quorum are set.
  std::string dir;   // The folder for everything; it must not exist yet.
  std::string atolld_program;
  // The length of the run; if not set, it lasts until it is sealed.
  std::optional<absl::Duration> length;
  std::vector<PlannedFault> plan;  // The faults to apply; it may be empty.
  FILE* out = nullptr;             // Where the progress is printed.
};

struct ChurnRunResult {
  ChurnTrace trace;
  double seconds = 0;   // The time from the first commit with all peers to the end.
  uint64_t rounds = 0;  // The number of rounds committed in that time.
  uint64_t tokens = 0;  // The number of tokens in these rounds.
  double mean_live_fraction = 0;
  std::vector<LossPoint> losses;  // The losses of all evaluations since version 0, in order.
  // See ChurnReport::rss_growth; nullopt if no peer's daemon ran from start to end.
  std::optional<double> rss_growth;
  bool digests_equal = false;
  std::string digest_problem;                 // Why the digests are not equal.
  std::vector<std::string> unexpected_exits;  // Exits of processes that no fault has caused.
  std::vector<std::string> not_back;          // The victims that were not back within a minute.
};

// Fails with CANCELLED if a signal asks the program to end, and with other errors if a process
// cannot be started or the run commits nothing. No process is left running in any case.
absl::StatusOr<ChurnRunResult> RunUnderChurn(Files& files, SignalWaiter& signals,
                                             const ChurnRunSettings& settings);

}  // namespace atolld

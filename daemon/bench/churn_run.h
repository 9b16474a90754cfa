// One run of a churn benchmark: from the start of its processes, through its faults, to the proof
// that every replica holds the same bits.
//
// A run of a stub model lasts `length`; any other lasts until it is sealed. Blocking; one thread.
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
  std::string name;  // "without faults"
  Config config;     // peers and quorum are set
  std::string dir;   // does not exist yet
  std::string atolld_program;
  std::optional<absl::Duration> length;  // none: until the run is sealed
  std::vector<PlannedFault> plan;        // empty: no faults
  FILE* out = nullptr;                   // progress
};

struct ChurnRunResult {
  ChurnTrace trace;
  double seconds = 0;   // measured: from the first commit with all peers, to the end
  uint64_t rounds = 0;  // committed in them
  uint64_t tokens = 0;  // of these rounds
  double mean_live_fraction = 0;
  std::vector<LossPoint> losses;     // of all evaluations since version 0, in order
  std::optional<double> rss_growth;  // nothing: no daemon of a peer lived through
  bool digests_equal = false;
  std::string digest_problem;                 // why not
  std::vector<std::string> unexpected_exits;  // nobody did that to them
  std::vector<std::string> not_back;          // victims that were not back within a minute
};

// CANCELLED: somebody wants the program to end. Other errors: a process could not start, or the run
// did not begin to commit. Whatever is returned, nothing is left running.
absl::StatusOr<ChurnRunResult> RunUnderChurn(Files& files, SignalWaiter& signals,
                                             const ChurnRunSettings& settings);

}  // namespace atolld

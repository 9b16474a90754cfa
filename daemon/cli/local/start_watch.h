// StartWatch: whether a run can still begin or go on, or none of its workers will ever train.
//
// A worker that fails is started again, and somebody may mend what keeps it from training; so what
// is wrong must be so at every peer, several times in a row, and for a while. Pure; one thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "daemon/cli/run_watcher.h"

namespace atolld {

class StartWatch {
 public:
  // Long enough to mend a path that was mistyped, short enough to wait for.
  static constexpr double kPatienceSeconds = 20;
  static constexpr uint32_t kFailures = 3;  // of each worker, in a row, without a contribution

  // Why none of the `peers` workers trains, in one line; nothing: there is hope. `now_seconds`: of
  // any monotonic clock.
  std::optional<std::string> Hopeless(const RunHistory& history, size_t peers, double now_seconds);

 private:
  std::optional<double> since_;  // since when every worker fails
};

}  // namespace atolld

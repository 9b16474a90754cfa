// StartWatch: finds out that too few of a local run's workers will ever train, so that the run can
// end instead of waiting.
//
// A worker that fails is started again, and a user may correct what keeps it from training. So a
// run is only given up if its peers without a fault are fewer than the quorum, if the others have
// failed several times in a row, and if this has lasted for a while. Pure. Used by one thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "daemon/cli/run_watcher.h"

namespace atolld {

class StartWatch {
 public:
  // How long too many workers must keep failing. It is long enough to correct a mistyped path, and
  // short enough for a user to wait.
  static constexpr double kPatienceSeconds = 20;
  static constexpr uint32_t kFailures = 3;  // failures of a worker in a row without a contribution

  // `quorum` is the number of trainers that a round needs.
  explicit StartWatch(size_t quorum) : quorum_(quorum) {}

  // Returns, in one line, the reason why fewer peers than the quorum can train, counting the
  // `peers` peers of this machine and any others. Returns nullopt as long as enough may train.
  // `now_seconds` is the time of any monotonic clock.
  std::optional<std::string> Hopeless(const RunHistory& history, size_t peers, double now_seconds);

 private:
  const size_t quorum_;
  std::optional<double> since_;  // the time since which too many workers have failed
};

}  // namespace atolld

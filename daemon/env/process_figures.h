// Figures of how much a process uses of its machine and what the machine has left, for /metrics and
// for a peer's report about itself.
//
// The figures are only for people and alarms: no decision of the protocol depends on them. A figure
// that cannot be read is 0.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "absl/time/time.h"
#include "daemon/env/env.h"

namespace atolld {

struct ProcessFigures {
  uint64_t resident_bytes = 0;
  uint64_t virtual_bytes = 0;
  double cpu_seconds = 0;  // The CPU time of all threads, user and system.
  uint64_t open_descriptors = 0;
  uint64_t most_descriptors = 0;  // The soft limit RLIMIT_NOFILE.
  uint64_t disk_free_bytes = 0;   // Available to this user on the disk with the process's folder.
  uint64_t memory_available_bytes = 0;  // Under the tightest limit, which may be a container's.
  double started_unix_seconds = 0;
  double late_seconds = 0;  // The total delay of the loop's measuring timer.
};

// Reads all figures except the last two. `dir` is the process's folder. This call blocks and may be
// made from any thread.
ProcessFigures ReadProcessFigures(const std::string& dir);

// Reads the figures repeatedly on the pool, and measures once a second how late the loop is.
//
// Used on the loop thread, except for newest().
class ProcessSampler {
 public:
  static constexpr absl::Duration kBetweenReads = absl::Seconds(5);
  static constexpr absl::Duration kBetweenLooks = absl::Seconds(1);

  // Reads the figures once immediately, which blocks, so that newest() always has figures.
  // Construct it before the loop runs.
  ProcessSampler(Env env, std::string dir);

  ProcessFigures newest() const;  // May be called from any thread.

 private:
  void Read();
  void Look();

  const Env env_;
  const std::string dir_;
  const double started_unix_seconds_;

  absl::Time due_;  // The time at which the measuring timer is due. Used only on the loop thread.

  // Guarded by mutex_.
  mutable std::mutex mutex_;
  ProcessFigures figures_;
  absl::Duration late_;

  CallbackGuard guard_;
};

}  // namespace atolld

// What a process of Atoll uses of its machine, and what the machine has left, for /metrics and for
// what a peer tells of itself.
//
// Figures are for people and alarms alone: no decision of the protocol rests on them. What cannot
// be read is 0.
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
  double cpu_seconds = 0;  // of all threads, user and system
  uint64_t open_descriptors = 0;
  uint64_t most_descriptors = 0;        // RLIMIT_NOFILE, the soft one
  uint64_t disk_free_bytes = 0;         // that this user may take, where its folder lies
  uint64_t memory_available_bytes = 0;  // by the tightest limit, a container's too
  double started_unix_seconds = 0;
  double late_seconds = 0;  // by how much the loop was late, all looks together
};

// All but the last two. `dir`: its folder. Blocking, any thread.
ProcessFigures ReadProcessFigures(const std::string& dir);

// Reads the figures again and again, on the pool, and looks once a second how late the loop is.
//
// Loop thread, but for newest().
class ProcessSampler {
 public:
  static constexpr absl::Duration kBetweenReads = absl::Seconds(5);
  static constexpr absl::Duration kBetweenLooks = absl::Seconds(1);

  // Reads at once, which blocks, so that there always are figures: before the loop runs.
  ProcessSampler(Env env, std::string dir);

  ProcessFigures newest() const;  // any thread

 private:
  void Read();
  void Look();

  const Env env_;
  const std::string dir_;
  const double started_unix_seconds_;

  absl::Time due_;  // the next look; the loop's own

  // Guarded by mutex_.
  mutable std::mutex mutex_;
  ProcessFigures figures_;
  absl::Duration late_;

  CallbackGuard guard_;
};

}  // namespace atolld

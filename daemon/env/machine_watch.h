// Watches for two machine faults that cause no error: a disk that is slow to make writes durable,
// and a wall clock that jumps backwards.
//
// SyncTimes measures each fsync (posix_files.cc), ClockSteps compares the wall clock with the
// monotonic clock, and MachineWatch logs what these two find.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "daemon/env/repeated_lines.h"

namespace atolld {

struct SlowSync {
  std::string path;
  absl::Duration took;
  uint64_t bytes = 0;  // The bytes written since the previous fsync.
};

// Returns a text such as "an fsync of /a/log took 4.2 s for 12 kB".
std::string Describe(const SlowSync& sync);

// Remembers the fsyncs that were slow for the number of bytes that they had to write. May be called
// from any thread.
class SyncTimes {
 public:
  // Adds an fsync that ended at `now`. All times must be of the same monotonic clock.
  void Add(absl::Time now, absl::string_view path, absl::Duration took, uint64_t bytes);

  // Returns the longest slow fsync of the last ten minutes, or nullopt if none was slow.
  std::optional<SlowSync> Longest(absl::Time now) const;

 private:
  struct Span {
    absl::Time begin = absl::InfinitePast();
    std::optional<SlowSync> longest;
  };

  mutable std::mutex mutex_;
  Span newest_, before_;  // Each covers five minutes. Guarded by mutex_.
};

// Detects that a wall clock went back. Pure. Used by one thread.
class ClockSteps {
 public:
  // Returns how far the wall clock has gone back since the last call; zero if it has not.
  absl::Duration Look(absl::Time monotonic, absl::Time wall);

 private:
  std::optional<absl::Duration> offset_;  // The wall clock's time minus the monotonic clock's.
};

// Used on the loop thread.
class MachineWatch {
 public:
  static constexpr absl::Duration kBetweenLooks = absl::Seconds(1);

  // All arguments must outlive this object. It starts to watch immediately.
  MachineWatch(Executor& executor, Log& log, const SyncTimes& syncs);

 private:
  void Look();

  Executor& executor_;
  Log& log_;
  const SyncTimes& syncs_;
  RepeatedLines repeated_;
  ClockSteps steps_;
  CallbackGuard guard_;
};

}  // namespace atolld

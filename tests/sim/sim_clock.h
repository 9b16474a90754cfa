// A machine's two clocks with their errors: a monotonic clock that drifts, and a wall clock that
// has an offset, drifts and is stepped.
//
// Both are functions of the world's true time and draw no random numbers. They keep running when
// the machine's process is restarted.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace atolld {

class SimClock {
 public:
  // Monotonic returns the value of the monotonic clock at the true time `now`. TrueDelay returns
  // the true time after which that clock has advanced by at least `delay`.
  absl::Duration Monotonic(absl::Duration now) const;
  absl::Duration TrueDelay(absl::Duration now, absl::Duration delay) const;

  absl::Time Wall(absl::Duration now) const;

  // From now on the monotonic clock gains `parts_per_million` (or loses, if negative). It never
  // jumps.
  void SetDrift(absl::Duration now, int64_t parts_per_million);
  // The wall clock is now `offset` ahead of the true time, and gains `parts_per_million` from here
  // on.
  void SetWall(absl::Duration now, absl::Duration offset, int64_t parts_per_million);
  void StepWall(absl::Duration by) { wall_.base += absl::ToInt64Nanoseconds(by); }

 private:
  // A clock: base + (true time - since) * (1 + drift), in nanoseconds.
  struct Line {
    int64_t base = 0;
    int64_t since = 0;
    int64_t parts_per_million = 0;
    int64_t At(int64_t now) const;
  };
  Line monotonic_;
  Line wall_;
};

}  // namespace atolld

// A machine's two clocks, as far as they are wrong: a monotonic one that drifts, and a wall clock
// that is off, drifts and is stepped.
//
// Both are functions of the world's true time; nothing is drawn here. They outlive the lives of the
// machine's process.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace atolld {

class SimClock {
 public:
  // How far the monotonic clock has come at the true time `now`, and how long in true time until it
  // has gone on by `delay` at least.
  absl::Duration Monotonic(absl::Duration now) const;
  absl::Duration TrueDelay(absl::Duration now, absl::Duration delay) const;

  absl::Time Wall(absl::Duration now) const;

  // From now on the monotonic clock gains `parts_per_million` (or loses, below zero). It never
  // jumps.
  void SetDrift(absl::Duration now, int64_t parts_per_million);
  // The wall clock is `offset` ahead of the truth now and gains so much from here.
  void SetWall(absl::Duration now, absl::Duration offset, int64_t parts_per_million);
  void StepWall(absl::Duration by) { wall_.base += absl::ToInt64Nanoseconds(by); }

 private:
  // base + (true time - since) * (1 + drift), in nanoseconds
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

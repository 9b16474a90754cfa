// Line: one direction of a line of the lab's network, as a function of time.
//
// A packet waits until the line has sent the packets before it, is sent at the line's rate, and
// arrives after the delay. A packet that would have to wait longer than `queue` is dropped, as in a
// router with a full buffer. A share of the packets, drawn from the seed, is lost on the way. This
// code has no clock and does no I/O: a line consists of a few numbers, and its queue is represented
// by the time at which the line becomes free.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace atolld {

struct LineSettings {
  std::string name;
  double bits_per_second = 0;
  absl::Duration delay;  // in one direction, in addition to the time of sending
  absl::Duration queue;  // the longest wait before the line
  double loss = 0;       // the share of packets that is lost, 0 to 1
};

struct LineCounts {
  uint64_t packets = 0;  // sent packets, including lost ones
  uint64_t bytes = 0;
  uint64_t dropped = 0;  // packets dropped because the queue was full
  uint64_t lost = 0;
  absl::Duration longest_wait;
};

class Line {
 public:
  Line(LineSettings settings, uint64_t seed);

  // Called when a packet of `segments` segments arrives at the line at `now`, in nanoseconds of any
  // one clock. Returns the time at which its last bit is at the other end, or nullopt if the packet
  // was dropped or lost.
  std::optional<int64_t> Send(int64_t now, uint64_t bytes, uint64_t segments);

  const LineSettings& settings() const { return settings_; }
  const LineCounts& counts() const { return counts_; }

 private:
  const LineSettings settings_;
  const int64_t delay_;
  const int64_t queue_;
  const double nanoseconds_per_byte_;

  uint64_t random_;
  int64_t free_at_ = 0;
  LineCounts counts_;
};

}  // namespace atolld

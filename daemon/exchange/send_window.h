// SendWindow: how far one contributor's stream may run ahead of the means that come back on it.
//
// A mean needs everybody's chunk, so chunks far ahead of the slowest contributor's are of no use:
// they fill the buffers on the way and take the line from the means that others wait for. In flight
// is what was sent and has no mean yet. It is bounded as TCP's congestion windows are, by what the
// way holds:
//
//   limit = max(floor / 2, 1.2 x rate x latency)
//
// with the least time from a chunk to its mean, and the greatest rate of late at which bytes were
// settled (Cardwell et al. 2016, BBR: bytes settled while a chunk was in flight, by that time). The
// fifth above it lets a stream grow into a line that has become free. More overfills the queues of
// fat long lines, and the packets lost there cost more than the reserve is worth. Until the first
// mean it is the whole floor: how fast so much comes in shows what a line can do that waits for a
// slower one afterwards. The lowest chunk without a mean may always go, so streams that wait for
// each other never stand still: all send in ascending order. Loop thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "absl/time/time.h"

namespace atolld {

class SendWindow {
 public:
  // Half of it keeps lines of 100 Mbit/s and 20 ms busy; with all of it, streams run so far ahead
  // of each other that the last is alone on a line at the end.
  struct Floor {
    size_t bytes = size_t{512} << 10;
    size_t chunks = 4;  // of the largest so far
  };

  explicit SendWindow(Floor floor) : floor_(floor) {}

  void Restart();  // a new call: nothing is in flight, what was measured stays

  // Whether this chunk, the lowest of those that are still to be sent, may go now.
  bool Allows(uint32_t chunk) const;
  void OnSent(uint32_t chunk, size_t bytes, absl::Time now);
  // Its mean is here. One that was not in flight is ignored.
  void OnMean(uint32_t chunk, absl::Time now);
  // It goes elsewhere now, or its mean came from elsewhere.
  void Forget(uint32_t chunk);

  size_t limit() const;
  size_t in_flight_bytes() const { return in_flight_bytes_; }
  // How many chunks more the limit allows; below 0 where it has shrunk.
  double FreeChunks() const;
  // No mean has come for so long that nobody ought to wait for this stream.
  bool Stalls(absl::Time now) const;

  static constexpr absl::Duration kLeastPatience = absl::Seconds(1);

 private:
  struct Sent {
    size_t bytes = 0;
    absl::Time at;
    uint64_t settled_before = 0;
  };
  void Measure(const Sent& sent, absl::Time now);

  const Floor floor_;

  std::map<uint32_t, Sent> in_flight_;
  absl::Time waits_since_;  // for the next mean, where anything is in flight
  size_t in_flight_bytes_ = 0;
  uint64_t settled_bytes_ = 0;
  size_t largest_ = 0;             // message so far
  std::deque<double> late_rates_;  // bytes a second, of the last chunks
  absl::Duration least_latency_ = absl::InfiniteDuration();
  size_t held_ = 0;  // bytes on the way, as measured
};

}  // namespace atolld

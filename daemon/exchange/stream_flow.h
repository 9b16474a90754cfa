// How the streams of an exchange flow: which of a pair's streams carries a chunk (Lane), how far
// one runs ahead of its means (SendWindow) and of the others (StreamPace), how much waits in a
// call, and what it has sent (StreamMeter).
//
// All but Lane, which is a value: loop thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "membership/planning/arrival_log.h"

namespace atolld {

// Which of a pair's streams carries a chunk, its contribution up and its mean down.
//
// One TCP connection holds some 18 MB in flight (what gRPC lets a receiver announce), and what it
// loses it makes up for slowly: a fat long link needs several, each a stream with every n-th chunk.
// The side that dials says how many; the other one takes what it is told.
struct Lane {
  // More connections than any link needs, and few enough that nobody can open thousands.
  static constexpr uint32_t kMost = 16;

  uint32_t number = 0;
  uint32_t count = 1;

  bool Carries(uint32_t chunk) const { return chunk % count == number; }
  bool Valid() const { return count >= 1 && count <= kMost && number < count; }
  bool operator<(const Lane& other) const {
    return std::tie(count, number) < std::tie(other.count, other.number);
  }
};

// How far one contributor's stream may run ahead of the means that come back on it.
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
// each other never stand still: all send in ascending order.
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

// Keeps the streams of one peer in step.
//
// Each stream has a reach: up to which share of its chunks any other may send, for this one to keep
// up. A stream that has sent a larger share than the least reach of the others waits. Whoever
// notices that a stream stalls (it is asked with `stalls`) waits for it no more, until the stream
// tells its reach again. Looking at one stream costs O(log n), and each event looks at a few,
// however many there are.
class StreamPace {
 public:
  using Stream = uint64_t;
  using Stalls = absl::FunctionRef<bool(Stream)>;
  static constexpr double kFree = std::numeric_limits<double>::infinity();

  // kFree: it holds nobody up.
  void SetReach(Stream stream, double reach);
  void Forget(Stream stream);
  // Whether a stream that has sent this share of its chunks may send more; otherwise it waits.
  bool MayGo(Stream stream, double share, Stalls stalls);
  // One that waits and need not any more: it waits no longer.
  std::optional<Stream> TakeFree(Stalls stalls);
  uint64_t looked_at() const { return looked_at_; }  // streams, so far

 private:
  using Order = std::set<std::pair<double, Stream>>;
  double ReachOfOthers(Stream stream, Stalls stalls);
  static void Place(Stream stream, double value, std::map<Stream, double>* values, Order* order);
  static void Remove(Stream stream, std::map<Stream, double>* values, Order* order);

  std::map<Stream, double> reach_;  // those that are not free
  Order by_reach_;
  std::map<Stream, double> share_;  // of those that wait
  Order by_share_;
  uint64_t looked_at_ = 0;
};

// Above this many unsent bytes a stream waits for on_writable: enough to keep a fast link busy,
// little enough that a slow one does not take memory. Above the transport's low-water mark of 256
// KiB.
inline constexpr size_t kMaxUnsentBytes = size_t{1} << 19;

// Chunks that the pool may compress ahead of the wire: enough to keep two threads and the link
// busy.
inline constexpr size_t kChunksAhead = 4;

// What the streams of all exchanges of a process have sent and received, both roles: whole messages
// with their prefixes of five bytes.
struct TrafficCount {
  uint64_t sent_bytes = 0;
  uint64_t received_bytes = 0;
};

// What one stream has sent, and since when it has not moved.
//
// A stream moves while bytes leave, or when nothing waits to be sent. Its bytes are counted into
// the process's traffic as they leave.
class StreamMeter {
 public:
  explicit StreamMeter(TrafficCount* traffic) : traffic_(traffic) {}

  void Restart(absl::Time now) {
    counted_ = 0;
    moved_ = now;
  }

  void Update(const Call& call, absl::Time now) {
    const uint64_t sent = call.sent_bytes();
    if (sent > counted_ || (sent > 0 && call.unsent_bytes() == 0)) moved_ = now;
    if (traffic_ != nullptr) traffic_->sent_bytes += sent - counted_;
    counted_ = sent;
  }

  void Touch(absl::Time now) { moved_ = now; }
  absl::Time moved() const { return moved_; }

 private:
  TrafficCount* const traffic_;

  uint64_t counted_ = 0;
  absl::Time moved_;
};

// Of a message that has come, without its prefix. nullptr: nobody counts.
inline void CountArrival(TrafficCount* traffic, size_t message_bytes) {
  if (traffic != nullptr) traffic->received_bytes += 5 + message_bytes;
}

// Of a frame that has come from `peer`: as many bytes as its sender counts for it. nullptr: nobody
// asks what came when.
inline void NoteArrival(ArrivalLog* arrivals, const std::string& peer, const Frame& frame,
                        absl::Time now) {
  if (arrivals == nullptr) return;
  arrivals->Note(peer, now, frame.message.size() + frame.payload.size());
}

// Lets a call go from inside one of its own callbacks.
inline void DestroyLater(Executor& executor, std::unique_ptr<Call> call) {
  executor.Post([call = std::shared_ptr<Call>(std::move(call))] {});
}

}  // namespace atolld

// The flow control of an exchange's streams: which of a pair's streams carries a chunk (Lane), how
// far a stream may run ahead of its means (SendWindow) and of the other streams (StreamPace), how
// much may wait in a call, and what a stream has sent (StreamMeter).
//
// Lane is a plain value; the other classes are used on the loop thread.
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

// One of the streams between two peers. It carries some of the chunks: their contributions in one
// direction and their means in the other.
//
// One TCP connection has at most about 18 MB in flight (the largest window that gRPC lets a
// receiver announce), and it recovers slowly from losses. So a link of high bandwidth and latency
// needs several connections, each with a stream that carries every n-th chunk. The side that dials
// decides how many; the other side accepts that.
struct Lane {
  // The most lanes of a pair. This is more than any link needs, and few enough that no peer can
  // open thousands of connections.
  static constexpr uint32_t kMost = 16;

  uint32_t number = 0;
  uint32_t count = 1;

  bool Carries(uint32_t chunk) const { return chunk % count == number; }
  bool Valid() const { return count >= 1 && count <= kMost && number < count; }
  bool operator<(const Lane& other) const {
    return std::tie(count, number) < std::tie(other.count, other.number);
  }
};

// Decides how far one contributor's stream may run ahead of the means that come back on it.
//
// A mean needs the chunk of every contributor, so a contributor gains nothing by sending chunks far
// ahead of the slowest contributor: they fill the buffers on the path and delay the means for which
// other peers wait. A chunk is in flight if it was sent and its mean has not arrived yet. As in a
// TCP congestion window, the amount in flight is limited to what the path can hold:
//
//   limit = max(floor / 2, 1.2 x rate x latency)
//
// Here, latency is the least time from a chunk to its mean, and rate is the greatest recent rate at
// which bytes were settled (Cardwell et al. 2016, BBR: the bytes settled while a chunk was in
// flight, divided by that time). The extra fifth lets a stream grow into a line that has become
// free. A larger reserve would overfill the queues of lines with high bandwidth and latency, and
// the lost packets would cost more than the reserve gains. Until the first mean the limit is the
// whole floor, so that the line's own speed is measured before the stream has to wait for slower
// ones. The lowest chunk without a mean may always be sent, and all streams send in ascending
// order, so streams that wait for each other never stop for ever.
class SendWindow {
 public:
  // The floor of the limit. Half of it keeps a line of 100 Mbit/s and 20 ms busy. With the whole
  // floor, some streams would run so far ahead that the last stream would be alone on its line at
  // the end.
  struct Floor {
    size_t bytes = size_t{512} << 10;
    size_t chunks = 4;  // Multiplied by the size of the largest message so far.
  };

  explicit SendWindow(Floor floor) : floor_(floor) {}

  void Restart();  // Called at a new call. Nothing is in flight then; measurements are kept.

  // Returns true if this chunk, which must be the lowest unsent chunk, may be sent now.
  bool Allows(uint32_t chunk) const;
  void OnSent(uint32_t chunk, size_t bytes, absl::Time now);
  // Called when the chunk's mean has arrived. Does nothing if the chunk was not in flight.
  void OnMean(uint32_t chunk, absl::Time now);
  // Called when the chunk is now sent to another peer, or its mean came from another peer.
  void Forget(uint32_t chunk);

  size_t limit() const;
  size_t in_flight_bytes() const { return in_flight_bytes_; }
  // Returns the number of further chunks that the limit allows; below 0 if the limit has shrunk.
  double FreeChunks() const;
  // Returns true if no mean has come for so long that no other stream should wait for this one.
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
  // The time since which the stream waits for its next mean, if a chunk is in flight.
  absl::Time waits_since_;
  size_t in_flight_bytes_ = 0;
  uint64_t settled_bytes_ = 0;
  size_t largest_ = 0;             // The largest message so far.
  std::deque<double> late_rates_;  // The rates of the last chunks, in bytes a second.
  absl::Duration least_latency_ = absl::InfiniteDuration();
  size_t held_ = 0;  // The measured number of bytes that the path holds.
};

// Keeps the streams of one peer in step.
//
// Each stream has a reach: the share of its chunks that it could send now. No other stream should
// send a larger share of its own chunks. A stream that has sent a larger share than the least reach
// of the others waits. If `stalls` returns true for a stream, no other stream waits for it until
// its reach is set again. To examine one stream takes O(log n), and each event examines only a few
// streams, however many there are.
class StreamPace {
 public:
  using Stream = uint64_t;
  using Stalls = absl::FunctionRef<bool(Stream)>;
  static constexpr double kFree = std::numeric_limits<double>::infinity();

  // Sets a stream's reach. No stream waits for a stream with the reach kFree.
  void SetReach(Stream stream, double reach);
  void Forget(Stream stream);
  // Returns true if a stream that has sent this share of its chunks may send more; otherwise it
  // waits.
  bool MayGo(Stream stream, double share, Stalls stalls);
  // Returns a waiting stream that need not wait any longer, and no longer counts it as waiting.
  // Returns nullopt if there is no such stream.
  std::optional<Stream> TakeFree(Stalls stalls);
  uint64_t looked_at() const { return looked_at_; }  // The number of streams examined so far.

 private:
  using Order = std::set<std::pair<double, Stream>>;
  double ReachOfOthers(Stream stream, Stalls stalls);
  static void Place(Stream stream, double value, std::map<Stream, double>* values, Order* order);
  static void Remove(Stream stream, std::map<Stream, double>* values, Order* order);

  std::map<Stream, double> reach_;  // The reach of each stream that is not free.
  Order by_reach_;
  std::map<Stream, double> share_;  // The share of each stream that waits.
  Order by_share_;
  uint64_t looked_at_ = 0;
};

// A stream with more unsent bytes than this waits for on_writable. This is enough to keep a fast
// link busy, and little enough that a slow link does not take much memory. It must be above the
// transport's low-water mark of 256 KiB.
inline constexpr size_t kMaxUnsentBytes = size_t{1} << 19;

// The number of chunks that the pool may compress before they can be sent; enough to keep two
// threads and the link busy.
inline constexpr size_t kChunksAhead = 4;

// The bytes that the streams of all exchanges of a process have sent and received, in both roles:
// whole messages with their prefixes of five bytes.
struct TrafficCount {
  uint64_t sent_bytes = 0;
  uint64_t received_bytes = 0;
};

// Counts what one stream has sent, and records when the stream last moved.
//
// A stream moves when bytes are sent, and while no bytes wait. The bytes are added to the process's
// traffic when they are sent.
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

// Counts a received message; `message_bytes` is its size without its prefix. Does nothing if
// `traffic` is nullptr.
inline void CountArrival(TrafficCount* traffic, size_t message_bytes) {
  if (traffic != nullptr) traffic->received_bytes += 5 + message_bytes;
}

// Adds a frame that came from `peer` to the log of arrivals, with the size that its sender counts
// for it. Does nothing if `arrivals` is nullptr.
inline void NoteArrival(ArrivalLog* arrivals, const std::string& peer, const Frame& frame,
                        absl::Time now) {
  if (arrivals == nullptr) return;
  arrivals->Note(peer, now, frame.message.size() + frame.payload.size());
}

// Destroys a call later, from the loop, so that it can be dropped from inside one of its own
// callbacks.
inline void DestroyLater(Executor& executor, std::unique_ptr<Call> call) {
  executor.Post([call = std::shared_ptr<Call>(std::move(call))] {});
}

}  // namespace atolld

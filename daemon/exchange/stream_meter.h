// StreamMeter: what one stream has sent, and since when it has not moved.
//
// A stream moves while bytes leave, or when nothing waits to be sent. Its bytes are counted into
// the process's traffic as they leave. Loop thread.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "daemon/exchange/exchange.h"

namespace atolld {

// Above this many unsent bytes a stream waits for on_writable: enough to keep a fast link busy,
// little enough that a slow one does not take memory. Above the transport's low-water mark of 256
// KiB.
inline constexpr size_t kMaxUnsentBytes = size_t{1} << 19;

// Chunks that the pool may compress ahead of the wire: enough to keep two threads and the link
// busy.
inline constexpr size_t kChunksAhead = 4;

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

// Of a frame that has come from `peer`: as many bytes as its sender counts for it.
inline void NoteArrival(const ExchangeSettings& settings, const std::string& peer,
                        const Frame& frame, absl::Time now) {
  if (settings.arrivals == nullptr) return;
  settings.arrivals->Note(peer, now, frame.message.size() + frame.payload.size());
}

// Lets a call go from inside one of its own callbacks.
inline void DestroyLater(Executor& executor, std::unique_ptr<Call> call) {
  executor.Post([call = std::shared_ptr<Call>(std::move(call))] {});
}

}  // namespace atolld

#include "daemon/transport/wire.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "daemon/env/network.h"
#include "daemon/transport/grpc_values.h"

namespace atolld {
namespace {

// When a call breaks, gRPC first fails the server's read and says a moment later, on the same
// thread, that the call is cancelled. An ended read only counts as a half-close if nothing has
// followed for this long.
constexpr absl::Duration kHalfCloseDelay = absl::Milliseconds(20);

}  // namespace

LoopEnd::LoopEnd(Executor& executor, bool reads_ahead)
    : executor_(executor), reads_ahead_(reads_ahead) {}

void LoopEnd::Start(std::shared_ptr<Wire> wire, Call::Events events) {
  CHECK(wire_ == nullptr && !detached_);
  wire_ = std::move(wire);
  events_ = std::move(events);
}

void LoopEnd::Read() {
  CHECK(!asked_);
  asked_ = true;
  if (closed_) return;
  CHECK(wire_ != nullptr);
  if (!reads_ahead_) {
    wire_->AskRead();
    return;
  }
  if (!ahead_.has_value()) return;  // a read is under way
  delivery_posted_ = true;
  Frame next = *std::move(ahead_);
  ahead_.reset();
  executor_.Post([self = shared_from_this(), frame = std::move(next)]() mutable {
    self->delivery_posted_ = false;
    self->Deliver(std::move(frame));
  });
  // Only now: the end of the call, which this read may find, must come after the frame.
  wire_->AskRead();
}

void LoopEnd::Detach() {
  detached_ = true;
  wire_ = nullptr;
  ahead_.reset();
  // A callback that destroys its own Call still stands on its captures.
  if (!dispatching_) events_ = Call::Events();
}

void LoopEnd::PostArrived(Frame frame) {
  executor_.Post([self = shared_from_this(), frame = std::move(frame)]() mutable {
    self->Arrived(std::move(frame));
  });
}

void LoopEnd::PostWritable() {
  if (writable_posted_.exchange(true)) return;
  executor_.Post([self = shared_from_this()] {
    self->writable_posted_ = false;
    // More may have been queued since; then another write will end.
    if (self->wire_ == nullptr || self->wire_->unsent_bytes() > Wire::kLowWaterBytes) return;
    self->Dispatch(self->events_.on_writable);
  });
}

void LoopEnd::PostReadEnded() {
  executor_.Post([self = shared_from_this()] {
    if (self->detached_ || self->closed_) return;
    self->executor_.RunAfter(kHalfCloseDelay, [self] { self->Closed(absl::OkStatus()); });
  });
}

void LoopEnd::PostClosed(absl::Status status) {
  executor_.Post([self = shared_from_this(), status = std::move(status)] { self->Closed(status); });
}

void LoopEnd::Arrived(Frame frame) {
  if (detached_ || closed_) return;
  if (!asked_ || delivery_posted_) {
    ahead_ = std::move(frame);
    return;
  }
  if (reads_ahead_) wire_->AskRead();
  Deliver(std::move(frame));
}

void LoopEnd::Deliver(Frame frame) {
  if (detached_ || closed_) return;
  asked_ = false;
  Dispatch(events_.on_frame, std::move(frame));
}

void LoopEnd::Closed(absl::Status status) {
  if (closed_) return;
  closed_ = true;
  closed_status_ = status;
  wire_ = nullptr;
  ahead_.reset();
  if (!detached_) Dispatch(events_.on_closed, std::move(status));
  if (!dispatching_) events_ = Call::Events();
}

template <typename Callback, typename... Arguments>
void LoopEnd::Dispatch(const Callback& callback, Arguments&&... arguments) {
  if (!callback) return;
  dispatching_ = true;
  callback(std::forward<Arguments>(arguments)...);
  dispatching_ = false;
  if (detached_) events_ = Call::Events();
}

// -----------------------------------------------------------------------------------------------

namespace {

// gRPC's length-prefixed message: one flag byte, four of length.
constexpr size_t kPrefixBytes = 5;

size_t WireBytes(const Frame& frame) { return kPrefixBytes + FrameBytes(frame); }

}  // namespace

Wire::Wire(std::shared_ptr<LoopEnd> end, size_t most_bytes)
    : end_(std::move(end)), most_bytes_(most_bytes) {}

void Wire::Send(Frame frame) {
  const size_t bytes = WireBytes(frame);
  if (bytes > most_bytes_) {
    Break(absl::ResourceExhaustedError(absl::StrCat(
              "a message of ", bytes, " bytes to send is over the limit of ", most_bytes_)),
          /*gently=*/true);
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (over_ || writes_broken_) return;
  unsent_bytes_ += bytes;
  queue_.push_back(std::move(frame));
  PumpLocked();
}

void Wire::End(const absl::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (over_ || end_wanted_.has_value()) return;
  end_wanted_ = status;
  PumpLocked();
}

void Wire::AskRead() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (over_ || reading_) return;
  reading_ = true;
  StartReadLocked();
}

void Wire::Break(const absl::Status& status, bool gently) {
  end_->PostClosed(status);   // before what follows makes gRPC say something else
  std::deque<Frame> dropped;  // destroyed without the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  if (break_status_.ok()) break_status_ = status;
  dropped = DropQueueLocked();
  BreakLocked(gently);
}

// Starts the next write, or ends the call when everything is written.
void Wire::PumpLocked() {
  if (!started_ || over_ || writing_ || writes_broken_) return;
  if (!queue_.empty()) {
    const Frame frame = std::move(queue_.front());
    queue_.pop_front();
    sending_ = ToByteBuffer(frame);
    sending_bytes_ = WireBytes(frame);
    sent_bytes_ += sending_bytes_;
    writing_ = true;
    StartWriteLocked(sending_, !queue_.empty());
    return;
  }
  if (end_wanted_.has_value() && !finished_) FinishLocked(*end_wanted_);
}

std::deque<Frame> Wire::DropQueueLocked() {
  std::deque<Frame> dropped;
  dropped.swap(queue_);
  size_t bytes = 0;
  for (const Frame& frame : dropped) bytes += WireBytes(frame);
  unsent_bytes_ -= bytes;
  return dropped;
}

void Wire::WriteEnded(bool ok) {
  std::deque<Frame> dropped;
  grpc::ByteBuffer sent;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    writing_ = false;
    sent.Swap(&sending_);
    unsent_bytes_ -= std::exchange(sending_bytes_, 0);
    // A write that was under way when the call broke may still have ended well.
    ok = ok && !writes_broken_;
    if (ok) {
      PumpLocked();
    } else {
      writes_broken_ = true;
      dropped = DropQueueLocked();
      WriteBrokeLocked();
    }
  }
  if (ok && unsent_bytes_ <= kLowWaterBytes) end_->PostWritable();
}

void Wire::FrameCame(const grpc::ByteBuffer& buffer) {
  absl::StatusOr<Frame> frame = FromByteBuffer(buffer);
  if (frame.ok()) {
    if (!gives_parts_) frame->payload = frame->payload.Copy();
    end_->PostArrived(*std::move(frame));
  } else {
    Break(frame.status(), /*gently=*/true);
  }
}

}  // namespace atolld

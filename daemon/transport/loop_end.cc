#include "daemon/transport/loop_end.h"

#include <utility>

#include "compression/base/check.h"
#include "daemon/transport/wire.h"

namespace atolld {
namespace {

// When a call breaks, gRPC fails the server's read first and says that the call is cancelled a
// moment later, on the same thread. An ended read counts as a half-close only when nothing has
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

}  // namespace atolld

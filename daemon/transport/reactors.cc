#include "daemon/transport/reactors.h"

#include <grpc/support/time.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

grpc::WriteOptions OptionsFor(bool more_follows) {
  // With more to follow at once, gRPC may gather small frames into one packet.
  grpc::WriteOptions options;
  if (more_follows) options.set_buffer_hint();
  return options;
}

// gRPC counts in 32-bit milliseconds in places; ten years of waiting are as good as for ever.
constexpr absl::Duration kLongestDeadline = absl::Hours(24 * 365 * 10);

absl::Status BrokenByClient() {
  return absl::CancelledError("the client cancelled the call or its link broke");
}

}  // namespace

bool LiveCalls::Add(std::shared_ptr<Wire> wire) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) return false;
  const Wire* const key = wire.get();
  calls_.emplace(key, std::move(wire));
  return true;
}

void LiveCalls::Retire(const Wire* wire) {
  // All under the lock: once nothing is left, the executor may go.
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = calls_.find(wire);
  if (found == calls_.end()) return;
  executor_.Post([last = std::move(found->second)] {});
  calls_.erase(found);
  if (calls_.empty()) empty_.notify_all();
}

void LiveCalls::Close(const absl::Status& status) {
  std::vector<std::shared_ptr<Wire>> wires;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    for (const auto& [key, wire] : calls_) wires.push_back(wire);
  }
  for (const auto& wire : wires) wire->Break(status, /*gently=*/true);
}

void LiveCalls::WaitUntilEmpty() {
  std::unique_lock<std::mutex> lock(mutex_);
  empty_.wait(lock, [this] { return calls_.empty(); });
}

// ------------------------------------------------------------------------------------------------

ClientReactor::ClientReactor(std::shared_ptr<LoopEnd> end, std::shared_ptr<LiveCalls> live,
                             std::shared_ptr<grpc::Channel> channel, std::string address,
                             std::function<void()> on_unavailable)
    : Wire(std::move(end)),
      live_(std::move(live)),
      channel_(std::move(channel)),
      address_(std::move(address)),
      on_unavailable_(std::move(on_unavailable)),
      stub_(channel_) {}

void ClientReactor::Start(const std::string& method, absl::Duration deadline) {
  if (deadline < kLongestDeadline) {
    const gpr_timespec wait = gpr_time_from_nanos(absl::ToInt64Nanoseconds(deadline), GPR_TIMESPAN);
    context_.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), wait));
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!over_) {
      stub_.PrepareBidiStreamingCall(&context_, method, {}, this);
      // The loop starts operations at any time; the hold keeps the call until no more can come.
      AddHold();
      started_ = true;
      reading_ = true;
      StartReadLocked();
      StartCall();
      PumpLocked();
      return;
    }
  }
  live_->Retire(this);  // broken before it began, and its owner was told
}

void ClientReactor::StartReadLocked() { StartRead(&incoming_); }

void ClientReactor::StartWriteLocked(const grpc::ByteBuffer& buffer, bool more_follows) {
  StartWrite(&buffer, OptionsFor(more_follows));
}

void ClientReactor::FinishLocked(const absl::Status& /*status*/) {
  finished_ = true;
  StartWritesDone();
}

void ClientReactor::BreakLocked(bool /*gently*/) {
  if (over_) return;
  over_ = true;
  if (!started_) return;
  context_.TryCancel();
  RemoveHold();
}

// What the server sent before it ended the call can still be read.
void ClientReactor::WriteBrokeLocked() {}

void ClientReactor::OnReadDone(bool ok) {
  if (ok) {
    grpc::ByteBuffer buffer;
    buffer.Swap(&incoming_);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      reading_ = false;
    }
    FrameCame(buffer);
    return;
  }
  std::deque<Frame> dropped;
  const std::lock_guard<std::mutex> lock(mutex_);
  reading_ = false;
  if (over_) return;
  over_ = true;
  dropped = DropQueueLocked();
  RemoveHold();
}

void ClientReactor::OnDone(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) on_unavailable_();
  end_->PostClosed(Translate(status));
  const std::shared_ptr<LiveCalls> live = live_;
  live->Retire(this);  // the last line: this may be gone
}

absl::Status ClientReactor::Translate(const grpc::Status& status) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!break_status_.ok()) return break_status_;
  }
  if (status.ok()) return absl::OkStatus();
  // This side has not cancelled, so the other did: to us the call is broken.
  const absl::StatusCode code = status.error_code() == grpc::StatusCode::CANCELLED
                                    ? absl::StatusCode::kUnavailable
                                    : FromGrpc(status).code();
  return absl::Status(code, absl::StrCat(address_, ": ", status.error_message()));
}

// ------------------------------------------------------------------------------------------------

ServerReactor::ServerReactor(std::shared_ptr<LoopEnd> end, std::shared_ptr<LiveCalls> live,
                             grpc::GenericCallbackServerContext* context)
    : Wire(std::move(end)), live_(std::move(live)), context_(context) {
  started_ = true;
}

void ServerReactor::StartReadLocked() { StartRead(&incoming_); }

void ServerReactor::StartWriteLocked(const grpc::ByteBuffer& buffer, bool more_follows) {
  StartWrite(&buffer, OptionsFor(more_follows));
}

void ServerReactor::FinishLocked(const absl::Status& status) {
  if (finished_) return;
  finished_ = true;
  over_ = true;
  Finish(ToGrpc(status));
}

void ServerReactor::BreakLocked(bool gently) {
  if (context_ == nullptr) return;
  // A write that waits for the client's window, or a status behind it, would hold the call for as
  // long as the client likes; cancelling ends both.
  if (!gently || writing_ || finished_) context_->TryCancel();
  // With a write under way, its end brings the status.
  writes_broken_ = true;
  if (!writing_) FinishLocked(break_status_);
}

void ServerReactor::WriteBrokeLocked() {
  if (context_ != nullptr && !cancelled_) context_->TryCancel();
  FinishLocked(break_status_.ok() ? absl::CancelledError() : break_status_);
}

void ServerReactor::OnReadDone(bool ok) {
  grpc::ByteBuffer buffer;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    buffer.Swap(&incoming_);
    reading_ = !ok;  // after the end of the stream there is nothing more to ask for
  }
  if (ok) {
    FrameCame(buffer);
  } else {
    end_->PostReadEnded();
  }
}

void ServerReactor::OnCancel() {
  end_->PostClosed(BrokenByClient());
  std::deque<Frame> dropped;
  const std::lock_guard<std::mutex> lock(mutex_);
  cancelled_ = true;
  writes_broken_ = true;
  dropped = DropQueueLocked();
  if (!writing_) FinishLocked(absl::CancelledError());
}

void ServerReactor::OnDone() {
  absl::Status status;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    context_ = nullptr;
    status = writes_broken_ && break_status_.ok() ? BrokenByClient() : break_status_;
  }
  end_->PostClosed(std::move(status));
  const std::shared_ptr<LiveCalls> live = live_;
  live->Retire(this);  // the last line: this may be gone
}

}  // namespace atolld

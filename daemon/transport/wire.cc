#include "daemon/transport/wire.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/env/frame.h"
#include "daemon/transport/grpc_frame.h"
#include "daemon/transport/grpc_transport.h"

namespace atolld {
namespace {

// gRPC's length-prefixed message: one flag byte, four of length.
constexpr size_t kPrefixBytes = 5;

size_t WireBytes(const Frame& frame) { return kPrefixBytes + FrameBytes(frame); }

}  // namespace

// Both libraries number the codes as gRPC's protocol does.
grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

Wire::Wire(std::shared_ptr<LoopEnd> end) : end_(std::move(end)) {}

void Wire::Send(Frame frame) {
  const size_t bytes = WireBytes(frame);
  if (bytes > kMaxMessageBytes) {
    Break(absl::ResourceExhaustedError(absl::StrCat(
              "a message of ", bytes, " bytes to send is over the limit of ", kMaxMessageBytes)),
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

// Starts the next write, or the end when all is written.
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

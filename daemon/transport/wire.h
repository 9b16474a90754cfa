// The half of a call on gRPC's side: what client and server reactors share.
//
// A queue of frames to send with one write under way at a time, and the law that no operation
// starts once the call is over. A reactor ends by itself when its call breaks; it never needs the
// loop for that. Any thread; the lock is held for moments only.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/config.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "daemon/env/env.h"
#include "daemon/transport/loop_end.h"

namespace atolld {

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

class Wire {
 public:
  // on_writable comes at or below this: enough to keep a fast link busy for the time that the loop
  // needs to answer.
  static constexpr size_t kLowWaterBytes = size_t{256} << 10;

  explicit Wire(std::shared_ptr<LoopEnd> end);
  virtual ~Wire() = default;
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  void Send(Frame frame);

  // After all that was sent: the client's half-close, or the server's status. The first call
  // counts.
  void End(const absl::Status& status);

  // Asks for the next frame, unless a read is under way or the call is over.
  void AskRead();

  // Frames come with their payloads in gRPC's memory (Call::Events). Before the first read.
  void GiveParts() { gives_parts_ = true; }

  // Ends the call now; the owner is told `status`. Gently: so is the other side, where its link
  // takes it at once. Otherwise it sees a broken call.
  void Break(const absl::Status& status, bool gently);

  size_t unsent_bytes() const { return unsent_bytes_; }
  uint64_t sent_bytes() const { return sent_bytes_; }

 protected:
  // All with mutex_ held. FinishLocked: half-close or the server's status.
  virtual void StartReadLocked() = 0;
  virtual void StartWriteLocked(const grpc::ByteBuffer& buffer, bool more_follows) = 0;
  virtual void FinishLocked(const absl::Status& status) = 0;
  virtual void BreakLocked(bool gently) = 0;
  virtual void WriteBrokeLocked() = 0;
  void PumpLocked();
  std::deque<Frame> DropQueueLocked();

  // Reactions, on gRPC's threads without mutex_.
  void WriteEnded(bool ok);
  void FrameCame(const grpc::ByteBuffer& buffer);

  // Constant after construction.
  const std::shared_ptr<LoopEnd> end_;

  // Own synchronisation.
  std::atomic<size_t> unsent_bytes_{0};
  std::atomic<uint64_t> sent_bytes_{0};
  std::atomic<bool> gives_parts_{false};

  // Guarded by mutex_.
  std::mutex mutex_;
  bool started_ = false;  // operations may be started
  bool over_ = false;     // and may not any more
  bool reading_ = false;
  bool writing_ = false;
  bool writes_broken_ = false;
  bool finished_ = false;  // FinishLocked was called
  std::optional<absl::Status> end_wanted_;
  absl::Status break_status_;  // not OK: this side broke the call
  std::deque<Frame> queue_;
  grpc::ByteBuffer sending_;
  size_t sending_bytes_ = 0;
};

}  // namespace atolld

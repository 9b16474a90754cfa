// The two halves of a call. LoopEnd lives on the loop and runs the owner's callbacks. Wire is
// gRPC's side: the base class of the client's and the server's reactors.
//
// gRPC's threads never touch the owner: they post what has arrived to the loop through the LoopEnd.
// Once the LoopEnd is detached (because the Call was destroyed) or closed, it drops everything that
// still arrives. The callbacks are also destroyed on the loop.
//
// The Wire is a queue of frames to send, with one write under way at a time. Law: no operation
// starts once the call is over. The Wire ends by itself when its call breaks, without the loop. It
// is thread-safe; its lock is only held for moments.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "daemon/env/env.h"

namespace atolld {

class Wire;

// The half of a call on the loop.
class LoopEnd : public std::enable_shared_from_this<LoopEnd> {
 public:
  // `reads_ahead` is true for a client: it reads one frame ahead, because gRPC reports the end of a
  // client's call only while a read is under way.
  LoopEnd(Executor& executor, bool reads_ahead);

  // Used on the loop thread.
  void Start(std::shared_ptr<Wire> wire, Call::Events events);
  void Read();
  void Detach();  // may be called from inside a callback
  bool closed() const { return closed_; }
  const absl::Status& closed_status() const { return closed_status_; }

  // The Wire's reports. They may come from any thread.
  void PostArrived(Frame frame);
  void PostWritable();
  // Only on a server: the client has half-closed, or the call broke and PostClosed follows.
  void PostReadEnded();
  void PostClosed(absl::Status status);

 private:
  void Arrived(Frame frame);
  void Deliver(Frame frame);
  void Closed(absl::Status status);
  template <typename Callback, typename... Arguments>
  void Dispatch(const Callback& callback, Arguments&&... arguments);

  // Constant after construction.
  Executor& executor_;
  const bool reads_ahead_;

  // Atomic. It makes a burst of finished writes post only one task to the loop.
  std::atomic<bool> writable_posted_{false};

  // Used on the loop thread.
  std::shared_ptr<Wire> wire_;  // null once detached or closed
  Call::Events events_;
  // A frame that was read ahead and that the owner has not asked for yet.
  std::optional<Frame> ahead_;
  bool asked_ = false;
  bool delivery_posted_ = false;
  bool dispatching_ = false;
  bool detached_ = false;
  bool closed_ = false;
  absl::Status closed_status_;
};

// -----------------------------------------------------------------------------------------------

// The half of a call on gRPC's side.
class Wire {
 public:
  // The owner's on_writable is called when at most this many bytes are unsent. They keep a fast
  // link busy until the loop has answered.
  static constexpr size_t kLowWaterBytes = size_t{256} << 10;

  // `most_bytes` is the size limit of a message that is sent.
  Wire(std::shared_ptr<LoopEnd> end, size_t most_bytes);
  virtual ~Wire() = default;
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  void Send(Frame frame);

  // Ends the call once everything queued has been sent: a client half-closes, and a server sends
  // the status. Calls after the first have no effect.
  void End(const absl::Status& status);

  // Asks for the next frame, unless a read is under way or the call is over.
  void AskRead();

  // Makes frames arrive with their payloads still in gRPC's memory (see Call::Events). Call it
  // before the first read.
  void GiveParts() { gives_parts_ = true; }

  // Ends the call immediately; the owner gets `status`. If `gently` is true and the link takes it
  // immediately, the status is also sent to the other side; otherwise the other side sees a broken
  // call.
  void Break(const absl::Status& status, bool gently);

  size_t unsent_bytes() const { return unsent_bytes_; }
  uint64_t sent_bytes() const { return sent_bytes_; }

 protected:
  // These are called with mutex_ held. FinishLocked sends the client's half-close or the server's
  // status.
  virtual void StartReadLocked() = 0;
  virtual void StartWriteLocked(const grpc::ByteBuffer& buffer, bool more_follows) = 0;
  virtual void FinishLocked(const absl::Status& status) = 0;
  virtual void BreakLocked(bool gently) = 0;
  virtual void WriteBrokeLocked() = 0;
  void PumpLocked();
  std::deque<Frame> DropQueueLocked();

  // Called on gRPC's threads, without mutex_.
  void WriteEnded(bool ok);
  void FrameCame(const grpc::ByteBuffer& buffer);

  // Constant after construction.
  const std::shared_ptr<LoopEnd> end_;
  const size_t most_bytes_;

  // Atomic.
  std::atomic<size_t> unsent_bytes_{0};
  std::atomic<uint64_t> sent_bytes_{0};
  std::atomic<bool> gives_parts_{false};

  // Guarded by mutex_.
  std::mutex mutex_;
  bool started_ = false;  // true once operations may be started
  bool over_ = false;     // true once no operation may be started any more
  bool reading_ = false;
  bool writing_ = false;
  bool writes_broken_ = false;
  bool finished_ = false;  // true once FinishLocked was called
  std::optional<absl::Status> end_wanted_;
  absl::Status break_status_;  // not OK if this side broke the call
  std::deque<Frame> queue_;
  grpc::ByteBuffer sending_;
  size_t sending_bytes_ = 0;
};

}  // namespace atolld

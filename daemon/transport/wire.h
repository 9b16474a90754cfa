// The two halves of a call: LoopEnd stands on the loop and runs the owner's callbacks, Wire is on
// gRPC's side and is what client and server reactors share.
//
// gRPC's threads never touch the owner: they post what came through the LoopEnd. Once it is
// detached (the Call was destroyed) or closed, it drops whatever still comes. Callbacks are
// destroyed on the loop too.
//
// The Wire is a queue of frames to send with one write under way at a time, and the law that no
// operation starts once the call is over. It ends by itself when its call breaks; it never needs
// the loop for that. Any thread; its lock is held for moments only.
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

// The loop's half.
class LoopEnd : public std::enable_shared_from_this<LoopEnd> {
 public:
  // A client reads one frame ahead: with no read under way gRPC would not say that its call has
  // ended.
  LoopEnd(Executor& executor, bool reads_ahead);

  // Loop thread.
  void Start(std::shared_ptr<Wire> wire, Call::Events events);
  void Read();
  void Detach();  // also from inside a callback
  bool closed() const { return closed_; }
  const absl::Status& closed_status() const { return closed_status_; }

  // Any thread: what the wire has to tell.
  void PostArrived(Frame frame);
  void PostWritable();
  void PostReadEnded();  // server: the client has half-closed, or the call broke, which is about to
                         // be told
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

  // Own synchronisation: so that a burst of finished writes posts once.
  std::atomic<bool> writable_posted_{false};

  // The loop's.
  std::shared_ptr<Wire> wire_;  // until detached or closed
  Call::Events events_;
  std::optional<Frame> ahead_;  // read but not asked for yet
  bool asked_ = false;
  bool delivery_posted_ = false;
  bool dispatching_ = false;
  bool detached_ = false;
  bool closed_ = false;
  absl::Status closed_status_;
};

// -----------------------------------------------------------------------------------------------

// gRPC's half.
class Wire {
 public:
  // on_writable comes at or below this: enough to keep a fast link busy for the time that the loop
  // needs to answer.
  static constexpr size_t kLowWaterBytes = size_t{256} << 10;

  Wire(std::shared_ptr<LoopEnd> end, size_t most_bytes);  // of one message to send
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
  const size_t most_bytes_;

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

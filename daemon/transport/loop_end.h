// The half of a call that stands on the loop and runs the owner's callbacks; Wire (wire.h) is the
// other half.
//
// gRPC's threads never touch the owner: they post what came through this object. Once it is
// detached (the Call was destroyed) or closed, it drops whatever still comes. Callbacks are
// destroyed on the loop too.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "daemon/env/env.h"

namespace atolld {

class Wire;

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

}  // namespace atolld

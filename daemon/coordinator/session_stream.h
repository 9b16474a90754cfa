// SessionStream: one peer's Session call at the coordinator - frames in and out, and what may be
// wrong with them.
//
// The first message must be a Hello, come within the time-out, and name the peer that the call's
// certificate does. A peer that says more than it may is read no faster, so that what it sends
// fills its own line and not the coordinator's time. Loop thread. It outlives its own callbacks:
// the owner destroys it later, from the loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/coordinator/throttle.h"
#include "daemon/env/env.h"

namespace atolld {

class SessionStream {
 public:
  struct Events {
    std::function<void(const v1::Hello&)> on_hello;          // once, first
    std::function<void(const v1::PeerMessage&)> on_message;  // after it
    std::function<void()> on_closed;                         // once, last
  };

  // `messages_per_second`: what is read of it, and twice as many at once after a pause.
  SessionStream(Env env, std::unique_ptr<Call> call, absl::Duration hello_timeout,
                double messages_per_second, Events events);

  void Send(const Frame& frame);  // a CoordinatorMessage
  // Ends the call with this status once all that was sent has gone, for which it has half a minute.
  // Nothing is sent or heard after it.
  void End(const absl::Status& status);
  bool said_hello() const { return said_hello_; }
  std::optional<Identity> identity() const { return call_->identity(); }

 private:
  void OnFrame(const Frame& frame);
  void ReadNext();
  absl::Status CheckCaller(const v1::Hello& hello) const;
  void OnClosed();

  Env env_;
  const std::unique_ptr<Call> call_;
  const Events events_;
  Throttle pace_;
  std::string peer_;  // as its Hello has it
  bool said_hello_ = false;
  bool throttled_ = false;  // and the log says so
  bool ended_ = false;
  bool closed_ = false;
  CallbackGuard guard_;
};

// PackedMessages: what many Sessions are told is packed once, and their queues share its bytes;
// also over time, for as long as somebody has the message itself: thousands that join are told the
// same roster, one after another. Loop thread.
class PackedMessages {
 public:
  const Frame& Of(const std::shared_ptr<const v1::CoordinatorMessage>& message);
  // Those that nobody will send again.
  void ForgetOld();

 private:
  struct Packed {
    std::weak_ptr<const v1::CoordinatorMessage> message;
    Frame frame;
  };
  std::map<const v1::CoordinatorMessage*, Packed> packed_;
};

}  // namespace atolld

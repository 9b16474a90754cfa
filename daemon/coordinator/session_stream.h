// SessionStream: the Session call of one peer at the coordinator. It sends and receives the call's
// frames, and checks what it receives.
//
// The first message must be a Hello, arrive within the time-out, and name the same peer as the
// call's certificate. If a peer sends messages faster than allowed, they are read only at the
// allowed rate, so that one peer cannot take up the coordinator's time. Used on the loop thread.
// The owner must not destroy it inside one of its callbacks, but may do so later on the loop.
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
    std::function<void(const v1::Hello&)> on_hello;  // called once, before the others
    // Called for each message after the Hello.
    std::function<void(const v1::PeerMessage&)> on_message;
    std::function<void()> on_closed;  // called once, after all others
  };

  // `messages_per_second` is the highest rate at which messages are read. After a pause, the
  // messages of two seconds may be read at once.
  SessionStream(Env env, std::unique_ptr<Call> call, absl::Duration hello_timeout,
                double messages_per_second, Events events);

  void Send(const Frame& frame);  // the frame holds a CoordinatorMessage
  // Ends the call with this status when everything queued has been sent, or after half a minute.
  // Nothing is sent or received after this call.
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
  std::string peer_;  // the name of the peer in its Hello
  bool said_hello_ = false;
  bool throttled_ = false;  // true once the peer was throttled, so that the log says so only once
  bool ended_ = false;
  bool closed_ = false;
  CallbackGuard guard_;
};

// PackedMessages: packs a message that goes to many Sessions only once, so that their queues share
// its bytes. It keeps the packed form as long as the message itself exists, because thousands of
// peers that join one after another get the same roster. Used on the loop thread.
class PackedMessages {
 public:
  const Frame& Of(const std::shared_ptr<const v1::CoordinatorMessage>& message);
  // Drops the packed forms of messages that no longer exist.
  void ForgetOld();

 private:
  struct Packed {
    std::weak_ptr<const v1::CoordinatorMessage> message;
    Frame frame;
  };
  std::map<const v1::CoordinatorMessage*, Packed> packed_;
};

}  // namespace atolld

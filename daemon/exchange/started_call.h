// StartedCall and Refusals: helpers for an incoming call that is read before its owner is known,
// and is then handed on or refused.
//
// StartedCall wraps a call so that its next owner may call Start again; only the events of the
// newest Start are called. Refusals ends calls with a status and keeps each call until it has
// ended. Used on the loop thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "daemon/env/env.h"
#include "daemon/env/network.h"

namespace atolld {

class StartedCall final : public ForwardingCall {
 public:
  StartedCall(Executor& executor, std::unique_ptr<Call> inner);

  void Start(Events events) override;  // May be called any number of times.

 private:
  void TellClosed(const std::shared_ptr<const Events>& events);

  Executor& executor_;

  std::shared_ptr<const Events> events_;
  bool started_ = false;
  bool closed_ = false;
  absl::Status verdict_;
  CallbackGuard guard_;
};

class Refusals {
 public:
  explicit Refusals(Executor& executor) : executor_(executor) {}

  // Ends the call with `why`. It must be possible to start the call. A call that has not ended
  // after 30 s is dropped, and so is the oldest one if there are more than 64 calls, although their
  // status may then be lost.
  void Refuse(std::unique_ptr<Call> call, absl::Status why);

 private:
  Executor& executor_;

  uint64_t refused_ = 0;
  std::map<uint64_t, std::unique_ptr<Call>> calls_;
  CallbackGuard guard_;
};

}  // namespace atolld

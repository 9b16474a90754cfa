// StartedCall and Refusals: an incoming call is read before it is known whose it is, then handed on
// or refused.
//
// StartedCall wraps a call so that Start may be called again by the one that it is handed to: the
// newest events are heard. Refusals ends calls with a status and keeps each until it is over. Loop
// thread.
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

  void Start(Events events) override;  // any number of times

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

  // `call` is one that may be started. After 30 s, or past 64 of them, the oldest is let go though
  // its status may be lost.
  void Refuse(std::unique_ptr<Call> call, absl::Status why);

 private:
  Executor& executor_;

  uint64_t refused_ = 0;
  std::map<uint64_t, std::unique_ptr<Call>> calls_;
  CallbackGuard guard_;
};

}  // namespace atolld

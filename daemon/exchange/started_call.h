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
#include "daemon/env.h"

namespace atolld {

class StartedCall final : public Call {
 public:
  StartedCall(Executor& executor, std::unique_ptr<Call> inner);

  void Start(Events events) override;  // any number of times
  void Read() override { inner_->Read(); }
  void Write(Frame frame) override { inner_->Write(std::move(frame)); }
  size_t unsent_bytes() const override { return inner_->unsent_bytes(); }
  void Finish(absl::Status status) override { inner_->Finish(std::move(status)); }
  uint64_t sent_bytes() const override { return inner_->sent_bytes(); }
  std::string remote() const override { return inner_->remote(); }
  std::optional<Identity> identity() const override { return inner_->identity(); }

 private:
  void TellClosed(const std::shared_ptr<const Events>& events);

  Executor& executor_;

  std::shared_ptr<const Events> events_;
  bool started_ = false;
  bool closed_ = false;
  absl::Status verdict_;
  std::unique_ptr<Call> inner_;
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

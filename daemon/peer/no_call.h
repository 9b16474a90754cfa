// NoCall: a call that is over before it begins, where there is nobody to dial.
//
// Loop thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "daemon/env/env.h"

namespace atolld {

class NoCall final : public Call {
 public:
  // on_closed, later and from the loop, says `why`.
  NoCall(Executor& executor, std::string remote, absl::Status why);

  void Start(Events events) override;
  void Read() override {}
  void Write(Frame) override {}
  size_t unsent_bytes() const override { return 0; }
  void Finish(absl::Status) override {}
  uint64_t sent_bytes() const override { return 0; }
  std::string remote() const override { return remote_; }
  std::optional<Identity> identity() const override { return std::nullopt; }

 private:
  Executor& executor_;
  const std::string remote_;
  const absl::Status why_;
  CallbackGuard guard_;
};

}  // namespace atolld

// ForwardingCall: a call that passes everything on to the one that it owns; what a wrapper changes
// it overrides.
//
// The inner call is destroyed after whatever the wrapper adds. Loop thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "daemon/env/env.h"

namespace atolld {

class ForwardingCall : public Call {
 public:
  explicit ForwardingCall(std::unique_ptr<Call> inner) : inner_(std::move(inner)) {}

  void Start(Events events) override { inner_->Start(std::move(events)); }
  void Read() override { inner_->Read(); }
  void Write(Frame frame) override { inner_->Write(std::move(frame)); }
  size_t unsent_bytes() const override { return inner_->unsent_bytes(); }
  void Finish(absl::Status status) override { inner_->Finish(std::move(status)); }
  uint64_t sent_bytes() const override { return inner_->sent_bytes(); }
  std::string remote() const override { return inner_->remote(); }
  std::optional<Identity> identity() const override { return inner_->identity(); }

 private:
  const std::unique_ptr<Call> inner_;
};

}  // namespace atolld

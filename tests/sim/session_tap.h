// TapTransport: a process's transport that shows a listener what the process says on its Sessions.
//
// Every frame that the process writes on a call of the Session method is shown to the listener
// before it is written. So is the method of every call that the process makes or accepts.
// Everything else passes through unchanged. A shown frame counts as said, because it may be on the
// wire; the process must act accordingly from then on.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/env/env.h"

namespace atolld {

class TapTransport final : public Transport {
 public:
  using OnFrame = std::function<void(const Frame&)>;
  using OnCall = std::function<void(const std::string& method)>;

  // `under` must outlive this object.
  TapTransport(Transport& under, OnFrame on_frame, OnCall on_call = nullptr)
      : under_(under), on_frame_(std::move(on_frame)), on_call_(std::move(on_call)) {}

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor acceptor) override;
  std::unique_ptr<Call> Dial(const std::string& address, const std::string& method,
                             absl::Duration deadline) override;

 private:
  Transport& under_;
  const OnFrame on_frame_;
  const OnCall on_call_;
};

}  // namespace atolld

// TapTransport: a process's transport that shows a listener what the process says on its Sessions.
//
// Every frame that the process writes on a call of the Session method is shown to the listener
// before it is written, with the name of the caller if the process has accepted the call. So is the
// method of every call that the process makes or accepts. Everything else passes through unchanged.
// A shown frame counts as said, because it may be on the wire; the process must act accordingly
// from then on.
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
  using OnTold = std::function<void(const std::string& caller, const Frame&)>;

  // `under` must outlive this object. `on_told` is called, before `on_frame`, with the frames that
  // are written on accepted calls.
  TapTransport(Transport& under, OnFrame on_frame, OnCall on_call = nullptr,
               OnTold on_told = nullptr)
      : under_(under),
        on_frame_(std::move(on_frame)),
        on_call_(std::move(on_call)),
        on_told_(std::move(on_told)) {}

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor acceptor) override;
  std::unique_ptr<Call> Dial(const std::string& address, const std::string& method,
                             absl::Duration deadline) override;

 private:
  Transport& under_;
  const OnFrame on_frame_;
  const OnCall on_call_;
  const OnTold on_told_;
};

}  // namespace atolld

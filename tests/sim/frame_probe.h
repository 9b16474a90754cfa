// FrameProbe: a Transport that shows a test each frame that its process writes on the calls it
// dials.
//
// It only looks: every call goes on to the transport that it wraps. What the process writes as a
// server is not shown. Loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "daemon/env.h"

namespace atolld {

class FrameProbe final : public Transport {
 public:
  // Called before the frame goes on. It must not use the process.
  using OnWritten = std::function<void(const std::string& method, const Frame& frame)>;

  FrameProbe(Transport& transport, OnWritten on_written)
      : transport_(transport),
        on_written_(std::make_shared<const OnWritten>(std::move(on_written))) {}

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor acceptor) override;
  std::unique_ptr<Call> Dial(const std::string& address, const std::string& method,
                             absl::Duration deadline) override;

 private:
  Transport& transport_;
  const std::shared_ptr<const OnWritten> on_written_;  // calls may outlive the probe
};

}  // namespace atolld

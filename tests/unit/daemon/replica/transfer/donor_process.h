// A process of a test that serves data from its disk and may change what it sends.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "compression/base/check.h"
#include "daemon/env/env.h"
#include "daemon/env/network.h"
#include "daemon/replica/transfer/transfer.h"

namespace atolld {

// Changes a donor's frame as a test wants. If it returns nullopt, the frame is not sent.
using Tamper = std::function<std::optional<Frame>(Frame)>;

class TamperCall final : public ForwardingCall {
 public:
  TamperCall(std::unique_ptr<Call> inner, Tamper tamper)
      : ForwardingCall(std::move(inner)), tamper_(std::move(tamper)) {}
  void Write(Frame frame) override {
    std::optional<Frame> changed = tamper_(std::move(frame));
    if (changed) ForwardingCall::Write(*std::move(changed));
  }

 private:
  const Tamper tamper_;
};

// A process that serves data from "/r" and listens at "NAME:1".
struct DonorProcess {
  DonorProcess(Env env, const std::string& name, Tamper tamper, DonorSettings settings)
      : donor(env, "/r", "test-run", settings) {
    auto listening = env.transport.Listen(
        name + ":1", [this, tamper](const std::string& method, std::unique_ptr<Call> call) {
          if (tamper != nullptr) call = std::make_unique<TamperCall>(std::move(call), tamper);
          ++calls;
          donor.Accept(method, std::move(call));
        });
    CHECK_OK(listening.status());
    listener = *std::move(listening);
  }
  Donor donor;
  int calls = 0;
  std::unique_ptr<Listener> listener;
};

}  // namespace atolld

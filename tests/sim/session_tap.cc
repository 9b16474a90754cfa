#include "tests/sim/session_tap.h"

#include <utility>

#include "daemon/env/network.h"

namespace atolld {
namespace {

constexpr char kTapped[] = "/atolld.v1.Membership/Session";

class TapCall final : public ForwardingCall {
 public:
  TapCall(std::unique_ptr<Call> under, TapTransport::OnFrame on_frame)
      : ForwardingCall(std::move(under)), on_frame_(std::move(on_frame)) {}
  void Write(Frame frame) override {
    on_frame_(frame);
    ForwardingCall::Write(std::move(frame));
  }

 private:
  const TapTransport::OnFrame on_frame_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> TapTransport::Listen(const std::string& address,
                                                               Acceptor acceptor) {
  return under_.Listen(
      address, [acceptor = std::move(acceptor), on_frame = on_frame_, on_call = on_call_,
                on_told = on_told_](const std::string& method, std::unique_ptr<Call> call) {
        if (on_call) on_call(method);
        if (method != kTapped) return acceptor(method, std::move(call));
        OnFrame heard = on_frame;
        if (on_told && call->identity()) {
          heard = [on_frame, on_told, caller = call->identity()->id](const Frame& frame) {
            on_told(caller, frame);
            on_frame(frame);
          };
        }
        acceptor(method, std::make_unique<TapCall>(std::move(call), std::move(heard)));
      });
}

std::unique_ptr<Call> TapTransport::Dial(const std::string& address, const std::string& method,
                                         absl::Duration deadline) {
  if (on_call_) on_call_(method);
  std::unique_ptr<Call> call = under_.Dial(address, method, deadline);
  if (method != kTapped) return call;
  return std::make_unique<TapCall>(std::move(call), on_frame_);
}

}  // namespace atolld

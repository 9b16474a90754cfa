#include "tests/sim/clip_liar.h"

#include <utility>

#include "absl/base/casts.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/peer/offered_calls.h"

namespace atolld {
namespace {

class LyingCall final : public ForwardingCall {
 public:
  using ForwardingCall::ForwardingCall;
  void Write(Frame frame) override {
    v1::PeerMessage message;
    if (!Unpack(frame, &message).ok() || !message.has_ready()) {
      return ForwardingCall::Write(std::move(frame));
    }
    v1::Ready& ready = *message.mutable_ready();
    ready.set_clip_bits(absl::bit_cast<uint32_t>(1e38F));
    ready.set_within(ready.version() % 2 == 0 ? 1e9 : -1e9);
    ForwardingCall::Write(Pack(message));
  }
};

}  // namespace

std::unique_ptr<Call> ClipLiar::Dial(const std::string& address, const std::string& method,
                                     absl::Duration deadline) {
  std::unique_ptr<Call> call = under_.Dial(address, method, deadline);
  if (method != "/atolld.v1.Membership/Session") return call;
  return std::make_unique<LyingCall>(std::move(call));
}

}  // namespace atolld

#include "tests/sim/hostile_transport.h"

#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "atoll/v1/exchange.pb.h"
#include "daemon/env/network.h"
#include "daemon/exchange/mean_audit.h"
#include "membership/history/digest.h"
#include "membership/history/payload.h"

namespace atolld {
namespace {

constexpr char kSession[] = "/atolld.v1.Membership/Session";
constexpr char kExchange[] = "/atolld.v1.Exchange/Exchange";

// The last code of a chunk, which is a value by itself.
SharedBytes Changed(const SharedBytes& chunk) {
  std::vector<uint8_t> bytes(chunk.span().begin(), chunk.span().end());
  bytes.back() = bytes.back() == 0 ? 1 : 0;
  return SharedBytes(std::move(bytes));
}

}  // namespace

absl::string_view HostilityName(Hostility hostility) {
  constexpr std::array<absl::string_view, 5> kNames = {"none", "lying-reducer", "equivocator",
                                                       "false-accuser", "hiding-reducer"};
  return kNames[static_cast<size_t>(hostility)];
}

struct HostileTransport::State {
  bool Lies() const {
    return hostility == Hostility::kLyingReducer || hostility == Hostility::kHidingReducer;
  }

  void OnPlan(const v1::Plan& told) {
    if (told.version() != plan.version() || told.epoch() != plan.epoch()) means.clear();
    plan = told;
    target = -1;
    chunks = 0;
    for (const v1::Shard& shard : plan.shards()) {
      chunks += shard.chunks();
      const bool own = shard.reducer() == self && shard.holder().empty() && shard.chunks() > 0;
      if (own && target < 0) target = static_cast<int64_t>(shard.first_chunk());
    }
  }

  // A mean that passes by, up or down, under the newest attempt.
  void Note(const v1::ResultChunk& result, const SharedBytes& payload) {
    auto& [attempt, bytes] = means[result.chunk()];
    if (result.attempt() < attempt) return;
    attempt = result.attempt();
    bytes = payload;
  }

  Frame ToMember(const Frame& frame, const std::string& member) {
    v1::FromReducer message;
    if (!Unpack(frame, &message).ok() || !message.has_chunk()) return frame;
    Note(message.chunk(), frame.payload.Joined());
    const bool here = static_cast<int64_t>(message.chunk().chunk()) == target;
    if (hostility == Hostility::kEquivocator && here && fooled.empty()) fooled = member;
    const bool fools = hostility == Hostility::kEquivocator && member == fooled;
    if (!here || !(Lies() || fools)) return frame;
    ++acts;
    return Pack(message, Changed(frame.payload.Joined()));
  }

  Frame ToCoordinator(const Frame& frame) {
    v1::PeerMessage message;
    if (!Unpack(frame, &message).ok()) return frame;
    if (message.has_vote() && Lies() && target >= 0 && means.size() == chunks) {
      std::vector<SharedBytes> payload;
      for (const auto& [chunk, mean] : means) {
        const bool here = static_cast<int64_t>(chunk) == target;
        payload.push_back(here ? Changed(mean.second) : mean.second);
      }
      const std::string digest = ToBytes(TreeDigest(JoinPayload(payload).span()));
      message.mutable_vote()->set_payload_digest(digest);
      lies.insert(digest);
      ++acts;
      return Pack(message);
    }
    if (message.has_audit_report() && hostility == Hostility::kFalseAccuser) {
      for (v1::ChunkVerdict& verdict : *message.mutable_audit_report()->mutable_verdicts()) {
        verdict.set_outcome("wrong");
        verdict.set_computed_digest(std::string(32, 'x'));
        verdict.set_found_digest(std::string(32, 'y'));
        ++accusations;
        ++acts;
      }
      return Pack(message);
    }
    return frame;
  }

  std::string self;
  Hostility hostility = Hostility::kNone;
  v1::Plan plan;
  int64_t target = -1;  // the chunk that it lies about
  uint32_t chunks = 0;
  std::map<uint32_t, std::pair<uint32_t, SharedBytes>> means;  // attempt and bytes
  std::string fooled;
  std::set<std::string> lies;
  uint64_t accusations = 0;
  uint64_t acts = 0;
};

namespace {

using State = HostileTransport::State;

// What the peer says on an accepted call goes through `said`.
class SaidCall final : public ForwardingCall {
 public:
  using Say = std::function<Frame(const Frame&)>;
  using Hear = std::function<void(const Frame&)>;
  SaidCall(std::unique_ptr<Call> under, Say say, Hear hear)
      : ForwardingCall(std::move(under)), say_(std::move(say)), hear_(std::move(hear)) {}

  void Start(Events events) override {
    if (hear_) {
      events.on_frame = [hear = hear_, on_frame = std::move(events.on_frame)](Frame frame) {
        hear(frame);
        if (on_frame) on_frame(std::move(frame));
      };
    }
    ForwardingCall::Start(std::move(events));
  }
  void Write(Frame frame) override { ForwardingCall::Write(say_ ? say_(frame) : frame); }

 private:
  const Say say_;
  const Hear hear_;
};

}  // namespace

HostileTransport::HostileTransport(Transport& under, std::string self, Hostility hostility)
    : under_(under), state_(std::make_shared<State>()) {
  state_->self = std::move(self);
  state_->hostility = hostility;
}

HostileTransport::~HostileTransport() = default;

const std::set<std::string>& HostileTransport::lies() const { return state_->lies; }

uint64_t HostileTransport::accusations() const { return state_->accusations; }

uint64_t HostileTransport::acts() const { return state_->acts; }

void HostileTransport::Reform() { state_->hostility = Hostility::kNone; }

absl::StatusOr<std::unique_ptr<Listener>> HostileTransport::Listen(const std::string& address,
                                                                   Acceptor acceptor) {
  return under_.Listen(address, [acceptor = std::move(acceptor), state = state_](
                                    const std::string& method, std::unique_ptr<Call> call) {
    if (method == kExchange) {
      const std::string member = call->identity() ? call->identity()->id : "";
      call = std::make_unique<SaidCall>(
          std::move(call),
          [state, member](const Frame& frame) { return state->ToMember(frame, member); }, nullptr);
    }
    const bool hides = state->hostility == Hostility::kHidingReducer;
    acceptor(hides && method == kInputsMethod ? "/nothing" : method, std::move(call));
  });
}

std::unique_ptr<Call> HostileTransport::Dial(const std::string& address, const std::string& method,
                                             absl::Duration deadline) {
  std::unique_ptr<Call> call = under_.Dial(address, method, deadline);
  if (method == kSession) {
    return std::make_unique<SaidCall>(
        std::move(call),
        [state = state_](const Frame& frame) { return state->ToCoordinator(frame); },
        [state = state_](const Frame& frame) {
          v1::CoordinatorMessage message;
          if (Unpack(frame, &message).ok() && message.has_plan()) state->OnPlan(message.plan());
        });
  }
  if (method == kExchange) {
    return std::make_unique<SaidCall>(std::move(call), nullptr,
                                      [state = state_](const Frame& frame) {
                                        v1::FromReducer message;
                                        if (!Unpack(frame, &message).ok()) return;
                                        if (!message.has_chunk()) return;
                                        state->Note(message.chunk(), frame.payload.Joined());
                                      });
  }
  return call;
}

}  // namespace atolld

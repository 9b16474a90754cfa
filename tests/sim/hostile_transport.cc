#include "tests/sim/hostile_transport.h"

#include <array>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "atoll/v1/exchange.pb.h"
#include "daemon/env/network.h"
#include "daemon/exchange/mean_audit.h"
#include "daemon/replica/transfer/transfer.h"
#include "membership/history/digest.h"
#include "membership/history/payload.h"

namespace atolld {
namespace {

constexpr char kSession[] = "/atolld.v1.Membership/Session";
constexpr char kExchange[] = "/atolld.v1.Exchange/Exchange";

// Changes the last code of a chunk, which is a value by itself.
SharedBytes Changed(const SharedBytes& chunk) {
  std::vector<uint8_t> bytes(chunk.span().begin(), chunk.span().end());
  bytes.back() = bytes.back() == 0 ? 1 : 0;
  return SharedBytes(std::move(bytes));
}

}  // namespace

absl::string_view HostilityName(Hostility hostility) {
  constexpr std::array<absl::string_view, 12> kNames = {
      "none",           "lying-reducer",   "equivocator",   "false-accuser",
      "hiding-reducer", "reducer-accuser", "address-thief", "epoch-liar",
      "version-liar",   "end-liar",        "hoarder",       "mute"};
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

  // What it makes of what it hears, what it answers at once, and whether it ends its session.
  struct Heard {
    Frame frame;
    std::vector<Frame> answers;
    bool ends = false;
  };

  Heard FromCoordinator(const Frame& frame) {
    Heard heard = {frame, {}, false};
    v1::CoordinatorMessage message;
    if (!Unpack(frame, &message).ok()) return heard;
    if (message.has_welcome()) last_version = message.welcome().spec().rounds();
    if (message.has_evaluate() && hostility == Hostility::kEndLiar) {
      heard.answers = NoLosses(message.evaluate());
    }
    const bool kept = (message.has_evaluate() && KeepsToItself(hostility)) ||
                      (message.has_make_initial_state() && hostility == Hostility::kMute);
    if (kept) {
      ++acts;
      v1::CoordinatorMessage nothing;
      nothing.mutable_heartbeat();
      heard.frame = Pack(nothing);
    }
    if (!message.has_plan()) return heard;
    OnPlan(message.plan());
    if (hostility == Hostility::kEpochLiar) {
      heard.ends = true;
    } else if (hostility == Hostility::kReducerAccuser) {
      heard.answers = Accusations();
      // A plan in which a holder is lost would be none.
      std::set<std::string> there = {self};
      for (const v1::Shard& shard : plan.shards()) there.insert(shard.holder());
      for (const v1::PlanMember& member : plan.contributors()) {
        if (there.count(member.peer()) == 0) message.mutable_plan()->add_lost(member.peer());
      }
      heard.frame = Pack(message);
    }
    return heard;
  }

  std::vector<Frame> NoLosses(const v1::Evaluate& asked) {
    std::vector<Frame> frames;
    for (uint32_t share = 0; share < asked.shares(); ++share) {
      v1::PeerMessage message;
      v1::Evaluated* const evaluated = message.mutable_evaluated();
      evaluated->set_version(asked.version());
      evaluated->set_share(share);
      evaluated->set_shares(asked.shares());
      evaluated->set_loss_sum(std::numeric_limits<double>::quiet_NaN());
      evaluated->set_tokens(1);
      frames.push_back(Pack(message));
      ++acts;
    }
    return frames;
  }

  std::vector<Frame> Accusations() {
    std::set<std::string> servers;
    for (const v1::Shard& shard : plan.shards()) {
      servers.insert(shard.holder().empty() ? shard.reducer() : shard.holder());
      for (const v1::Relay& relay : shard.relays()) servers.insert(relay.peer());
    }
    servers.erase(self);
    std::vector<Frame> frames;
    for (const std::string& server : servers) {
      v1::PeerMessage message;
      v1::ReducerUnreachable* const report = message.mutable_reducer_unreachable();
      report->set_version(plan.version());
      report->set_epoch(plan.epoch());
      report->set_revision(plan.revision());
      report->set_reducer(server);
      report->set_reason("a lie");
      frames.push_back(Pack(message));
      ++accusations;
      ++acts;
    }
    return frames;
  }

  // False: it says nothing of the kind.
  bool Claim(v1::Hello* hello) {
    if (hostility == Hostility::kAddressThief) {
      hello->set_address(steals);
    } else if (hostility == Hostility::kEpochLiar && hello->epoch() > 0) {
      hello->set_epoch(hello->epoch() + 1);
    } else if (hostility == Hostility::kVersionLiar && hello->version() < last_version) {
      hello->set_version(last_version);
      hello->set_header_digest(std::string(32, 'v'));
    } else {
      return false;
    }
    ++acts;
    return true;
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
    if (message.has_hello() && Claim(message.mutable_hello())) return Pack(message);
    if (message.has_state_report() && hostility == Hostility::kEndLiar) {
      message.mutable_state_report()->set_state_digest(std::string(32, '\x01'));
      ++acts;
      return Pack(message);
    }
    if (message.has_headers() && hostility == Hostility::kVersionLiar) {
      v1::PeerMessage nothing;
      nothing.mutable_heartbeat();
      return Pack(nothing);
    }
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
  std::string steals;
  uint64_t last_version = 0;  // of the run, as it was told; 0: not yet
  std::set<std::string> lies;
  uint64_t accusations = 0;
  uint64_t acts = 0;
};

namespace {

using State = HostileTransport::State;

// What the peer says on a call passes through `say`, and what it hears through `hear`.
class SaidCall final : public ForwardingCall {
 public:
  using Say = std::function<Frame(const Frame&)>;
  using Hear = std::function<State::Heard(const Frame&)>;
  SaidCall(std::unique_ptr<Call> under, Say say, Hear hear)
      : ForwardingCall(std::move(under)), say_(std::move(say)), hear_(std::move(hear)) {}

  void Start(Events events) override {
    if (hear_) {
      events.on_frame = [this, on_frame = std::move(events.on_frame)](Frame frame) {
        State::Heard heard = hear_(frame);
        if (!ended_) {
          for (Frame& answer : heard.answers) ForwardingCall::Write(std::move(answer));
        }
        if (heard.ends) Finish(absl::OkStatus());
        if (on_frame) on_frame(std::move(heard.frame));
      };
    }
    ForwardingCall::Start(std::move(events));
  }
  void Write(Frame frame) override {
    if (!ended_) ForwardingCall::Write(say_ ? say_(frame) : frame);
  }
  void Finish(absl::Status status) override {
    if (!std::exchange(ended_, true)) ForwardingCall::Finish(std::move(status));
  }

 private:
  const Say say_;
  const Hear hear_;
  bool ended_ = false;
};

}  // namespace

HostileTransport::HostileTransport(Transport& under, std::string self, Hostility hostility,
                                   std::string steals)
    : under_(under), state_(std::make_shared<State>()) {
  state_->steals = std::move(steals);
  state_->self = std::move(self);
  state_->hostility = hostility;
}

HostileTransport::~HostileTransport() = default;

const std::set<std::string>& HostileTransport::lies() const { return state_->lies; }

uint64_t HostileTransport::accusations() const { return state_->accusations; }

uint64_t HostileTransport::acts() const { return state_->acts; }

void HostileTransport::Reform() {
  if (!KeepsToItself(state_->hostility)) state_->hostility = Hostility::kNone;
}

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
    const bool hides = (state->hostility == Hostility::kHidingReducer && method == kInputsMethod) ||
                       (state->hostility == Hostility::kHoarder && method == kFetchSnapshotMethod);
    acceptor(hides ? "/nothing" : method, std::move(call));
  });
}

std::unique_ptr<Call> HostileTransport::Dial(const std::string& address, const std::string& method,
                                             absl::Duration deadline) {
  std::unique_ptr<Call> call = under_.Dial(address, method, deadline);
  if (method == kSession) {
    return std::make_unique<SaidCall>(
        std::move(call),
        [state = state_](const Frame& frame) { return state->ToCoordinator(frame); },
        [state = state_](const Frame& frame) { return state->FromCoordinator(frame); });
  }
  if (method == kExchange) {
    return std::make_unique<SaidCall>(std::move(call), nullptr,
                                      [state = state_](const Frame& frame) {
                                        v1::FromReducer message;
                                        if (Unpack(frame, &message).ok() && message.has_chunk()) {
                                          state->Note(message.chunk(), frame.payload.Joined());
                                        }
                                        return State::Heard{frame, {}, false};
                                      });
  }
  return call;
}

}  // namespace atolld

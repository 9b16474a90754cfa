#include "daemon/peer/peer_roster.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/env/network.h"
#include "membership/trust/identity.h"

namespace atolld {
namespace {

// When a large run starts, each peer hears of all others. If more than this number change to the
// same state, they share one line, unless that state is suspect or dead.
constexpr size_t kMostLines = 16;
constexpr size_t kTold = std::numeric_limits<size_t>::max();

// Returns true if the address belongs to this member. If the member is gone, another may have its
// address now.
bool HoldsItsAddress(const v1::Member& member) {
  return IsHere(member) || member.state() == "suspect";
}

}  // namespace

bool IsHere(const v1::Member& member) {
  return member.state() == "live" || member.state() == "joining";
}

NoCall::NoCall(Executor& executor, std::string remote, absl::Status why)
    : executor_(executor), remote_(std::move(remote)), why_(std::move(why)) {}

void NoCall::Start(Events events) {
  executor_.Post(guard_.Wrap([why = why_, on_closed = std::move(events.on_closed)] {
    if (on_closed) on_closed(why);
  }));
}

// A call that passes frames through unchanged and can be cut.
class CutCalls::CutCall final : public Call {
 public:
  CutCall(Executor& executor, std::shared_ptr<Live> live, const std::string& peer,
          std::unique_ptr<Call> inner)
      : executor_(executor),
        live_(std::move(live)),
        place_(live_->emplace(peer, this)),
        remote_(inner->remote()),
        identity_(inner->identity()),
        inner_(std::move(inner)) {}
  ~CutCall() override { live_->erase(place_); }

  void Start(Events events) override {
    const auto on_closed =
        std::make_shared<std::function<void(absl::Status)>>(std::move(events.on_closed));
    events.on_closed = [on_closed](absl::Status status) {
      // The owner may destroy this call in its callback, and with it the function.
      if (const auto told = std::exchange(*on_closed, nullptr)) told(std::move(status));
    };
    on_closed_ = on_closed;
    if (inner_ != nullptr) inner_->Start(std::move(events));
  }
  void Read() override {
    if (inner_ != nullptr) inner_->Read();
  }
  void Write(Frame frame) override {
    if (inner_ != nullptr) inner_->Write(std::move(frame));
  }
  size_t unsent_bytes() const override { return inner_ == nullptr ? 0 : inner_->unsent_bytes(); }
  void Finish(absl::Status status) override {
    if (inner_ != nullptr) inner_->Finish(std::move(status));
  }
  uint64_t sent_bytes() const override { return inner_ == nullptr ? sent_ : inner_->sent_bytes(); }
  std::string remote() const override { return remote_; }
  std::optional<Identity> identity() const override { return identity_; }

  // Returns false if the call was cut before.
  bool Cut(const absl::Status& why) {
    if (inner_ == nullptr) return false;
    sent_ = inner_->sent_bytes();
    inner_.reset();
    executor_.Post(guard_.Wrap([told = on_closed_, why] {
      if (told == nullptr) return;
      if (const auto function = std::exchange(*told, nullptr)) function(why);
    }));
    return true;
  }

 private:
  Executor& executor_;
  const std::shared_ptr<Live> live_;
  const Live::iterator place_;
  const std::string remote_;
  const std::optional<Identity> identity_;
  std::unique_ptr<Call> inner_;  // null once the call is cut
  std::shared_ptr<std::function<void(absl::Status)>> on_closed_;
  uint64_t sent_ = 0;
  CallbackGuard guard_;
};

std::unique_ptr<Call> CutCalls::Wrap(const std::string& peer, std::unique_ptr<Call> call) {
  return std::make_unique<CutCall>(executor_, live_, peer, std::move(call));
}

size_t CutCalls::Cut(const std::string& peer, const absl::Status& why) {
  const auto [begin, end] = live_->equal_range(peer);
  size_t cut = 0;
  for (auto it = begin; it != end; ++it) cut += it->second->Cut(why) ? 1 : 0;
  return cut;
}

size_t CutCalls::CutKeys(const std::map<std::string, std::string>& revoked) {
  size_t cut = 0;
  if (revoked.empty()) return cut;
  for (const auto& [peer, call] : *live_) {
    const std::optional<Identity> caller = call->identity();
    if (!caller || revoked.count(caller->key) == 0) continue;
    cut += call->Cut(RevokedKeyError(peer)) ? 1 : 0;
  }
  return cut;
}

std::map<std::string, std::string> RevokedKeysOf(const v1::Roster& roster) {
  std::map<std::string, std::string> revoked;
  for (const v1::RevokedKey& one : roster.revoked()) {
    revoked[absl::BytesToHexString(one.key())] = one.peer();
  }
  return revoked;
}

std::vector<RosterChange> RosterChanges(const v1::Roster& before, const v1::Roster& after,
                                        const std::string& self) {
  std::map<std::string, std::string> states;
  for (const v1::Member& member : before.members()) states[member.peer()] = member.state();
  std::vector<const v1::Member*> changed;
  std::map<std::string, size_t> counts;  // by state
  for (const v1::Member& member : after.members()) {
    const auto former = states.find(member.peer());
    if (member.peer() == self || (former != states.end() && former->second == member.state())) {
      continue;
    }
    changed.push_back(&member);
    ++counts[member.state()];
  }
  std::vector<RosterChange> changes;
  for (const v1::Member* const member : changed) {
    const std::string& state = member->state();
    const bool loss = state == "suspect" || state == "dead";
    size_t& count = counts[state];
    if (loss || count <= kMostLines) {
      changes.push_back({absl::StrCat("peer ", member->peer(), " is ", state), loss});
    } else if (count != kTold) {
      changes.push_back({absl::StrCat(count, " peers are ", state), false});
      count = kTold;
    }
  }
  return changes;
}

v1::Roster MembersNamed(const v1::Roster& roster, const v1::RosterDelta& delta) {
  v1::Roster named;
  const auto before = [](const v1::Member& a, const v1::Member& b) { return a.peer() < b.peer(); };
  for (const v1::Member& changed : delta.changed()) {
    const auto found =
        std::lower_bound(roster.members().begin(), roster.members().end(), changed, before);
    if (found != roster.members().end() && found->peer() == changed.peer()) {
      *named.add_members() = *found;
    }
  }
  return named;
}

bool CallsChange(const v1::Roster& before, const v1::Roster& after) {
  return !std::equal(before.members().begin(), before.members().end(), after.members().begin(),
                     after.members().end(), [](const v1::Member& a, const v1::Member& b) {
                       return a.peer() == b.peer() && a.state() == b.state() &&
                              a.address() == b.address();
                     });
}

RosterDialler::RosterDialler(Executor& executor, Transport& under)
    : executor_(executor), under_(under), live_(executor) {}

size_t RosterDialler::SetRoster(const v1::Roster& roster) {
  members_.clear();
  evicted_.clear();
  for (const v1::Member& member : roster.members()) {
    if (member.state() == "evicted") evicted_.insert(member.peer());
    if (member.address().empty()) continue;
    if (HoldsItsAddress(member)) members_[member.address()] = member.peer();
    members_.emplace(member.address(), member.peer());
  }
  size_t cut = 0;
  for (const std::string& peer : evicted_) cut += live_.Cut(peer, EvictedError(peer));
  std::map<std::string, std::string> revoked = RevokedKeysOf(roster);
  if (revoked == revoked_) return cut;
  std::set<std::string> keys;
  for (const auto& [key, peer] : revoked) {
    keys.insert(key);
    // It is unknown whether the peer that answers shows this key. If it shows another, it is
    // dialled again.
    if (revoked_.count(key) == 0) cut += live_.Cut(peer, RevokedKeyError(peer));
  }
  revoked_ = std::move(revoked);
  under_.RefuseKeys(keys);
  return cut;
}

absl::StatusOr<std::unique_ptr<Listener>> RosterDialler::Listen(const std::string& address,
                                                                Acceptor acceptor) {
  return under_.Listen(address, std::move(acceptor));
}

std::unique_ptr<Call> RosterDialler::Dial(const std::string& address, const std::string& method,
                                          absl::Duration deadline) {
  if (ServedBy(method) == Role::kCoordinator) return under_.Dial(address, method, deadline);
  const auto found = members_.find(address);
  if (found == members_.end()) {
    return std::make_unique<NoCall>(
        executor_, address,
        absl::UnavailableError(absl::StrCat("no member of the roster is at ", address)));
  }
  const std::string& peer = found->second;
  if (evicted_.count(peer) != 0) {
    return std::make_unique<NoCall>(executor_, address, EvictedError(peer));
  }
  return live_.Wrap(peer, under_.Dial(FormatPeerAddress(peer, address), method, deadline));
}

RosterGate::RosterGate(Executor& executor, absl::Duration patience, Limits limits,
                       Transport::Acceptor admit)
    : executor_(executor),
      patience_(patience),
      limits_(limits),
      admit_(std::move(admit)),
      live_(executor),
      refusals_(executor) {}

RosterGate::~RosterGate() = default;

void RosterGate::Accept(const std::string& method, std::unique_ptr<Call> call) {
  const std::optional<Identity> caller = call->identity();
  if (!caller || caller->role == Role::kCoordinator) return admit_(method, std::move(call));
  if (caller->role == Role::kAdmin) return AcceptAdmin(method, *caller, std::move(call));
  if (caller->role != Role::kPeer && caller->role != Role::kAggregator) {
    return refusals_.Refuse(std::move(call), absl::PermissionDeniedError(absl::StrCat(
                                                 Describe(*caller), " is not on the roster")));
  }
  if (evicted_.count(caller->id) != 0)
    return refusals_.Refuse(std::move(call), EvictedError(caller->id));
  if (revoked_.count(caller->key) != 0)
    return refusals_.Refuse(std::move(call), RevokedKeyError(caller->id));
  if (members_.count(caller->id) != 0) return Admit(method, caller->id, std::move(call));
  Wait(method, *caller, std::move(call));
}

// An administrator is not on the roster and may have the name of a peer, so its open calls are
// counted separately.
void RosterGate::AcceptAdmin(const std::string& method, const Identity& caller,
                             std::unique_ptr<Call> call) {
  if (revoked_.count(caller.key) == 0) return Admit(method, Describe(caller), std::move(call));
  refusals_.Refuse(std::move(call), absl::PermissionDeniedError(absl::StrCat(
                                        "a key of ", Describe(caller), " was revoked")));
}

void RosterGate::Admit(const std::string& method, const std::string& caller,
                       std::unique_ptr<Call> call) {
  if (live_.Count(caller) >= limits_.calls_of_one) {
    const std::string who = Describe(*call->identity());
    return refusals_.Refuse(std::move(call), absl::ResourceExhaustedError(absl::StrCat(
                                                 who, " has ", limits_.calls_of_one,
                                                 " calls open here, which is the limit")));
  }
  admit_(method, live_.Wrap(caller, std::move(call)));
}

void RosterGate::Wait(const std::string& method, const Identity& identity,
                      std::unique_ptr<Call> call) {
  const std::string& caller = identity.id;
  const auto of_one = std::count_if(waiting_.begin(), waiting_.end(), [&](const auto& entry) {
    return entry.second.caller == caller;
  });
  if (waiting_.size() >= limits_.waiting || static_cast<size_t>(of_one) >= limits_.waiting_of_one) {
    return refusals_.Refuse(std::move(call),
                            absl::ResourceExhaustedError("too many calls wait for a roster"));
  }
  const uint64_t number = ++waited_;
  auto held = std::make_unique<StartedCall>(executor_, std::move(call));
  Call::Events events;
  events.on_closed = guard_.Wrap([this, number](const absl::Status&) {
    executor_.Post(guard_.Wrap([this, number] { waiting_.erase(number); }));
  });
  held->Start(std::move(events));
  waiting_[number] = {method, caller, identity.key, std::move(held)};
  executor_.RunAfter(patience_, guard_.Wrap([this, number, caller] {
    LetGo(number, absl::UnavailableError(absl::StrCat("peer ", caller, " is not on the roster")));
  }));
}

void RosterGate::LetGo(uint64_t number, const absl::Status& why) {
  auto node = waiting_.extract(number);
  if (!node.empty()) refusals_.Refuse(std::move(node.mapped().call), why);
}

size_t RosterGate::SetRoster(const v1::Roster& roster) {
  members_.clear();
  evicted_.clear();
  for (const v1::Member& member : roster.members()) {
    (member.state() == "evicted" ? evicted_ : members_).insert(member.peer());
  }
  // The owners are told later, from the loop, so they cannot change the containers during these
  // loops.
  size_t cut = 0;
  for (const std::string& caller : evicted_) cut += live_.Cut(caller, EvictedError(caller));
  revoked_ = RevokedKeysOf(roster);
  cut += live_.CutKeys(revoked_);
  std::vector<uint64_t> known;
  for (const auto& [number, waiting] : waiting_) {
    if (members_.count(waiting.caller) + evicted_.count(waiting.caller) +
            revoked_.count(waiting.key) !=
        0) {
      known.push_back(number);
    }
  }
  for (const uint64_t number : known) {
    const auto found = waiting_.find(number);
    if (found == waiting_.end()) continue;
    const std::string caller = found->second.caller;
    if (evicted_.count(caller) != 0) {
      LetGo(number, EvictedError(caller));
      continue;
    }
    if (revoked_.count(found->second.key) != 0) {
      LetGo(number, RevokedKeyError(caller));
      continue;
    }
    auto node = waiting_.extract(found);
    Admit(node.mapped().method, caller, std::move(node.mapped().call));
  }
  return cut;
}

}  // namespace atolld

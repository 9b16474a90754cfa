#include "daemon/peer/offered_calls.h"

#include <algorithm>
#include <cstddef>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "atoll/v1/replica.pb.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "daemon/env/network.h"
#include "daemon/exchange/started_call.h"
#include "daemon/peer/peer_roster.h"
#include "daemon/replica/transfer/transfer.h"

namespace atolld {
namespace {

constexpr char kOffered[] = "offered:";

// Enough for two calls of each donor: a larger number means that a caller invents names.
constexpr size_t kMostCalls = 128;
// The most calls of one donor: its two calls, and two more if it has dialled again before this end
// noticed a break.
constexpr int kMostOfOne = 4;

// A call that the donor has dialled. The donor can end it but cannot give a reason, so the end is
// taken to mean that the donor lacks the data. Otherwise the fetch would never look for another
// donor.
class OfferedCall final : public ForwardingCall {
 public:
  OfferedCall(std::unique_ptr<Call> inner, std::string address)
      : ForwardingCall(std::move(inner)), address_(std::move(address)) {}

  void Start(Events events) override {
    events.on_closed = [on_closed = std::move(events.on_closed), address = address_](absl::Status) {
      if (on_closed) on_closed(absl::NotFoundError(absl::StrCat(address, " ended the call")));
    };
    ForwardingCall::Start(std::move(events));
  }

 private:
  const std::string address_;
};

std::unique_ptr<Call> NoneWaits(Executor& executor, const std::string& address) {
  return std::make_unique<NoCall>(
      executor, address, absl::NotFoundError(absl::StrCat("no call of ", address, " waits")));
}

absl::StatusOr<std::string> DonorOf(const std::string& method, const Frame& frame) {
  std::string donor;
  if (method == kGiveEntriesMethod) {
    v1::EntryBlock first;
    RETURN_IF_ERROR(Unpack(frame, &first));
    donor = first.donor();
  } else {
    v1::SnapshotBlock first;
    RETURN_IF_ERROR(Unpack(frame, &first));
    donor = first.donor();
  }
  if (IsValidId(donor)) return donor;
  return absl::InvalidArgumentError("a donor that dials names itself first");
}

constexpr ptrdiff_t kGivers = 4;
// With two calls each, this is what a Donor serves at once.
constexpr size_t kMostTakers = 8;

// The pause between the end of a call and the next one: a peer that is away costs one dial a
// second.
constexpr absl::Duration kPause = absl::Seconds(1);

// A call that reports when its user is done with it.
class GivenCall final : public ForwardingCall {
 public:
  GivenCall(std::unique_ptr<Call> inner, Task on_gone)
      : ForwardingCall(std::move(inner)), on_gone_(std::move(on_gone)) {}
  ~GivenCall() override { on_gone_(); }

 private:
  const Task on_gone_;
};

Frame FirstMessage(const std::string& method, const std::string& self) {
  if (method == kGiveEntriesMethod) {
    v1::EntryBlock first;
    first.set_donor(self);
    return Pack(first);
  }
  v1::SnapshotBlock first;
  first.set_donor(self);
  return Pack(first);
}

}  // namespace

std::string OfferedAddress(absl::string_view peer) { return absl::StrCat(kOffered, peer); }

OfferedCalls::OfferedCalls(Env env, std::function<void()> on_change)
    : env_(env), on_change_(std::move(on_change)), refusals_(env.executor) {}

OfferedCalls::~OfferedCalls() = default;

void OfferedCalls::Accept(const std::string& method, std::unique_ptr<Call> call) {
  if (calls_.size() >= kMostCalls || WaitOf(call->identity()) >= kMostOfOne) {
    return refusals_.Refuse(std::move(call),
                            absl::ResourceExhaustedError("too many calls of donors wait"));
  }
  const uint64_t number = ++accepted_;
  StartedCall& taken =
      *(calls_[number] = std::make_unique<StartedCall>(env_.executor, std::move(call)));
  Call::Events events;
  events.on_frame =
      guard_.Wrap([this, number, method](const Frame& frame) { OnOpened(number, method, frame); });
  // The call is destroyed later, because it must not be destroyed inside its own callback.
  events.on_closed = guard_.Wrap([this, number](const absl::Status&) {
    env_.executor.Post(guard_.Wrap([this, number] { Drop(number); }));
  });
  taken.Start(std::move(events));
  taken.Read();
}

int OfferedCalls::WaitOf(const std::optional<Identity>& caller) const {
  int calls = 0;
  for (const auto& [number, call] : calls_) {
    const std::optional<Identity> other = call->identity();
    calls += caller && other && other->id == caller->id ? 1 : 0;
  }
  return calls;
}

void OfferedCalls::OnOpened(uint64_t number, const std::string& method, const Frame& frame) {
  const auto found = calls_.find(number);
  if (found == calls_.end()) return;
  absl::StatusOr<std::string> donor = DonorOf(method, frame);
  const std::optional<Identity> caller = found->second->identity();
  if (donor.ok() && caller && caller->id != *donor) {
    donor = absl::PermissionDeniedError(
        absl::StrCat("peer ", caller->id, " gives in the name of ", *donor));
  }
  if (!donor.ok()) {
    found->second->Finish(donor.status());
    return;
  }
  uint64_t& waits =
      waiting_[{*donor, method == kGiveEntriesMethod ? kFetchEntriesMethod : kFetchSnapshotMethod}];
  // The donor has dialled again before this end noticed the break.
  if (waits != 0) env_.executor.Post(guard_.Wrap([this, old = waits] { Drop(old); }));
  waits = number;
  Changed();
}

void OfferedCalls::Drop(uint64_t number) {
  calls_.erase(number);
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    it = it->second == number ? waiting_.erase(it) : std::next(it);
  }
}

void OfferedCalls::Changed() {
  env_.executor.Post(guard_.Wrap([this] { on_change_(); }));
}

std::set<std::string> OfferedCalls::donors() const {
  std::set<std::string> donors;
  for (const auto& [key, number] : waiting_) donors.insert(key.first);
  return donors;
}

absl::StatusOr<std::unique_ptr<Listener>> OfferedCalls::Listen(const std::string& address,
                                                               Acceptor acceptor) {
  return env_.transport.Listen(address, std::move(acceptor));
}

std::unique_ptr<Call> OfferedCalls::Dial(const std::string& address, const std::string& method,
                                         absl::Duration deadline) {
  absl::string_view peer = address;
  if (!absl::ConsumePrefix(&peer, kOffered)) return env_.transport.Dial(address, method, deadline);
  const auto waits = waiting_.find(Key(std::string(peer), method));
  if (waits == waiting_.end()) return NoneWaits(env_.executor, address);
  const auto found = calls_.find(waits->second);
  waiting_.erase(waits);
  if (found == calls_.end()) return NoneWaits(env_.executor, address);
  auto call = std::make_unique<OfferedCall>(std::move(found->second), address);
  calls_.erase(found);
  return call;
}

std::vector<std::string> GivesTo(const v1::Roster& roster, const std::string& self) {
  std::vector<std::string> givers;
  std::vector<const v1::Member*> takers;
  for (const v1::Member& member : roster.members()) {
    if (!IsHere(member)) continue;
    if (!member.address().empty() && !member.unreachable()) {
      takers.push_back(&member);
    } else if (member.has_state()) {
      givers.push_back(member.peer());
    }
  }
  std::vector<std::string> addresses;
  const auto own = std::find(givers.begin(), givers.end(), self);
  if (own == givers.end()) return addresses;
  std::stable_partition(takers.begin(), takers.end(),
                        [&self](const v1::Member* member) { return member->peer() > self; });
  for (const v1::Member* taker : takers) {
    const auto first = std::upper_bound(givers.begin(), givers.end(), taker->peer());
    const auto round = static_cast<ptrdiff_t>(givers.size());
    const ptrdiff_t place = (own - first + round) % round;
    if (place < kGivers && addresses.size() < kMostTakers) addresses.push_back(taker->address());
  }
  return addresses;
}

Giver::Giver(Env env, std::string self, Donor& donor)
    : env_(env), self_(std::move(self)), donor_(donor) {}

Giver::~Giver() = default;

void Giver::SetTargets(const std::vector<std::string>& addresses) {
  std::map<Key, uint64_t> wanted;
  for (const std::string& address : addresses) {
    for (const char* method : {kGiveEntriesMethod, kGiveSnapshotMethod}) {
      const Key key(address, method);
      const auto open = calls_.find(key);
      wanted[key] = open == calls_.end() ? 0 : open->second;
    }
  }
  // A call that is no longer wanted stays open, because it may be in use. It ends at the latest
  // with the peer at its other end.
  calls_ = std::move(wanted);
  for (const auto& [key, number] : calls_) {
    if (number == 0 && pausing_.count(key) == 0) Dial(key);
  }
}

void Giver::Dial(const Key& key) {
  const auto& [address, method] = key;
  const uint64_t number = calls_[key] = ++dialled_;
  std::unique_ptr<Call> call = std::make_unique<StartedCall>(
      env_.executor, env_.transport.Dial(address, method, absl::InfiniteDuration()));
  call->Start({});
  call->Write(FirstMessage(method, self_));
  donor_.Accept(method == kGiveEntriesMethod ? kFetchEntriesMethod : kFetchSnapshotMethod,
                std::make_unique<GivenCall>(std::move(call), guard_.Wrap([this, key, number] {
                  env_.executor.Post(guard_.Wrap([this, key, number] { OnGone(key, number); }));
                })),
                true);
}

void Giver::OnGone(const Key& key, uint64_t number) {
  const auto open = calls_.find(key);
  if (open == calls_.end() || open->second != number) return;
  open->second = 0;
  pausing_.insert(key);
  env_.executor.RunAfter(kPause, guard_.Wrap([this, key] {
    pausing_.erase(key);
    const auto wanted = calls_.find(key);
    if (wanted != calls_.end() && wanted->second == 0) Dial(key);
  }));
}

}  // namespace atolld

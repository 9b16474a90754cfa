#include "daemon/peer/giver.h"

#include <algorithm>
#include <cstddef>
#include <memory>

#include "atoll/v1/replica.pb.h"
#include "daemon/env/forwarding_call.h"
#include "daemon/exchange/started_call.h"
#include "daemon/peer/offered_calls.h"

namespace atolld {
namespace {

constexpr ptrdiff_t kGivers = 4;
// Two calls each: what a Donor serves at once.
constexpr size_t kMostTakers = 8;

// Between the end of a call and the next: a peer that is away costs a dial a second.
constexpr absl::Duration kPause = absl::Seconds(1);

bool Here(const v1::Member& member) {
  return member.state() == "live" || member.state() == "joining";
}

// Tells when whoever it was given to is done with it.
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

std::vector<std::string> GivesTo(const v1::Roster& roster, const std::string& self) {
  std::vector<std::string> givers;
  std::vector<const v1::Member*> takers;
  for (const v1::Member& member : roster.members()) {
    if (!Here(member)) continue;
    if (!member.address().empty()) {
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
  // One that is open stays so: it may be in use, and if not it ends with the peer at its other end.
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

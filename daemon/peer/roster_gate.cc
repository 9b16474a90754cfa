#include "daemon/peer/roster_gate.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {}  // namespace

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
  if (caller->role != Role::kPeer && caller->role != Role::kAggregator) {
    return refusals_.Refuse(std::move(call), absl::PermissionDeniedError(absl::StrCat(
                                                 Describe(*caller), " is none of the roster's")));
  }
  if (evicted_.count(caller->id) != 0)
    return refusals_.Refuse(std::move(call), EvictedError(caller->id));
  if (members_.count(caller->id) != 0) return Admit(method, caller->id, std::move(call));
  Wait(method, caller->id, std::move(call));
}

void RosterGate::Admit(const std::string& method, const std::string& caller,
                       std::unique_ptr<Call> call) {
  if (live_.Count(caller) >= limits_.calls_of_one) {
    return refusals_.Refuse(std::move(call), absl::ResourceExhaustedError(absl::StrCat(
                                                 "peer ", caller, " has ", limits_.calls_of_one,
                                                 " calls open here, which is the limit")));
  }
  admit_(method, live_.Wrap(caller, std::move(call)));
}

void RosterGate::Wait(const std::string& method, const std::string& caller,
                      std::unique_ptr<Call> call) {
  const auto of_one = std::count_if(waiting_.begin(), waiting_.end(), [&](const auto& entry) {
    return entry.second.caller == caller;
  });
  if (waiting_.size() >= limits_.waiting || static_cast<size_t>(of_one) >= limits_.waiting_of_one) {
    return refusals_.Refuse(std::move(call),
                            absl::ResourceExhaustedError("too many calls wait for a roster"));
  }
  const uint64_t number = ++waited_;
  auto held = std::make_unique<StartedCall>(executor_, std::move(call));
  held->Start({nullptr, nullptr, guard_.Wrap([this, number](const absl::Status&) {
                 executor_.Post(guard_.Wrap([this, number] { waiting_.erase(number); }));
               })});
  waiting_[number] = {method, caller, std::move(held)};
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
  // The owners are told later, from the loop, so none of them changes what is gone through here.
  size_t cut = 0;
  for (const std::string& caller : evicted_) cut += live_.Cut(caller, EvictedError(caller));
  std::vector<uint64_t> known;
  for (const auto& [number, waiting] : waiting_) {
    if (members_.count(waiting.caller) + evicted_.count(waiting.caller) != 0) {
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
    auto node = waiting_.extract(found);
    Admit(node.mapped().method, caller, std::move(node.mapped().call));
  }
  return cut;
}

}  // namespace atolld

#include "daemon/peer/reach_watch.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "compression/base/names.h"
#include "daemon/peer/peer_roster.h"

namespace atolld {
namespace {

// A member that answers is asked again so seldom that it costs little: eight members cost some 100
// bytes a second.
constexpr absl::Duration kSeldom = absl::Minutes(5);
// A member in doubt is asked again after failure_timeout, but at least this time (Reach::Lifetime).
constexpr absl::Duration kLeastPause = absl::Seconds(5);
// The coordinator keeps a doubt that is not repeated for this many pauses (Reach::Lifetime).
constexpr int kLifetimes = 4;

constexpr size_t kLongestDoubt = 200;

// Returns the reason without the address, which the reader knows.
std::string ReasonOf(const absl::Status& status, const std::string& address) {
  if (absl::IsDeadlineExceeded(status) || status.message().empty()) return "no answer";
  absl::string_view words = status.message();
  absl::ConsumePrefix(&words, absl::StrCat(address, ": "));
  return OneLine(words, kLongestDoubt);
}

}  // namespace

absl::Duration EchoPatience(absl::Duration failure_timeout) {
  return std::min(std::max(failure_timeout / 2, absl::Seconds(1)), absl::Seconds(5));
}

bool IsAnswer(const absl::Status& status) {
  return status.ok() || absl::IsResourceExhausted(status) || absl::IsUnimplemented(status) ||
         absl::IsPermissionDenied(status);
}

ReachWatch::ReachWatch(Env env, std::string self, Send send)
    : env_(env), self_(std::move(self)), send_(std::move(send)), calls_(env, absl::Seconds(5)) {}

void ReachWatch::Follow(absl::Duration failure_timeout, uint64_t values) {
  bytes_ = std::min(kMostWakeBytes, std::max(kLeastBytes, static_cast<size_t>(values / 64)));
  failure_timeout_ = failure_timeout;
  calls_.SetPatience(EchoPatience(failure_timeout));
}

void ReachWatch::SetRoster(const v1::Roster& roster) {
  std::vector<const v1::Member*> here;
  for (const v1::Member& member : roster.members()) {
    if (IsHere(member) && !member.address().empty() && member.peer() != self_) {
      here.push_back(&member);
    }
  }
  std::stable_partition(here.begin(), here.end(),
                        [this](const auto* member) { return member->peer() > self_; });
  const std::map<std::string, Member> before = std::exchange(members_, {});
  by_address_.clear();
  for (const v1::Member* const one : here) {
    by_address_[one->address()] = one->peer();
    const auto known = before.find(one->peer());
    const bool same = known != before.end() && known->second.address == one->address();
    Member& member = members_[one->peer()];
    member = same ? known->second : Return(*one);
    member.watched = members_.size() <= kWatched;
  }
  const absl::Time now = env_.executor.Now();
  for (const auto& [peer, member] : before) {
    if (members_.count(peer) > 0 || member.doubt.empty()) continue;
    gone_[peer] = {member.address, member.doubt, now};
  }
  for (auto gone = gone_.begin(); gone != gone_.end();) {
    gone = now - gone->second.since > Kept() ? gone_.erase(gone) : std::next(gone);
  }
  Schedule();
}

absl::Duration ReachWatch::Kept() const {
  return kLifetimes * std::max(failure_timeout_, kLeastPause);
}

ReachWatch::Member ReachWatch::Return(const v1::Member& one) {
  Member member;
  member.address = one.address();
  member.next = env_.executor.Now();
  const auto gone = gone_.extract(one.peer());
  if (!gone.empty() && gone.mapped().address == member.address) member.doubt = gone.mapped().doubt;
  return member;
}

bool ReachWatch::InDoubt(const std::string& peer) const {
  const auto found = members_.find(peer);
  return found != members_.end() && !found->second.doubt.empty();
}

void ReachWatch::OnWoken(const std::string& address, const absl::Status& status) {
  const auto found = by_address_.find(address);
  if (found == by_address_.end()) return;
  const Member& member = members_.at(found->second);
  if (IsAnswer(status) && (member.suspect || !member.doubt.empty())) return;
  Heard(found->second, address, status);
}

void ReachWatch::Ask(const std::set<std::string>& addresses) {
  for (const std::string& address : addresses) {
    const auto found = by_address_.find(address);
    if (found == by_address_.end()) continue;
    Member& member = members_.at(found->second);
    member.suspect = true;
    member.next = env_.executor.Now();
  }
  Schedule();
}

void ReachWatch::OnSilent(const std::string& peer, const absl::Status& why) {
  const auto found = members_.find(peer);
  if (found != members_.end()) Heard(peer, found->second.address, why);
}

void ReachWatch::Heard(const std::string& peer, const std::string& address,
                       const absl::Status& status) {
  const auto found = members_.find(peer);
  if (found == members_.end() || found->second.address != address) return;
  Member& member = found->second;
  const absl::Time now = env_.executor.Now();
  member.suspect = false;
  if (IsAnswer(status)) {
    member.next = now + kSeldom;
    if (!std::exchange(member.doubt, "").empty()) {
      env_.log.Info(absl::StrCat("peer ", peer, " answers at ", address, " again"));
      member.mended = now;
      Tell(peer, member);
    }
    return Schedule();
  }
  member.next = now + std::max(failure_timeout_, kLeastPause);
  const bool news = member.doubt.empty();
  member.doubt = ReasonOf(status, address);
  if (news) {
    env_.log.Warning(absl::StrCat("peer ", peer, " cannot be reached at ", address, ": ",
                                  member.doubt, "; it is dialled again until it answers"));
  }
  Tell(peer, member);
  Schedule();
}

void ReachWatch::Tell(const std::string& peer, const Member& member) {
  v1::PeerMessage message;
  v1::Reached* const reached = message.mutable_reached();
  reached->set_peer(peer);
  reached->set_answers(member.doubt.empty());
  reached->set_reason(member.doubt);
  send_(message);
}

void ReachWatch::Repeat() {
  for (const auto& [peer, member] : members_) {
    const bool mended = env_.executor.Now() - member.mended <= Kept();
    if (!member.doubt.empty() || mended) Tell(peer, member);
  }
}

void ReachWatch::Dial(const std::string& peer, Member* member) {
  member->asked = true;
  member->dial = ++dials_;
  const absl::Time asked_at = env_.executor.Now();
  // A member in doubt is dialled by all peers that doubt it, again and again. So that they do not
  // fill its line, it is sent many bytes only once it has answered a few.
  const bool in_doubt = !member->suspect && !member->doubt.empty();
  const bool asks_little = in_doubt && !std::exchange(member->answers_little, false);
  const bool proves = member->suspect || (in_doubt && !asks_little);
  const size_t bytes = proves        ? std::max(bytes_, size_t{kProofBytes})
                       : asks_little ? size_t{kLeastBytes}
                                     : bytes_;
  calls_.Wake(member->address, 1, bytes,
              guard_.Wrap([this, peer, asked_at, proves, dial = member->dial,
                           address = member->address](const absl::Status& status) {
                const auto found = members_.find(peer);
                // The member was gone in between.
                if (found == members_.end() || found->second.dial != dial) return;
                found->second.asked = false;
                // This process itself was stopped in between, so the member is asked once more.
                const absl::Duration took = env_.executor.Now() - asked_at;
                if (!IsAnswer(status) && took > 2 * EchoPatience(failure_timeout_)) {
                  return Schedule();
                }
                // The member has become suspect in between.
                if (IsAnswer(status) && !proves && found->second.suspect) return Schedule();
                if (IsAnswer(status) && !proves && !found->second.doubt.empty()) {
                  found->second.answers_little = true;
                  found->second.next = env_.executor.Now();
                  return Schedule();
                }
                Heard(peer, address, status);
              }));
}

void ReachWatch::DialDue() {
  const absl::Time now = env_.executor.Now();
  for (auto& [peer, member] : members_) {
    const bool wanted = member.watched || member.suspect || !member.doubt.empty();
    if (wanted && !member.asked && member.next <= now) Dial(peer, &member);
  }
  Schedule();
}

void ReachWatch::Schedule() {
  env_.executor.Cancel(timer_);
  timer_ = 0;
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [peer, member] : members_) {
    if (member.asked || (!member.watched && !member.suspect && member.doubt.empty())) continue;
    next = std::min(next, member.next);
  }
  if (next == absl::InfiniteFuture()) return;
  const absl::Duration pause = std::max(next - env_.executor.Now(), absl::ZeroDuration());
  timer_ = env_.executor.RunAfter(pause, guard_.Wrap([this] {
    timer_ = 0;
    DialDue();
  }));
}

}  // namespace atolld

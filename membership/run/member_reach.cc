#include "membership/run/member_reach.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "membership/run/ledger.h"

namespace atolld {
namespace {

// How often the coordinator dials a member that answers, and how many in a tick: each costs a
// handshake.
constexpr absl::Duration kDialledAgain = absl::Minutes(1);
constexpr absl::Duration kLeastPause = absl::Seconds(5);  // for a member that does not answer
constexpr size_t kDialsAtOnce = 16;

}  // namespace

MemberReach::MemberReach(Roster& roster, RosterNews& news, absl::Duration failure_timeout)
    : roster_(roster), news_(news), failure_timeout_(failure_timeout), reach_(failure_timeout) {}

bool MemberReach::NoteReached(absl::Time now, const std::string& peer, const v1::Reached& reached,
                              RunOutput* out) {
  const RosterMember* const to = roster_.Find(reached.peer());
  if (to == nullptr || to->address.empty()) return false;
  const bool before = to->unreachable;
  // An answer counts for a peer that is gone as well, or the doubt would outlive its reason.
  if (reached.answers()) {
    Settle(now, peer, to->peer, out);
  } else if (to->present()) {
    Doubt(now, peer, to->peer, reached.reason(), out);
  }
  return to->unreachable && !before;
}

bool MemberReach::CutOff(const std::string& peer) const {
  size_t alone = 0;
  for (const auto& [to, accusers] : reach_.ByAccused()) {
    alone += accusers.size() == 1 && accusers.count(peer) > 0 ? 1 : 0;
  }
  return alone > MostAccused(roster_.Trainers());
}

void MemberReach::Doubt(absl::Time now, const std::string& from, const std::string& to,
                        const std::string& reason, RunOutput* out) {
  if (!reach_.NoteInVain(now, from, to, reason)) return;
  const bool own = from == kCoordinatorDials;
  out->Say(absl::StrCat(own ? "the coordinator" : absl::StrCat("peer ", from), " cannot reach ", to,
                        " at ", roster_.Find(to)->address, Because(reason)),
           RunOutput::Severity::kWarning);
  Follow(now, to, out);
  // The coordinator's own dial shows whether one route or the address is at fault.
  if (!own) out->probes.push_back({to, roster_.Find(to)->address});
}

void MemberReach::Settle(absl::Time now, const std::string& from, const std::string& to,
                         RunOutput* out) {
  if (!reach_.NoteAnswered(from, to)) return;
  out->Say(absl::StrCat(from == kCoordinatorDials ? "the coordinator" : absl::StrCat("peer ", from),
                        " reaches ", to, " again"));
  Follow(now, to, out);
}

void MemberReach::Follow(absl::Time now, const std::string& peer, RunOutput* out) {
  if (!roster_.SetUnreachable(peer, reach_.Unreachable(peer))) return;
  news_.NoteChange();
  const RosterMember& member = *roster_.Find(peer);
  if (!member.unreachable) return;
  out->Say(absl::StrCat("peer ", peer, ": ", reach_.Told(now, peer, member.address)),
           RunOutput::Severity::kWarning);
}

void MemberReach::OnGone(absl::Time now, const std::string& peer, RunOutput* out) {
  std::set<std::string> named = {peer};
  for (const auto& [to, accusers] : reach_.ByAccused()) {
    if (accusers.count(peer) > 0) named.insert(to);
  }
  reach_.SetAside(peer);
  for (const std::string& one : named) {
    if (roster_.Find(one) != nullptr) Follow(now, one, out);
  }
}

void MemberReach::OnJoined(absl::Time now, const std::string& peer, bool same, RunOutput* out) {
  const auto here = [this](const std::string& other) {
    const RosterMember* const member = roster_.Find(other);
    return member != nullptr && member->present();
  };
  if (same) {
    for (const std::string& one : reach_.TakeUp(peer, here)) Follow(now, one, out);
    return;
  }
  OnGone(now, peer, out);
  reach_.Forget(peer);
  const RosterMember& member = *roster_.Find(peer);
  if (!member.address.empty()) Dial(now, peer, member.address, out);
}

void MemberReach::NoteDialled(absl::Time now, const std::string& peer, ProbeResult result,
                              RunOutput* out) {
  if (result == ProbeResult::kAnswered) return Settle(now, kCoordinatorDials, peer, out);
  Doubt(now, kCoordinatorDials, peer,
        result == ProbeResult::kRefused ? "connection refused" : "no answer", out);
}

void MemberReach::Dial(absl::Time now, const std::string& peer, const std::string& address,
                       RunOutput* out) {
  dialled_at_[peer] = now;
  out->probes.push_back({peer, address});
}

void MemberReach::Forget(const std::string& peer) {
  reach_.Forget(peer);
  dialled_at_.erase(peer);
}

void MemberReach::Tick(absl::Time now, RunOutput* out) {
  const auto heard = [&](const std::string& peer) {
    const RosterMember* const member = roster_.Find(peer);
    return member == nullptr ? now : member->last_word;
  };
  for (const Reach::Doubt& doubt : reach_.Lapse(now, heard)) {
    if (roster_.Find(doubt.to) != nullptr) Follow(now, doubt.to, out);
  }
  size_t dials = 0;
  for (const auto& [peer, member] : roster_.members()) {
    if (!member.connected() || !member.present() || member.address.empty()) continue;
    const bool doubted = !reach_.Accusers(peer).empty();
    const absl::Duration pause = doubted ? std::max(failure_timeout_, kLeastPause) : kDialledAgain;
    const auto last = dialled_at_.find(peer);
    const bool lately = last != dialled_at_.end() && now - last->second < pause;
    if (lately || dials >= kDialsAtOnce) continue;
    ++dials;
    Dial(now, peer, member.address, out);
  }
}

void MemberReach::Show(absl::Time now, v1::RunStatus* status) const {
  for (const Reach::Doubt& doubt : reach_.All()) {
    v1::ReachDoubt* const shown = status->add_doubts();
    shown->set_from(doubt.from);
    shown->set_to(doubt.to);
    shown->set_seconds(absl::ToDoubleSeconds(now - doubt.since));
    shown->set_reason(doubt.reason);
  }
  for (v1::PeerStatus& peer : *status->mutable_peers()) {
    const v1::Member& member = peer.member();
    const std::string told = reach_.Told(now, member.peer(), member.address());
    if (told.empty()) continue;
    peer.set_why(peer.why().empty() ? told : absl::StrCat(peer.why(), "; ", told));
  }
}

}  // namespace atolld

#include "membership/run/roster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/planted_bug.h"
#include "membership/run/admission.h"

namespace atolld {
namespace {

// A broken Session is redialled within a second or two; waiting longer only delays the others.
constexpr absl::Duration kSuspectAtMost = absl::Seconds(3);

// Whoever looks at a run in the evening sees who was there in the morning.
constexpr absl::Duration kForgottenAfter = absl::Hours(24);

// Everybody is told of everybody at each change: names of the gone must not outnumber the members
// of a large run.
constexpr size_t kMostGone = 256;

bool Gone(const RosterMember& member) {
  return member.state == MemberState::kDead || member.state == MemberState::kLeft;
}

// Beside its texts: state, version, offer, and tags.
constexpr size_t kToldBeside = 80;

size_t ToldBytes(const RosterMember& member) {
  if (member.peer.empty()) return 0;  // it is none yet
  return 2 * member.peer.size() + member.claimed.size() + member.region.size() + kToldBeside;
}

MemberState FormerState(const std::string& name) {
  for (const MemberState state : {MemberState::kLeft, MemberState::kDead, MemberState::kEvicted}) {
    if (name == MemberStateName(state)) return state;
  }
  return MemberState::kSuspect;  // it was a member: nothing is known of it now
}

}  // namespace

absl::string_view MemberStateName(MemberState state) {
  switch (state) {
    case MemberState::kJoining:
      return "joining";
    case MemberState::kLive:
      return "live";
    case MemberState::kSuspect:
      return "suspect";
    case MemberState::kDead:
      return "dead";
    case MemberState::kLeft:
      return "left";
    case MemberState::kEvicted:
      return "evicted";
  }
  return "";
}

Roster::Roster(absl::Duration failure_timeout, absl::Time now,
               absl::Span<const MemberRecord> former)
    : failure_timeout_(failure_timeout), grace_end_(now + failure_timeout), last_tick_(now) {
  for (const MemberRecord& record : former) {
    RosterMember& member = members_[record.peer];
    member.peer = record.peer;
    Claim(record.address, &member);
    member.last_heard = now;
    member.suspect_since = now;
    member.gone_since = now;
    member.state = FormerState(record.state);
    told_bytes_ += ToldBytes(member);
    member.restored = member.present();
    // A store may name one address twice: what a member has lost meanwhile was not its own change.
    if (!member.present() || !Taken(record.address, record.peer)) member.address = record.address;
    member.draining = record.draining && member.present();
    member.why = member.restored && !member.draining
                     ? "not back yet after the coordinator's restart"
                     : record.why;
  }
}

void Roster::Claim(const std::string& address, RosterMember* member) {
  const auto former = claimants_.find(member->claimed);
  if (former != claimants_.end()) {
    former->second.erase(member->peer);
    if (former->second.empty()) claimants_.erase(former);
  }
  member->claimed = address;
  if (!address.empty()) claimants_[address].insert(member->peer);
}

SessionId Roster::Join(absl::Time now, SessionId session, const v1::Hello& hello) {
  const std::optional<absl::Time> known = deadline_;
  NoteChange();
  RosterMember& member = members_[hello.peer()];
  const bool restored = member.restored;
  told_bytes_ -= ToldBytes(member);
  const SessionId replaced = member.session;
  sessions_.erase(replaced);
  sessions_[session] = hello.peer();
  member.peer = hello.peer();
  if (member.claimed != hello.address() || member.instance != hello.instance()) {
    member.in_vain = false;
  }
  const std::string former = std::exchange(member.address, "");
  Claim(hello.address(), &member);
  if (former != hello.address()) PassOn(former);
  if (!Taken(hello.address(), hello.peer())) member.address = hello.address();
  member.region = hello.region();
  told_bytes_ += ToldBytes(member);
  member.up_rate = hello.up_rate();
  member.down_rate = hello.down_rate();
  member.aggregator = hello.role() == kAggregatorRole;
  if (!member.draining) member.why.clear();
  member.state = hello.has_state() ? MemberState::kLive : MemberState::kJoining;
  member.has_state = hello.has_state();
  member.version = hello.has_state() ? hello.version() : 0;
  member.session = session;
  member.last_heard = now;
  member.pid = hello.pid();
  member.instance = hello.instance();
  member.restored = false;
  member.offer.reset();
  if (hello.has_offer()) member.offer = hello.offer();
  // Thousands may join at once: nobody else has to be looked at for it.
  if (known && !restored) deadline_ = std::min(*known, DeadlineOf(member));
  return replaced;
}

void Roster::SetLineCaps(const std::string& peer, const v1::LineCaps& caps) {
  const auto found = members_.find(peer);
  if (found == members_.end()) return;
  found->second.up_rate = caps.up_rate();
  found->second.down_rate = caps.down_rate();
}

void Roster::NoteChange() {
  ++changes_;
  deadline_.reset();
}

std::string Roster::PeerOf(SessionId session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? "" : found->second;
}

bool Roster::Taken(const std::string& address, const std::string& but) const {
  const auto claimants = claimants_.find(address);
  if (Planted(PlantedBug::kAddressTaken) || claimants == claimants_.end()) return false;
  return std::any_of(claimants->second.begin(), claimants->second.end(), [&](const auto& peer) {
    const RosterMember& member = members_.at(peer);
    return peer != but && member.present() && member.address == address;
  });
}

// Its holder has left it.
void Roster::PassOn(const std::string& address) {
  const auto claimants = claimants_.find(address);
  if (claimants == claimants_.end() || Taken(address, "")) return;
  for (const std::string& peer : claimants->second) {
    RosterMember& member = members_.at(peer);
    if (!member.present() || !member.address.empty()) continue;
    member.address = address;
    return;
  }
}

bool Roster::GrantAddress(const std::string& peer) {
  RosterMember* const claimant = Mutable(peer);
  if (claimant == nullptr || !claimant->present() || claimant->address == claimant->claimed) {
    return false;
  }
  for (const std::string& other : claimants_[claimant->claimed]) members_.at(other).address.clear();
  claimant->address = claimant->claimed;
  return true;
}

void Roster::NoteDialled(const std::string& peer, bool in_vain) {
  if (RosterMember* member = Mutable(peer); member != nullptr) member->in_vain = in_vain;
}

void Roster::SetGone(absl::Time now, MemberState state, const std::string& why,
                     RosterMember* member) {
  NoteChange();
  member->state = state;
  member->why = why;
  member->gone_since = now;
  member->restored = false;
  member->draining = false;
  PassOn(member->address);
}

void Roster::Heard(absl::Time now, const std::string& peer) {
  const auto it = members_.find(peer);
  if (it != members_.end()) it->second.last_heard = now;
}

void Roster::SetState(const std::string& peer, uint64_t version) {
  const auto it = members_.find(peer);
  if (it == members_.end()) return;
  RosterMember& member = it->second;
  member.version = member.has_state ? std::max(member.version, version) : version;
  member.has_state = true;
  if (member.state == MemberState::kJoining) member.state = MemberState::kLive;
}

void Roster::ForgetStates() {
  for (auto& [peer, member] : members_) {
    member.has_state = false;
    member.version = 0;
    member.offer.reset();
    if (member.state == MemberState::kLive) member.state = MemberState::kJoining;
  }
}

void Roster::SetOffer(const std::string& peer, const v1::Offer& offer) {
  if (RosterMember* member = Mutable(peer); member != nullptr) member->offer = offer;
}

std::string Roster::Break(absl::Time now, SessionId session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return "";
  const std::string peer = found->second;
  sessions_.erase(found);
  NoteChange();
  RosterMember& member = members_.at(peer);
  member.session = 0;
  if (!member.present()) return "";
  member.state = MemberState::kSuspect;
  member.suspect_since = now;
  if (!member.draining) member.why = "its session broke";
  return peer;
}

bool Roster::Refused(absl::Time now, const std::string& peer) {
  RosterMember* member = Mutable(peer);
  if (member == nullptr || member->state != MemberState::kSuspect || in_grace(now)) return false;
  SetGone(now, MemberState::kDead, "its session broke and its address refuses connections", member);
  return true;
}

void Roster::Leave(absl::Time now, const std::string& peer, const std::string& why) {
  if (RosterMember* member = Mutable(peer); member != nullptr) {
    SetGone(now, MemberState::kLeft, why, member);
  }
}

void Roster::Drain(const std::string& peer, const std::string& why) {
  RosterMember* member = Mutable(peer);
  if (member == nullptr || !member->present()) return;
  NoteChange();
  member->draining = true;
  member->why = why;
}

void Roster::Evict(absl::Time now, const std::string& peer, const std::string& why) {
  if (RosterMember* member = Mutable(peer); member != nullptr) {
    SetGone(now, MemberState::kEvicted, why, member);
  }
}

void Roster::Readmit(absl::Time now, const std::string& peer) {
  RosterMember* member = Mutable(peer);
  if (member == nullptr || member->state != MemberState::kEvicted) return;
  SetGone(now, MemberState::kLeft, "its eviction was undone", member);
}

std::vector<std::string> Roster::Stale(absl::Time now) const {
  std::vector<const RosterMember*> gone;
  for (const auto& [peer, member] : members_) {
    if (Gone(member)) gone.push_back(&member);
  }
  std::stable_sort(gone.begin(), gone.end(), [](const RosterMember* a, const RosterMember* b) {
    return a->gone_since < b->gone_since;
  });
  std::vector<std::string> stale;
  for (const RosterMember* member : gone) {
    const bool too_many = gone.size() - stale.size() > kMostGone;
    if (!too_many && now < member->gone_since + kForgottenAfter) break;
    stale.push_back(member->peer);
  }
  return stale;
}

void Roster::Forget(const std::string& peer) {
  const auto found = members_.find(peer);
  if (found == members_.end()) return;
  NoteChange();
  sessions_.erase(found->second.session);
  told_bytes_ -= ToldBytes(found->second);
  Claim("", &found->second);
  members_.erase(found);
}

RosterMember* Roster::Mutable(const std::string& peer) {
  const auto it = members_.find(peer);
  return it == members_.end() ? nullptr : &it->second;
}

absl::Time Roster::DeadlineOf(const RosterMember& member) const {
  if (!member.present()) return absl::InfiniteFuture();
  if (member.restored) return grace_end_;
  if (member.state == MemberState::kSuspect) {
    return member.suspect_since + std::min(kSuspectAtMost, failure_timeout_);
  }
  return member.last_heard + failure_timeout_;
}

std::vector<Roster::Death> Roster::Tick(absl::Time now) {
  // Ticks come every failure_timeout / 4. A much longer gap means that this process did not run,
  // and what the peers sent meanwhile has not been read yet: the gap is nobody's silence.
  const absl::Duration gap = now - last_tick_;
  last_tick_ = now;
  deadline_.reset();
  if (gap > failure_timeout_ / 2) {
    for (auto& [peer, member] : members_) {
      member.last_heard += gap;
      member.suspect_since += gap;
    }
    grace_end_ += gap;
  }
  std::vector<Death> deaths;
  if (in_grace(now)) return deaths;
  for (auto& [peer, member] : members_) {
    if (DeadlineOf(member) > now) continue;
    const std::string why =
        member.restored ? "it did not come back after the coordinator's restart"
        : member.state == MemberState::kSuspect
            ? "its session broke and did not resume"
            : absl::StrCat("silent for ", absl::FormatDuration(failure_timeout_));
    SetGone(now, MemberState::kDead, why, &member);
    deaths.push_back(Death{peer, member.session, why});
  }
  return deaths;
}

absl::Time Roster::NextDeadline() const {
  if (deadline_) return *deadline_;
  absl::Time next = absl::InfiniteFuture();
  const bool waiting = std::any_of(members_.begin(), members_.end(),
                                   [](const auto& entry) { return entry.second.restored; });
  for (const auto& [peer, member] : members_) next = std::min(next, DeadlineOf(member));
  deadline_ = waiting ? std::max(next, grace_end_) : next;
  return *deadline_;
}

bool Roster::in_grace(absl::Time now) const {
  if (now >= grace_end_) return false;
  return std::any_of(members_.begin(), members_.end(),
                     [](const auto& entry) { return entry.second.restored; });
}

const RosterMember* Roster::Find(const std::string& peer) const {
  const auto it = members_.find(peer);
  return it == members_.end() ? nullptr : &it->second;
}

v1::Member Roster::ToProto(const RosterMember& member) {
  v1::Member out;
  out.set_peer(member.peer);
  out.set_address(member.address);
  out.set_region(member.region);
  if (member.offer) *out.mutable_offer() = *member.offer;
  out.set_state(std::string(MemberStateName(member.state)));
  out.set_has_state(member.has_state);
  out.set_version(member.version);
  return out;
}

v1::Roster Roster::ToProto() const {
  v1::Roster roster;
  for (const auto& [peer, member] : members_) *roster.add_members() = ToProto(member);
  return roster;
}

MemberRecord Roster::Record(const RosterMember& member) {
  return MemberRecord{member.peer, member.address, std::string(MemberStateName(member.state)),
                      member.why, member.draining};
}

}  // namespace atolld

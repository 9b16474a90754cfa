#include "membership/run/roster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/planted_bug.h"
#include "membership/run/admission.h"
#include "membership/run/pace.h"

namespace atolld {
namespace {

// A broken Session is redialled within a second or two; waiting longer only delays the others.
constexpr absl::Duration kSuspectAtMost = absl::Seconds(3);

// A daemon that starts beside others on a busy machine has come by then.
constexpr absl::Duration kStartsAtMost = absl::Seconds(4);
// Daemons of one run that are started one by one come at most this much later.
constexpr absl::Duration kComesLater = absl::Seconds(3);

// With a day, an operator can still see in the evening which members there were in the morning.
constexpr absl::Duration kForgottenAfter = absl::Hours(24);

// Every member is told of all others at each change, so there must not be more names of gone peers
// than members of a large run.
constexpr size_t kMostGone = 256;

bool MayBeForgotten(const RosterMember& member) {
  return member.state == MemberState::kDead || member.state == MemberState::kLeft;
}

// The bytes of a member in addition to its texts: state, version, offer, and tags.
constexpr size_t kToldBeside = 80;

size_t ToldBytes(const RosterMember& member) {
  if (member.peer.empty()) return 0;  // the peer is not a member yet
  return 2 * member.peer.size() + member.claimed.size() + member.region.size() + kToldBeside;
}

MemberState FormerState(const std::string& name) {
  for (const MemberState state : {MemberState::kLeft, MemberState::kDead, MemberState::kEvicted}) {
    if (name == MemberStateName(state)) return state;
  }
  return MemberState::kSuspect;  // a former member: its present state is unknown
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
    : failure_timeout_(failure_timeout),
      grace_end_(now + failure_timeout),
      last_tick_(now),
      last_joined_(now) {
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
    // A store may name one address twice, if a member has lost it without a change of its own.
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

bool Roster::IsFormer(const v1::Hello& hello) const {
  const RosterMember* const known = Find(hello.peer());
  if (known == nullptr || hello.life() == 0 || Planted(PlantedBug::kFormerLifeTaken)) return false;
  if (hello.life() != known->life) return hello.life() < known->life;
  return hello.instance() != known->instance || hello.session() <= known->greeting;
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
  const bool same = !restored && member.peer == hello.peer() && member.instance == hello.instance();
  // A peer that greets again and again does not prolong any wait.
  if (!same || !member.present()) {
    last_joined_ = member.joined = now;
    nobody_comes_ = false;
  }
  member.greetings = same ? member.greetings + 1 : 1;
  member.peer = hello.peer();
  if (member.claimed != hello.address() || member.instance != hello.instance()) {
    member.in_vain = member.unreachable = false;
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
  member.life = std::max(member.life, hello.life());
  member.greeting = hello.session();
  member.restored = false;
  member.offer.reset();
  if (hello.has_offer()) member.offer = hello.offer();
  // Thousands may join at once, so this must not examine the other members.
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

// Called when the holder has left the address. Gives it to another peer that claims it.
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

bool Roster::SetUnreachable(const std::string& peer, bool unreachable) {
  RosterMember* const member = Mutable(peer);
  return member != nullptr && std::exchange(member->unreachable, unreachable) != unreachable;
}

void Roster::SetGone(absl::Time now, MemberState state, const std::string& why,
                     RosterMember* member) {
  NoteChange();
  member->state = state;
  member->why = why;
  member->gone_since = now;
  member->restored = false;
  member->draining = false;
  // If the peer has left while its owner had stopped its worker, it stays set aside, so that no
  // round waits for it. Other peers that are gone are no longer set aside.
  // are not expected.
  if (state != MemberState::kLeft || !member->idle_by_owner) {
    member->idle_since = absl::InfiniteFuture();
    member->set_aside = false;
  }
  PassOn(member->address);
}

absl::Duration Roster::SetAsideAfter() const { return StateDeadline(0, 0, failure_timeout_); }

absl::Duration Roster::ComesWithin() const {
  return std::max(failure_timeout_, kStartsAtMost) + kComesLater;
}

void Roster::NoteIdle(const std::string& peer, bool idle, bool by_owner) {
  RosterMember* const member = Mutable(peer);
  if (member == nullptr) return;
  member->idle_by_owner = idle && by_owner;
  if (idle) {
    member->idle_since = std::min(member->idle_since, member->last_heard);
  } else {
    member->idle_since = absl::InfiniteFuture();
    member->set_aside = false;
  }
}

void Roster::SetParameters(absl::Time now, uint64_t parameters) {
  if (parameters_ == 0) parameters_since_ = now;
  parameters_ = parameters;
}

absl::Duration Roster::StateTime() const { return StateDeadline(parameters_, 0, failure_timeout_); }

void Roster::SetAside(absl::Time now) {
  for (auto& [peer, member] : members_) {
    if (member.set_aside || member.aggregator) continue;
    const bool lacks_state = parameters_ > 0 && member.present() && !member.has_state &&
                             std::max(member.joined, parameters_since_) + StateTime() <= now;
    if (!lacks_state && member.idle_since + SetAsideAfter() > now) continue;
    member.set_aside = true;
    newly_aside_.push_back(peer);
    ++changes_;
  }
}

size_t Roster::Trainers() const {
  return static_cast<size_t>(std::count_if(members_.begin(), members_.end(), [](const auto& entry) {
    return entry.second.present() && !entry.second.aggregator;
  }));
}

size_t Roster::Expected(size_t announced) const {
  size_t aside = 0;
  size_t aside_here = 0;
  for (const auto& [peer, member] : members_) {
    if (!member.set_aside) continue;
    ++aside;
    if (member.present() && !member.aggregator) ++aside_here;
  }
  const size_t expected = announced - std::min(announced, aside);
  // A peer that was set aside and is gone is not among the present trainers.
  return nobody_comes_ ? std::min(expected, Trainers() - aside_here) : expected;
}

void Roster::Heard(absl::Time now, const std::string& peer) {
  const auto it = members_.find(peer);
  if (it == members_.end()) return;
  it->second.last_heard = it->second.last_word = now;
  it->second.greetings = 0;
}

void Roster::SetState(const std::string& peer, uint64_t version) {
  const auto it = members_.find(peer);
  if (it == members_.end()) return;
  RosterMember& member = it->second;
  member.version = member.has_state ? std::max(member.version, version) : version;
  member.has_state = true;
  if (member.idle_since == absl::InfiniteFuture()) member.set_aside = false;
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

std::vector<std::string> Roster::Gone() const {
  std::vector<std::string> gone;
  for (const auto& [peer, member] : members_) {
    if (!member.present()) gone.push_back(peer);
  }
  return gone;
}

std::vector<std::string> Roster::Stale(absl::Time now) const {
  std::vector<const RosterMember*> gone;
  for (const auto& [peer, member] : members_) {
    if (MayBeForgotten(member)) gone.push_back(&member);
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
  // and that messages of peers have not been read yet: the gap must not count as silence of any
  // peer.
  const absl::Duration gap = now - last_tick_;
  last_tick_ = now;
  deadline_.reset();
  if (gap > failure_timeout_ / 2) {
    for (auto& [peer, member] : members_) {
      member.last_heard += gap;
      member.suspect_since += gap;
      member.idle_since += gap;
    }
    grace_end_ += gap;
    last_joined_ += gap;
  }
  SetAside(now);
  nobody_comes_ = now >= last_joined_ + ComesWithin();
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
  out.set_unreachable(member.unreachable);
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

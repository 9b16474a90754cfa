#include "membership/roster.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

// A broken Session is redialled within a second or two; waiting longer only delays the others.
constexpr absl::Duration kSuspectAtMost = absl::Seconds(3);

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
  }
  return "";
}

Roster::Roster(absl::Duration failure_timeout, absl::Time now,
               absl::Span<const MemberRecord> former)
    : failure_timeout_(failure_timeout), grace_end_(now + failure_timeout), last_tick_(now) {
  for (const MemberRecord& record : former) {
    RosterMember& member = members_[record.peer];
    member.peer = record.peer;
    member.address = record.address;
    member.last_heard = now;
    member.suspect_since = now;
    if (record.state == MemberStateName(MemberState::kLeft)) {
      member.state = MemberState::kLeft;
    } else if (record.state == MemberStateName(MemberState::kDead)) {
      member.state = MemberState::kDead;
    } else {
      member.state = MemberState::kSuspect;
      member.restored = true;
    }
  }
}

SessionId Roster::Join(absl::Time now, SessionId session, const v1::Hello& hello) {
  RosterMember& member = members_[hello.peer()];
  const SessionId replaced = member.session;
  member.peer = hello.peer();
  member.address = hello.address();
  member.region = hello.region();
  member.state = hello.has_state() ? MemberState::kLive : MemberState::kJoining;
  member.has_state = hello.has_state();
  member.version = hello.has_state() ? hello.version() : 0;
  member.session = session;
  member.last_heard = now;
  member.pid = hello.pid();
  member.instance = hello.instance();
  member.restored = false;
  return replaced;
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

std::string Roster::Break(absl::Time now, SessionId session) {
  for (auto& [peer, member] : members_) {
    if (member.session != session) continue;
    member.session = 0;
    if (!member.present()) return "";
    member.state = MemberState::kSuspect;
    member.suspect_since = now;
    return peer;
  }
  return "";
}

bool Roster::Refused(absl::Time now, const std::string& peer) {
  const auto it = members_.find(peer);
  if (it == members_.end() || it->second.state != MemberState::kSuspect || in_grace(now))
    return false;
  it->second.state = MemberState::kDead;
  return true;
}

void Roster::Leave(const std::string& peer) {
  const auto it = members_.find(peer);
  if (it == members_.end()) return;
  it->second.state = MemberState::kLeft;
  it->second.restored = false;
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
    member.state = MemberState::kDead;
    member.restored = false;
    deaths.push_back(Death{peer, member.session, why});
  }
  return deaths;
}

absl::Time Roster::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  const bool waiting = std::any_of(members_.begin(), members_.end(),
                                   [](const auto& entry) { return entry.second.restored; });
  for (const auto& [peer, member] : members_) next = std::min(next, DeadlineOf(member));
  return waiting ? std::max(next, grace_end_) : next;
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

v1::Roster Roster::ToProto() const {
  v1::Roster roster;
  for (const auto& [peer, member] : members_) {
    v1::Member* out = roster.add_members();
    out->set_peer(peer);
    out->set_address(member.address);
    out->set_region(member.region);
    out->set_state(std::string(MemberStateName(member.state)));
    out->set_has_state(member.has_state);
    out->set_version(member.version);
  }
  return roster;
}

MemberRecord Roster::Record(const RosterMember& member) {
  return MemberRecord{member.peer, member.address, std::string(MemberStateName(member.state))};
}

}  // namespace atolld

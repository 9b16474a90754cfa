// Roster: who is a member of the run, and who is alive.
//
//   joining --has a state--> live --Session broke--> suspect --redial refused, or--> dead
//                                                     min(3 s, failure_timeout) passed
//   silent for failure_timeout: dead;  Leaving: left;  a Hello makes anybody a member again, but
//   one that an operator evicted
//
// After a restart those that were members are suspects in grace: nobody dies before all of them are
// back or failure_timeout has passed. A coordinator that was itself stopped for a while blames
// nobody for its own silence. No two members that are here have one address: it is the first one's
// until that one is gone, or until another proves to be the one that answers there; whoever claims
// it meanwhile has none. The dead and those that left are forgotten after a day, or earlier
// where there are very many; the evicted never. Pure: time comes in as an argument. Sorted by peer
// id: that is roster order.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/membership.pb.h"

namespace atolld {

struct MemberRecord {
  std::string peer;
  std::string address;
  std::string state;      // as in v1::Member
  std::string why{};      // it is in that state; for an evicted one what the operator said
  bool draining = false;  // asked to leave, and has not left yet
};

// One Session stream, numbered by whoever accepts them. 0: none.
using SessionId = uint64_t;

enum class MemberState { kJoining, kLive, kSuspect, kDead, kLeft, kEvicted };
absl::string_view MemberStateName(MemberState state);  // as in v1::Member

struct RosterMember {
  std::string peer;
  std::string address;   // empty: cannot be dialled
  std::string claimed;   // by its Hello; another than `address`: a member that is here has that one
  std::string region;    // empty: one of its own
  bool in_vain = false;  // the coordinator has dialled it there, and it was not there
  // It trains nothing, so it is never counted among those that a round needs.
  bool aggregator = false;
  MemberState state = MemberState::kJoining;
  std::string why;  // it is suspect, dead, left or evicted, or draining
  bool has_state = false;
  uint64_t version = 0;  // newest that it is known to hold
  SessionId session = 0;
  absl::Time last_heard;
  absl::Time suspect_since;
  absl::Time gone_since;  // dead, left or evicted; as far as this process knows
  std::optional<v1::Offer> offer;
  uint64_t up_rate = 0;  // of its line, bytes a second; 0: not told
  uint64_t down_rate = 0;
  uint32_t pid = 0;
  uint64_t instance = 0;
  bool restored = false;  // was a member when the coordinator stopped, and is not back yet
  bool draining = false;  // asked to leave; gets no new work

  bool connected() const { return session != 0; }
  // Alive as far as is known: what a round waits for.
  bool present() const {
    return state != MemberState::kDead && state != MemberState::kLeft &&
           state != MemberState::kEvicted;
  }
};

class Roster {
 public:
  struct Death {
    std::string peer;
    SessionId session = 0;  // still open, to be ended; 0: none
    std::string why;
  };

  Roster(absl::Duration failure_timeout, absl::Time now, absl::Span<const MemberRecord> former);

  // A peer said Hello. Returns the session that this one replaces, or 0.
  SessionId Join(absl::Time now, SessionId session, const v1::Hello& hello);
  void Heard(absl::Time now, const std::string& peer);
  void SetState(const std::string& peer,
                uint64_t version);  // it holds a state, at least of this version
  void ForgetStates();              // what they hold is no state of the run any more
  void SetOffer(const std::string& peer, const v1::Offer& offer);

  // The session ended. Returns the peer that is now suspect, or "" if the session was nobody's
  // current one.
  std::string Break(absl::Time now, SessionId session);
  // It has shown that it is the one at the address that it claims: whoever else had that has none
  // from now on. False: nothing has changed.
  bool GrantAddress(const std::string& peer);
  // The coordinator has dialled it where it claims to be.
  void NoteDialled(const std::string& peer, bool in_vain);
  // A redial of a suspect's address was refused. True if it is dead now.
  bool Refused(absl::Time now, const std::string& peer);
  void Leave(absl::Time now, const std::string& peer, const std::string& why);

  // An operator's word. A member that is known; Readmit: it is evicted, and may come back.
  void Drain(const std::string& peer, const std::string& why);
  void Evict(absl::Time now, const std::string& peer, const std::string& why);
  void Readmit(absl::Time now, const std::string& peer);

  // Who is dead at `now` and was not before. Call it every failure_timeout / 4 and at
  // NextDeadline().
  std::vector<Death> Tick(absl::Time now);
  // InfiniteFuture: none. It may be too early, by what was heard since it was looked for: a Tick
  // then does nothing.
  absl::Time NextDeadline() const;

  // The dead and left that may be forgotten at `now`, longest gone first.
  std::vector<std::string> Stale(absl::Time now) const;
  void Forget(const std::string& peer);

  bool in_grace(absl::Time now) const;

  // Grows when somebody joins, goes, or is drained: when more has changed than what members hold.
  uint64_t changes() const { return changes_; }
  // How long a message that names all of them is, at most, as if each were waited for.
  size_t told_bytes() const { return told_bytes_; }
  std::string PeerOf(SessionId session) const;  // "" if it is nobody's current one

  // What a member here may use of its line, from the next plan on.
  void SetLineCaps(const std::string& peer, const v1::LineCaps& caps);

  const RosterMember* Find(const std::string& peer) const;  // nullptr: never seen
  const std::map<std::string, RosterMember>& members() const { return members_; }
  v1::Roster ToProto() const;
  static v1::Member ToProto(const RosterMember& member);
  static MemberRecord Record(const RosterMember& member);

 private:
  absl::Time DeadlineOf(const RosterMember& member) const;
  void SetGone(absl::Time now, MemberState state, const std::string& why, RosterMember* member);
  bool Taken(const std::string& address, const std::string& but) const;
  void PassOn(const std::string& address);
  void Claim(const std::string& address, RosterMember* member);  // in its former claim's place
  RosterMember* Mutable(const std::string& peer);                // nullptr: never seen
  void NoteChange();

  absl::Duration failure_timeout_;
  absl::Time grace_end_;
  absl::Time last_tick_;
  std::map<std::string, RosterMember> members_;
  std::map<SessionId, std::string> sessions_;  // current ones
  // By claimed address, those who claim it: whoever has an address is one of them.
  std::map<std::string, std::set<std::string>> claimants_;
  uint64_t changes_ = 0;
  size_t told_bytes_ = 0;
  mutable std::optional<absl::Time> deadline_;  // NextDeadline, until something may make it earlier
};

}  // namespace atolld

// Roster: records which peers are members of the run and which of them are alive.
//
//   joining --has a state--> live --Session broke--> suspect --redial refused, or--> dead
//                                                     min(3 s, failure_timeout) passed
//   silent for failure_timeout: dead;  Leaving: left;  a Hello makes any peer a member again,
//   except one that an operator evicted
//
// After a restart there is a grace in which the former members are suspects: none is declared dead
// before all of them are back or failure_timeout has passed. If the coordinator itself was stopped
// for a while, no peer counts as silent for that time. A trainer is set aside if its worker has not
// trained for SetAsideAfter, for a reason that the peer reports; the first round does not wait for
// it. No two present members have the same address. The first member with an address keeps it until
// that member is gone, or until another proves that it is the peer that answers at the address;
// meanwhile other members that claim the address have none. Dead peers and those that left are
// forgotten after a day, or earlier if there are very many; evicted peers are never forgotten. The
// class Roster has more than forty methods because each event that changes a member has one, and
// each question about the members has one. Pure: time is an argument. Used by one thread. Members
// are sorted by peer id, which is called roster order.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/membership.pb.h"

namespace atolld {

struct MemberRecord {
  std::string peer;
  std::string address;
  std::string state;  // a value of v1::Member.state
  // Why the peer is in that state; for an evicted peer, the operator's reason.
  std::string why{};
  bool draining = false;  // true if it was asked to leave and has not left yet
};

// Identifies a Session stream; numbers are given by the server that accepts the streams. 0 means no
// session.
using SessionId = uint64_t;

enum class MemberState { kJoining, kLive, kSuspect, kDead, kLeft, kEvicted };
absl::string_view MemberStateName(MemberState state);  // a value of v1::Member.state

// All that the roster knows about a member. It has more than twenty members because it is a record
// with a value for each fact; each of its two methods only tests one of them.
struct RosterMember {
  std::string peer;
  std::string address;  // empty if the peer cannot be dialled
  // The address in the peer's Hello. `address` differs from it if another present member has it.
  std::string claimed;
  std::string region;  // empty if the peer is a region of its own
  // True if the coordinator has dialled the peer at that address without an answer.
  bool in_vain = false;
  // True if two peers report that they cannot dial the peer there (see Reach).
  bool unreachable = false;
  // True if the peer trains nothing, so that it never counts among the peers that a round needs.
  bool aggregator = false;
  MemberState state = MemberState::kJoining;
  // Why the peer is suspect, dead, left, evicted or draining.
  std::string why;
  bool has_state = false;
  uint64_t version = 0;  // the newest version that the peer is known to hold
  SessionId session = 0;
  absl::Time last_heard;
  // The time of its last message that was not a Hello. A peer whose line passes only small packets
  // may say Hello again and again without getting an answer.
  absl::Time last_word = absl::InfinitePast();
  // The number of Hellos of its process since it last said anything else.
  uint32_t greetings = 0;
  absl::Time suspect_since;
  // The time at which the peer died, left or was evicted, according to this process.
  absl::Time gone_since;
  std::optional<v1::Offer> offer;
  // The rate of its line in bytes a second; 0 if the peer has not reported it.
  uint64_t up_rate = 0;
  uint64_t down_rate = 0;
  uint32_t pid = 0;
  uint64_t instance = 0;
  // The greatest life in a Hello of the peer since the coordinator's start; 0 if none.
  uint64_t life = 0;
  uint64_t greeting = 0;  // Hello.session of its newest Hello
  // True if the peer was a member when the coordinator stopped, and is not back yet.
  bool restored = false;
  bool draining = false;  // true if it was asked to leave; it gets no new work
  // The time at which the peer's worker stopped training for a reason that the peer reported;
  // InfiniteFuture if the worker trains or is being started.
  absl::Time idle_since = absl::InfiniteFuture();
  // True if the machine's owner has stopped the worker, even if the peer is disconnected because of
  // that.
  bool idle_by_owner = false;
  bool set_aside = false;
  absl::Time joined;  // since when this process has been here without being declared gone

  bool connected() const { return session != 0; }
  // True if the peer has shown in none of several Sessions that anything reaches it.
  bool hears_nothing() const { return greetings >= kUnheard; }
  static constexpr uint32_t kUnheard = 3;
  // True if the member is not known to be gone. A round waits for such members.
  bool present() const {
    return state != MemberState::kDead && state != MemberState::kLeft &&
           state != MemberState::kEvicted;
  }
};

class Roster {
 public:
  struct Death {
    std::string peer;
    SessionId session = 0;  // its session, which is still open and must be ended; 0 if none
    std::string why;
  };

  // Returns how long to wait until a worker that does not train is set aside. This is StateDeadline
  // of 0 parameters, which is long enough to correct a mistyped path.
  absl::Duration SetAsideAfter() const;

  // Returns how long the first round waits for trainers that are announced and have not come, from
  // the last that came: max(failure_timeout, 4 s) + 3 s. Those that come later take part from the
  // next round on. So a peer that cannot come costs less than two failure_timeouts of 4 s or more.
  absl::Duration ComesWithin() const;

  Roster(absl::Duration failure_timeout, absl::Time now, absl::Span<const MemberRecord> former);

  // Returns true if the Hello belongs to a former process of the peer or to a former Session of the
  // same process, because a Hello with a later life or a later Hello of this process has already
  // arrived. A Hello without a life never counts as former.
  bool IsFormer(const v1::Hello& hello) const;
  // Called for each Hello that is not a former one. Returns the session that this one replaces, or
  // 0.
  SessionId Join(absl::Time now, SessionId session, const v1::Hello& hello);
  void Heard(absl::Time now, const std::string& peer);  // Called for each later message.
  // Records that the peer holds a state of this version or a later one.
  void SetState(const std::string& peer, uint64_t version);
  // Called when the states that members hold no longer belong to the run. Records that no member
  // holds a state.
  void ForgetStates();
  void SetOffer(const std::string& peer, const v1::Offer& offer);

  // Called when the session ended. Returns the peer that is now suspect, or "" if the session was
  // not the current one of a peer.
  std::string Break(absl::Time now, SessionId session);
  // Called when the peer has shown that it is at the address that it claims; any other peer loses
  // that address. Returns false if nothing has changed.
  bool GrantAddress(const std::string& peer);
  // Called when the coordinator has dialled the peer at its claimed address. `in_vain` is true if
  // there was no answer.
  void NoteDialled(const std::string& peer, bool in_vain);
  // Returns true if the value has changed.
  bool SetUnreachable(const std::string& peer, bool unreachable);
  // Called when a redial of a suspect's address was refused. Returns true if it is dead now.
  bool Refused(absl::Time now, const std::string& peer);
  void Leave(absl::Time now, const std::string& peer, const std::string& why);

  // Called when the peer reports whether its worker is idle. If the worker trains, the peer is no
  // longer set aside.
  void NoteIdle(const std::string& peer, bool idle, bool by_owner);
  // Called when version 0 exists and has this many parameters. A peer that has not fetched it after
  // StateTime() is set aside.
  void SetParameters(absl::Time now, uint64_t parameters);
  absl::Duration StateTime() const;
  // Returns how many of the announced trainers may still train. Trainers that are set aside do not
  // count. Once no peer has joined for ComesWithin(), only the present trainers count.
  size_t Expected(size_t announced) const;
  size_t Trainers() const;  // the number of trainers that are present

  // Carry out an operator's orders about a known member. The member that Readmit names must be
  // evicted; it may then return.
  void Drain(const std::string& peer, const std::string& why);
  void Evict(absl::Time now, const std::string& peer, const std::string& why);
  void Readmit(absl::Time now, const std::string& peer);

  // Returns the members that have become dead. Must be called every failure_timeout / 4 and at
  // NextDeadline().
  std::vector<Death> Tick(absl::Time now);
  // Returns the members that were set aside by the Ticks since the last call.
  std::vector<std::string> TakeSetAside() { return std::exchange(newly_aside_, {}); }
  // True if, at the last Tick, no peer had joined for ComesWithin().
  bool nobody_comes() const { return nobody_comes_; }
  // Returns when the next Tick is due, or InfiniteFuture if there is no deadline. The time may be
  // too early if a member was heard since it was computed; a Tick then does nothing.
  absl::Time NextDeadline() const;

  std::vector<std::string> Gone() const;  // the members that are not present
  // Returns the dead and left members that may be forgotten at `now`, the longest gone first.
  std::vector<std::string> Stale(absl::Time now) const;
  void Forget(const std::string& peer);

  bool in_grace(absl::Time now) const;

  // Grows when a peer joins, goes, is drained or is set aside, but not when only the states that
  // members hold change.
  uint64_t changes() const { return changes_; }
  // The greatest length of a message with the whole roster, in which every peer might also be
  // waited for.
  size_t told_bytes() const { return told_bytes_; }
  std::string PeerOf(SessionId session) const;  // "" if it is not a member's current session

  // Sets limits for a present member's use of its line, which apply from the next plan on.
  void SetLineCaps(const std::string& peer, const v1::LineCaps& caps);

  const RosterMember* Find(const std::string& peer) const;  // nullptr if never seen
  const std::map<std::string, RosterMember>& members() const { return members_; }
  v1::Roster ToProto() const;
  static v1::Member ToProto(const RosterMember& member);
  static MemberRecord Record(const RosterMember& member);

 private:
  absl::Time DeadlineOf(const RosterMember& member) const;
  void SetGone(absl::Time now, MemberState state, const std::string& why, RosterMember* member);
  bool Taken(const std::string& address, const std::string& but) const;
  void PassOn(const std::string& address);
  // Replaces the member's former claim.
  void Claim(const std::string& address, RosterMember* member);
  RosterMember* Mutable(const std::string& peer);  // nullptr if never seen
  void NoteChange();
  void SetAside(absl::Time now);

  absl::Duration failure_timeout_;
  absl::Time grace_end_;
  absl::Time last_tick_;
  std::map<std::string, RosterMember> members_;
  std::map<SessionId, std::string> sessions_;  // the members' current sessions
  // The peers that claim each address, including the peer that has it.
  std::map<std::string, std::set<std::string>> claimants_;
  std::vector<std::string> newly_aside_;
  absl::Time last_joined_;
  uint64_t parameters_ = 0;  // 0 if there is no version 0 yet
  absl::Time parameters_since_;
  bool nobody_comes_ = false;
  uint64_t changes_ = 0;
  size_t told_bytes_ = 0;
  // The cached NextDeadline; cleared when an earlier one is possible.
  mutable std::optional<absl::Time> deadline_;
};

}  // namespace atolld

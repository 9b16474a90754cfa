// Invariants: what must hold after every event of a simulated run, whatever was done to it.
//
// Numbers are those of the guarantees: 1 agreement, 2 one history, 3 exactly once, 4 durability, 5
// monotone versions, 6 joins, 7 quorum and deadlines, 8 membership, 9 residuals, 10 bounds, 12
// liveness, 14 data, 15 lies, 16 masks. (11 is about strangers, 13 is checked by running a seed
// twice.) It hears what was said and what became durable, and is told what was done to whom, so
// that it can tell a false removal from a true one. The first thing that does not hold is kept; all
// later ones are its consequences.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"
#include "membership/run/run_output.h"
#include "tests/sim/history.h"

namespace atolld {

struct Violation {
  absl::Duration time;
  int invariant = 0;
  std::string what;
};

class Invariants {
 public:
  struct Terms {
    uint32_t quorum = 1;
    absl::Duration failure_timeout;
    std::function<absl::Duration()> now;
    std::set<std::string> aggregators = {};  // whose votes are none of the quorum's
    std::set<std::string> hostile = {};      // who may say another thing than they hold
    double audit_share = 0;
    uint32_t most_needed = 0;  // an exchange may need so many; 0: the quorum
    bool masked = false;       // updates are
  };

  explicit Invariants(Terms terms);

  const std::optional<Violation>& violation() const { return violation_; }
  void Violate(int invariant, const std::string& what);
  History& history() { return history_; }
  const v1::Plan& newest_plan() const { return newest_plan_; }
  uint64_t plans_told() const { return plans_told_; }
  uint64_t announced() const { return announced_; }  // newest version that the coordinator has said
  // The newest version that the peer has said it holds, and whether it has said so at all.
  uint64_t said(const std::string& peer) const;
  bool said_any(const std::string& peer) const;

  // What is done to whom. `name` is disturbed until that time at least: what others say of it (or
  // the coordinator does) meanwhile, and for some while after, proves nothing.
  void Disturb(const std::string& name, absl::Duration until);
  void Calm(const std::string& name);  // whatever was done to it is over
  void OnStart(const std::string& name);
  // `files` shows what the crash has left of its disk.
  void OnDeath(const std::string& name, Files& files, const std::string& dir);
  void OnWiped(const std::string& peer);
  // The coordinator's store is an older copy: it may be behind, until it has caught up.
  void OnStoreRestored();
  // Nobody was disturbed since; InfiniteDuration: somebody still is.
  absl::Duration quiet_since() const;

  // What happens.
  void OnPeerFrame(const std::string& peer, const Frame& frame);
  void OnCoordinatorFrame(const Frame& frame);
  // Of a coordinator that leads no longer, and may not know it yet: what it announces is true.
  void OnFormerLeaderFrame(const Frame& frame);
  void OnDurable(const RunUpdate& update);

  // What can be said of the present instant alone; call it often.
  void Check();

 private:
  struct Peer {
    bool alive = false;
    absl::Duration died;
    uint64_t said = 0;  // newest version that it said it holds
    bool said_any = false;
    v1::Vote vote;      // the newest
    std::string state;  // as the coordinator's store has it
  };
  using PlanKey = std::pair<uint64_t, uint32_t>;  // epoch, revision
  using Ballots = std::map<PlanKey, std::map<std::string, std::set<std::string>>>;  // by digest

  void OnHello(const std::string& name, const v1::Hello& hello);
  void OnVote(const std::string& name, const v1::Vote& vote);
  void OnMask(const std::string& name, const v1::MaskFromParty& message);
  void OnWelcome(const v1::Welcome& welcome);
  void OnPlan(const v1::Plan& plan);
  void CheckFormerExchange(const v1::Plan& next);
  bool Reducible(const v1::Plan& plan) const;
  void OnCommit(const v1::EntryHeader& header);
  void CheckLie(const v1::EntryHeader& header);
  bool Hostile(const std::string& name) const { return terms_.hostile.count(name) > 0; }
  bool HostileReduces(const v1::Plan& plan) const;
  void Say(const std::string& name, uint64_t version);
  void CheckRemoval(const MemberRecord& member);
  void CheckQuorum(const v1::EntryHeader& header);
  void CheckThin(const v1::EntryHeader& header);
  void OnRoster(const v1::Roster& roster);
  void OnRosterDelta(const v1::RosterDelta& delta);
  void CheckAddresses(const v1::Roster& roster);
  absl::Duration DisturbedUntil(const std::string& name) const;
  absl::Duration Settled() const;  // how long a disturbance is felt

  const Terms terms_;
  History history_;
  std::optional<Violation> violation_;
  std::map<std::string, absl::Duration> disturbed_;  // until
  std::map<std::string, Peer> peers_;

  // The coordinator.
  bool coordinator_alive_ = false;
  bool welcomed_ = false;       // in this life
  uint64_t highest_epoch_ = 0;  // of all lives
  uint64_t former_epoch_ = 0;   // the highest of its former lives
  uint64_t announced_ = 0;
  bool restored_ = false;  // its store is behind what it once announced
  uint64_t durable_ = 0;
  bool sealed_ = false;
  absl::Duration plan_ends_ = absl::InfiniteDuration();
  // Of that plan, at most: its audit, or the steps that take the masks off what it has come to.
  absl::Duration audit_lasts_ = absl::ZeroDuration();
  uint32_t mask_threshold_ = 0;  // of the newest attempt
  uint32_t plan_threshold_ = 0;  // of the newest plan's
  // Of which of a party's two secrets somebody has revealed a share: by attempt, by whom, whose.
  std::map<std::pair<uint64_t, std::string>, bool> revealed_;
  PlanKey plan_;
  v1::Plan newest_plan_;
  absl::Duration exchange_began_;
  uint64_t plans_told_ = 0;              // plans and their revisions, to anybody
  std::map<uint64_t, Ballots> ballots_;  // by version
  std::set<uint64_t> hostile_versions_;  // that a hostile peer had a part in averaging
  std::map<char, std::string> newest_frames_;
  std::optional<v1::Roster> roster_;  // as it told it
};

}  // namespace atolld

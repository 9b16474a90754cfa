// Invariants: what must hold after every event of a simulated run, whatever was done to it.
//
// Numbers are those of the guarantees: 1 agreement, 2 one history, 3 exactly once, 4 durability, 5
// monotone versions, 6 joins, 7 quorum and deadlines, 8 membership, 9 residuals, 10 bounds, 12
// liveness, 14 data, 15 lies, 16 masks, 19 the accounting of privacy. (11 is about strangers, 13 is
// checked by running a seed twice.) It hears what was said and what became durable, and is told
// what was done to each process, so that it can tell a false removal from a justified one. Only the
// first violation is kept; later ones are its consequences.
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
#include "tests/sim/privacy_law.h"

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
    std::set<std::string> aggregators = {};  // Their votes do not count for the quorum.
    std::set<std::string> hostile = {};      // They may say something other than what they hold.
    double audit_share = 0;
    // The most contributors that an exchange may need; 0 means the quorum.
    uint32_t most_needed = 0;
    bool masked = false;       // Updates are masked.
    uint32_t mask_roster = 0;  // The fewest parties among which they are masked.
    PrivacyLaw::Terms privacy = {};
  };

  explicit Invariants(Terms terms);

  const std::optional<Violation>& violation() const { return violation_; }
  void Violate(int invariant, const std::string& what);
  History& history() { return history_; }
  const v1::Plan& newest_plan() const { return newest_plan_; }
  uint64_t plans_told() const { return plans_told_; }
  // The number of shares of masks that parties have revealed.
  uint64_t openings() const { return openings_; }
  // The newest version that the coordinator has announced.
  uint64_t announced() const { return announced_; }
  // Return the newest version that the peer has said it holds, and true if it has said that of any
  // version.
  uint64_t said(const std::string& peer) const;
  bool said_any(const std::string& peer) const;

  // Events done to the processes. `name` is disturbed until at least that time: what others, or the
  // coordinator, say of it in that time and for a while after it proves nothing.
  void Disturb(const std::string& name, absl::Duration until);
  void Calm(const std::string& name);  // All disturbances of it are over.
  void OnStart(const std::string& name);
  // `files` shows what the crash has left on its disk.
  void OnDeath(const std::string& name, Files& files, const std::string& dir);
  void OnWiped(const std::string& peer);
  // The coordinator's store is an older copy and may be behind until it has caught up.
  void OnStoreRestored();
  // Returns since when no process is disturbed; InfiniteDuration if one still is.
  absl::Duration quiet_since() const;

  // Events in the run.
  void OnPeerFrame(const std::string& peer, const Frame& frame);
  void OnCoordinatorFrame(const Frame& frame);
  // A frame of a coordinator that no longer leads, and may not know it yet; what it announces is
  // true.
  void OnFormerLeaderFrame(const Frame& frame);
  void OnDurable(const RunUpdate& update);

  // Checks what can only be checked at the present instant; call it often.
  void Check();

 private:
  struct Peer {
    bool alive = false;
    absl::Duration died;
    uint64_t said = 0;  // The newest version that it said it holds.
    bool said_any = false;
    v1::Vote vote;      // The newest.
    std::string state;  // As in the coordinator's store.
  };
  using PlanKey = std::pair<uint64_t, uint32_t>;  // Epoch and revision.
  using Ballots = std::map<PlanKey, std::map<std::string, std::set<std::string>>>;  // By digest.

  void OnHello(const std::string& name, const v1::Hello& hello);
  void OnVote(const std::string& name, const v1::Vote& vote);
  void OnMask(const std::string& name, const v1::MaskFromParty& message);
  void OnMaskRoster(const v1::MaskRoster& roster);
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
  absl::Duration Settled() const;  // For how long a disturbance has effects.

  const Terms terms_;
  History history_;
  PrivacyLaw privacy_;
  std::optional<Violation> violation_;
  std::map<std::string, absl::Duration> disturbed_;  // The time until which it is disturbed.
  std::map<std::string, Peer> peers_;

  // The coordinator.
  bool coordinator_alive_ = false;
  bool welcomed_ = false;       // In this life.
  uint64_t highest_epoch_ = 0;  // The highest in all lives.
  uint64_t former_epoch_ = 0;   // The highest of its former lives.
  uint64_t announced_ = 0;
  bool restored_ = false;  // Its store is behind what it once announced.
  uint64_t durable_ = 0;
  bool sealed_ = false;
  absl::Duration plan_ends_ = absl::InfiniteDuration();
  // The most time that the plan's audit may take, or the steps that take the masks off its result.
  absl::Duration audit_lasts_ = absl::ZeroDuration();
  uint32_t mask_threshold_ = 0;  // That of the newest attempt.
  uint32_t plan_threshold_ = 0;  // That of the newest plan's attempt.
  // Which of a party's two secrets has had a share revealed: by attempt, revealing party and owner
  // of the secret.
  std::map<std::pair<uint64_t, std::string>, bool> revealed_;
  PlanKey plan_;
  v1::Plan newest_plan_;
  absl::Duration exchange_began_;
  uint64_t plans_told_ = 0;  // Plans and their revisions that were told to any peer.
  uint64_t openings_ = 0;
  std::map<uint64_t, Ballots> ballots_;  // By version.
  // The versions in the averaging of which a hostile peer took part.
  std::set<uint64_t> hostile_versions_;
  std::map<char, std::string> newest_frames_;
  std::optional<v1::Roster> roster_;  // As the coordinator told it.
};

}  // namespace atolld

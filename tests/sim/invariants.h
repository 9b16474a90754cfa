// Invariants: checks what must hold after every event of a simulated run, whatever was done to the
// run.
//
// Numbers are those of the guarantees: 1 agreement, 2 one history, 3 exactly once, 4 durability, 5
// monotone versions, 6 joins, 7 quorum and deadlines, 8 membership, 9 residuals, 10 bounds, 12
// liveness, 14 data, 15 lies, 16 masks, 19 the accounting of privacy, 20 the ownership of experts.
// (11 is about strangers, 13 is checked by running a seed twice.) The class is told what processes
// said, what became durable, and what was done to each process, so that it can distinguish a false
// removal from a justified one. Only the first violation is kept, because later ones may follow
// from it.
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
#include "tests/sim/expert_law.h"
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
    std::set<std::string> hostile = {};      // These may say something other than what they hold.
    double audit_share = 0;
    // The most contributors that an exchange may need; 0 means the quorum.
    uint32_t most_needed = 0;
    bool masked = false;       // Updates are masked.
    uint32_t mask_roster = 0;  // The fewest parties that may mask updates together.
    PrivacyLaw::Terms privacy = {};
  };

  explicit Invariants(Terms terms);

  const std::optional<Violation>& violation() const { return violation_; }
  void Violate(int invariant, const std::string& what);
  History& history() { return history_; }
  ExpertLaw& experts() { return experts_; }
  const v1::Plan& newest_plan() const { return newest_plan_; }
  uint64_t plans_told() const { return plans_told_; }
  // The number of shares of masks that parties have revealed.
  uint64_t openings() const { return openings_; }
  // The newest version that the coordinator has announced.
  uint64_t announced() const { return announced_; }
  // said() returns the newest version that the peer has said it holds. said_any() returns true if
  // the peer has said so of any version.
  uint64_t said(const std::string& peer) const;
  bool said_any(const std::string& peer) const;

  // Events that are done to the processes. After Disturb, `name` counts as disturbed until at least
  // that time. What other peers or the coordinator say about it during that time, and for a while
  // after it, is not judged.
  void Disturb(const std::string& name, absl::Duration until);
  void Calm(const std::string& name);  // Ends all disturbances of this process.
  void OnStart(const std::string& name);
  // `files` shows what the crash has left on its disk.
  void OnDeath(const std::string& name, Files& files, const std::string& dir);
  void OnWiped(const std::string& peer);
  // Called when the coordinator's store was replaced by an older copy , which may be behind until
  // it has caught up.
  void OnStoreRestored();
  // Returns the time since which no process has been disturbed; InfiniteDuration if one still is.
  absl::Duration quiet_since() const;

  // Events in the run.
  void OnPeerFrame(const std::string& peer, const Frame& frame);
  void OnCoordinatorFrame(const Frame& frame);
  // Called in addition with each frame that a coordinator, even a former leader, says to this peer.
  void OnTold(const std::string& peer, const Frame& frame);
  // Called with a frame of a coordinator that no longer leads and may not know it yet. What it
  // announces is still true.
  void OnFormerLeaderFrame(const Frame& frame);
  void OnDurable(const RunUpdate& update);

  // Checks what can only be checked at the present instant; call it often.
  void Check();

 private:
  struct Peer {
    bool alive = false;
    absl::Duration died;
    uint64_t said = 0;  // the newest version that the peer has said it holds
    bool said_any = false;
    v1::Vote vote;      // the newest vote
    std::string state;  // the state in the coordinator's store
  };
  using PlanKey = std::pair<uint64_t, uint32_t>;  // epoch and revision
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
  size_t LeastCounted(uint64_t version, size_t part) const;
  void OnRoster(const v1::Roster& roster);
  void OnRosterDelta(const v1::RosterDelta& delta);
  void CheckAddresses(const v1::Roster& roster);
  absl::Duration DisturbedUntil(const std::string& name) const;
  absl::Duration Settled() const;  // How long a disturbance has effects after its end.

  const Terms terms_;
  History history_;
  PrivacyLaw privacy_;
  ExpertLaw experts_;
  std::optional<Violation> violation_;
  std::map<std::string, absl::Duration> disturbed_;  // The time until which each process is
                                                     // disturbed.
  std::map<std::string, Peer> peers_;

  // The coordinator.
  bool coordinator_alive_ = false;
  bool welcomed_ = false;       // True once it has sent a Welcome in its present life.
  uint64_t highest_epoch_ = 0;  // The highest epoch in all its lives.
  uint64_t former_epoch_ = 0;   // The highest epoch in its former lives.
  uint64_t announced_ = 0;
  bool restored_ = false;  // True while its store is behind what it once announced.
  uint64_t durable_ = 0;
  bool sealed_ = false;
  absl::Duration plan_ends_ = absl::InfiniteDuration();
  // The most time that the plan's audit may take, or that the steps that remove the masks from its
  // result may take.
  absl::Duration audit_lasts_ = absl::ZeroDuration();
  uint32_t mask_threshold_ = 0;  // The threshold of the newest attempt.
  uint32_t plan_threshold_ = 0;  // The threshold of the newest plan's attempt.
  // Which of a party's two secrets had a share revealed. The key is the attempt, the revealing
  // party and the owner of the secret.
  std::map<std::pair<uint64_t, std::string>, bool> revealed_;
  PlanKey plan_;
  v1::Plan newest_plan_;
  absl::Duration exchange_began_;
  uint64_t plans_told_ = 0;  // The number of plans, counting revisions, that were told to any peer.
  uint64_t openings_ = 0;
  std::map<uint64_t, Ballots> ballots_;  // By version.
  // Contributors, by version, of which somebody has refused a chunk.
  std::set<std::pair<uint64_t, std::string>> refused_;
  // The versions that a hostile peer took part in averaging.
  std::set<uint64_t> hostile_versions_;
  std::map<char, std::string> newest_frames_;
  std::optional<v1::Roster> roster_;  // The roster that the coordinator has told.
};

}  // namespace atolld

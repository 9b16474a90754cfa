// SwarmCluster: the processes of one seed - coordinator and peers of production, stub trainers -
// with the invariants listening.
//
// A process that dies comes back after a while, as under a supervisor, unless it has finished or is
// held down; a peer whose disk has become useless is given an empty one, if others hold what it
// held.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/config/config.h"
#include "daemon/coordinator/coordinator.h"
#include "daemon/peer/peer.h"
#include "tests/sim/invariants.h"
#include "tests/sim/sim_store.h"
#include "tests/sim/sim_worker.h"
#include "tests/sim/sim_world.h"
#include "tests/sim/swarm_etcd.h"
#include "tests/sim/swarm_plan.h"

namespace atolld {

inline constexpr char kCoordinatorName[] = "coordinator";

class SwarmCluster {
 public:
  // `verbose`: every line of every process's log is kept.
  SwarmCluster(const SwarmPlan& plan, bool verbose);
  ~SwarmCluster();

  const SwarmPlan& plan() const { return plan_; }
  SimWorld& world() { return world_; }
  Invariants& invariants() { return invariants_; }

  // What the coordinator has made durable.
  const StoredRun& stored() const { return etcd_ ? etcd_->stored() : store_->state->run; }
  uint64_t version() const { return stored().headers.size(); }
  bool sealed() const { return stored().seal.has_value(); }

  // Null: there is one coordinator, with a store of its own.
  SwarmEtcd* etcd() { return etcd_.get(); }
  const std::vector<std::string>& coordinators() const { return coordinators_; }
  // The one that leads, or did last.
  const std::string& leader() const { return etcd_ ? etcd_->leader() : coordinators_.front(); }
  // What is done to a coordinator is felt by all who wait for it, until another one leads.
  void Disturb(const std::string& name, absl::Duration until);

  bool Exists(const std::string& name) const { return added_.count(name) > 0; }
  bool Alive(const std::string& name) const;
  bool Finished(const std::string& peer) const { return finished_.count(peer) > 0; }
  // It came back to a sealed run that nobody could bring it to the end of.
  bool Stranded(const std::string& peer) const { return stranded_.count(peer) > 0; }
  bool AllEnded() const;
  // It lives, and holds what was announced.
  bool CaughtUp(const std::string& peer) const;
  Peer* peer(const std::string& name);          // nullptr: not alive
  SimWorker* trainer(const std::string& name);  // nullptr: not alive, or an aggregator
  std::string DirectoryOf(const std::string& name) const { return "/" + name; }

  // Begins or begins again; nothing if it is alive, finished or held down.
  void Start(const std::string& name);
  // It comes back after `away`.
  void Kill(const std::string& name, absl::Duration away);
  // Whatever kills it next: it then comes back after `away`.
  void ComeBackAfter(const std::string& name, absl::Duration away) { away_[name] = away; }
  void HoldDown(const std::string& name, bool down);
  // An empty disk, while it is dead; false if it has finished, or if nobody else alive holds all
  // that was announced.
  bool Wipe(const std::string& peer);
  // The coordinator's store becomes what it was `versions` versions ago, while the coordinator is
  // dead; false if it was not that far yet.
  bool RestoreStore(uint64_t versions);
  // Of those that lie: what they have done to means, votes and audits, in all their lives; from
  // now on they are as honest as the others.
  uint64_t hostile_acts() const;
  void Reform(const std::string& peer);
  bool MayLie(const std::string& peer) const { return hostility_.count(peer) > 0; }
  // The coordinator refuses it, or did a while ago: it may end with that.
  void MarkEvicted(const std::string& peer) { evicted_.insert(peer); }
  const std::set<std::string>& evicted() const { return evicted_; }
  // Its disk has lied or failed: it may end with an error.
  void MarkUnsound(const std::string& name) { unsound_.insert(name); }
  bool Unsound(const std::string& name) const { return unsound_.count(name) > 0; }

  double LineOf(const std::string& peer) const;  // bytes a second, while nothing ails it
  void SetStep(const std::string& peer, absl::Duration step);
  // While held, no training is finished, also by processes to come: the run waits.
  void HoldTraining(bool held);
  bool training_held() const { return training_held_; }
  absl::Duration longest_training() const { return longest_step_ * plan_.inner_steps; }

  SimLinkSettings LinkSettings() const;  // of every link, where no fault says otherwise

  // For the story of a seed.
  void Note(const std::string& line);
  bool HasNewLines() const;
  std::string NewLines();  // since the last call

 private:
  struct Node;

  Config ConfigOf(const std::string& name) const;
  bool Coordinates(const std::string& name) const;
  std::shared_ptr<void> StartCoordinator(Env env);
  std::shared_ptr<void> StartPeer(Env env, const std::string& name);
  void OnDeath(const std::string& name);
  bool AllHoldHeaders(uint64_t newest);  // the logs of those alive, of so many versions
  void OnFinished(const std::string& peer, const absl::Status& status);
  void OnStranded(const std::string& peer);
  const SwarmPlan::Machine& MachineOf(const std::string& peer) const;

  const SwarmPlan plan_;
  const std::vector<std::string> coordinators_;
  const bool verbose_;
  Invariants invariants_;
  const std::shared_ptr<SimStore::Disk> store_ = std::make_shared<SimStore::Disk>();
  std::set<std::string> added_;
  std::set<std::string> finished_;
  std::set<std::string> stranded_;
  std::set<std::string> held_down_;
  std::set<std::string> unsound_;
  std::set<std::string> evicted_;
  std::map<std::string, absl::Duration> began_;  // its newest process
  std::map<std::string, absl::Duration> away_;
  std::map<std::string, int> failures_;  // starts that ended with an error, in a row
  std::map<std::string, absl::Duration> steps_;
  absl::Duration longest_step_;
  bool training_held_ = false;
  std::map<std::string, Node*> nodes_;  // of living peers
  std::map<std::string, Hostility> hostility_;
  uint64_t hostile_acts_ = 0;  // of lives that are over
  std::vector<std::pair<absl::Duration, std::string>> notes_;
  size_t notes_told_ = 0;
  size_t lines_told_ = 0;
  std::unique_ptr<SwarmEtcd> etcd_;  // of several coordinators
  SimWorld world_;                   // destroyed first: its processes use the above
};

}  // namespace atolld

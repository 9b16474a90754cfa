// SwarmCluster: the processes of one seed, the production coordinator and peers on stub trainers,
// observed by the invariants.
//
// A process that dies comes back after a while, as under a supervisor, unless it has finished or is
// held down. If a peer's disk has become useless and other peers hold what it held, the peer gets
// an empty disk.
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
#include "atoll/v1/admin.pb.h"
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
  // With `verbose` every line of every process's log is kept.
  SwarmCluster(const SwarmPlan& plan, bool verbose);
  ~SwarmCluster();

  const SwarmPlan& plan() const { return plan_; }
  SimWorld& world() { return world_; }
  Invariants& invariants() { return invariants_; }

  // The data that the coordinator has made durable.
  const StoredRun& stored() const { return etcd_ ? etcd_->stored() : store_->state->run; }
  uint64_t version() const { return stored().headers.size(); }
  bool sealed() const { return stored().seal.has_value(); }

  // The status that the coordinator shows, at most a few 100 ms old. It is kept only for runs with
  // one coordinator and lines that fail in part, and is empty before the coordinator's first
  // report.
  const v1::RunStatus& shown() const { return shown_; }

  // Null if there is one coordinator, which has its own store.
  SwarmEtcd* etcd() { return etcd_.get(); }
  const std::vector<std::string>& coordinators() const { return coordinators_; }
  // The coordinator that leads or, if none does, the last one that led.
  const std::string& leader() const { return etcd_ ? etcd_->leader() : coordinators_.front(); }
  // Marks the process as disturbed. A disturbed coordinator affects all that wait for it, until
  // another one leads.
  void Disturb(const std::string& name, absl::Duration until);

  bool Exists(const std::string& name) const { return added_.count(name) > 0; }
  bool Alive(const std::string& name) const;
  bool Finished(const std::string& peer) const { return finished_.count(peer) > 0; }
  // Returns true if the peer came back to a sealed run that no other peer could help it to end.
  bool Stranded(const std::string& peer) const { return stranded_.count(peer) > 0; }
  bool AllEnded() const;
  // Returns true if the peer is alive and holds the newest version that was announced.
  bool CaughtUp(const std::string& peer) const;
  Peer* peer(const std::string& name);          // Null if the peer is not alive.
  SimWorker* trainer(const std::string& name);  // Null if the peer is not alive or is an
                                                // aggregator.
  std::string DirectoryOf(const std::string& name) const { return "/" + name; }

  // Starts or restarts the process. Does nothing if it is alive, finished or held down.
  void Start(const std::string& name);
  // Kills the process, which comes back after `away`.
  void Kill(const std::string& name, absl::Duration away);
  // Whatever kills the process next, it comes back after `away`.
  void ComeBackAfter(const std::string& name, absl::Duration away) { away_[name] = away; }
  void HoldDown(const std::string& name, bool down);
  // Empties the disk of a dead peer. Returns false if the peer has finished or if no other living
  // peer holds everything that was announced.
  bool Wipe(const std::string& peer);
  // Sets the store of the dead coordinator back to its content of `versions` versions ago. Returns
  // false if it has fewer versions.
  bool RestoreStore(uint64_t versions);
  // hostile_acts returns the number of false means, votes and audits of all lying peers in all
  // their lives. Reform makes a peer honest from then on.
  uint64_t hostile_acts() const;
  void Reform(const std::string& peer);
  bool MayLie(const std::string& peer) const { return hostility_.count(peer) > 0; }
  // Called when the coordinator refuses the peer or did so a while ago. The peer may then end with
  // that error.
  void MarkEvicted(const std::string& peer) { evicted_.insert(peer); }
  const std::set<std::string>& evicted() const { return evicted_; }
  // Called when the disk has returned wrong data or failed. The process may then end with an error.
  void MarkUnsound(const std::string& name) { unsound_.insert(name); }
  bool Unsound(const std::string& name) const { return unsound_.count(name) > 0; }

  double LineOf(const std::string& peer) const;  // in bytes per second, while nothing disturbs it
  void SetStep(const std::string& peer, absl::Duration step);
  // While training is held, no training finishes, not even in processes that start later, so the
  // run waits.
  void HoldTraining(bool held);
  bool training_held() const { return training_held_; }
  absl::Duration longest_training() const { return longest_step_ * plan_.inner_steps; }

  // How often the peers made each state transition, by the transition's line in the log.
  const std::map<std::string, uint64_t>& transitions() const { return transitions_; }

  SimLinkSettings LinkSettings() const;  // the settings of every link that has no fault

  // Adds a line to the story of the seed.
  void Note(const std::string& line);
  bool HasNewLines() const;
  std::string NewLines();  // the lines since the last call

 private:
  struct Node;

  SimSettings Settings();
  Config ConfigOf(const std::string& name) const;
  bool Coordinates(const std::string& name) const;
  std::shared_ptr<void> StartCoordinator(Env env);
  std::shared_ptr<void> StartPeer(Env env, const std::string& name);
  void OnDeath(const std::string& name);
  // Called with each frame that the peer sends on its Sessions. After the first Hello of a new
  // process, the network may deliver the last Hello of the previous one.
  void BringLateHello(const std::string& peer, const Frame& frame);
  bool AllHoldHeaders(uint64_t newest);  // true if the logs of all living peers have this many
                                         // versions
  void OnFinished(const std::string& peer, const absl::Status& status);
  void OnStranded(const std::string& peer);
  const SwarmPlan::Machine& MachineOf(const std::string& peer) const;

  const SwarmPlan plan_;
  const std::vector<std::string> coordinators_;
  const bool verbose_;
  Invariants invariants_;
  const std::shared_ptr<SimStore::Disk> store_ = std::make_shared<SimStore::Disk>();
  v1::RunStatus shown_;
  std::set<std::string> added_;
  std::set<std::string> finished_;
  std::set<std::string> stranded_;
  std::set<std::string> held_down_;
  std::set<std::string> unsound_;
  std::set<std::string> evicted_;
  std::map<std::string, absl::Duration> began_;  // the time at which its newest process began
  std::map<std::string, absl::Duration> away_;
  std::map<std::string, int> failures_;  // Consecutive starts that ended with an error.
  std::map<std::string, absl::Duration> steps_;
  absl::Duration longest_step_;
  bool training_held_ = false;
  std::map<std::string, Node*> nodes_;  // The living peers.
  // The newest Hello of each peer, and the number of the process that sent it.
  std::map<std::string, std::pair<uint64_t, Frame>> hellos_;
  std::map<std::string, Hostility> hostility_;
  uint64_t hostile_acts_ = 0;  // the acts in lives that are over
  std::vector<std::pair<absl::Duration, std::string>> notes_;
  size_t notes_told_ = 0;
  size_t lines_told_ = 0;
  std::map<std::string, uint64_t> transitions_;
  std::unique_ptr<SwarmEtcd> etcd_;  // null unless there are several coordinators
  SimWorld world_;  // Destroyed first, because its processes use the members above.
};

}  // namespace atolld

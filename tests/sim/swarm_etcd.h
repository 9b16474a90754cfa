// SwarmEtcd: the coordinators of a swarm that has several, and the etcd that they share.
//
// Each coordinator is a separate process. One of them leads. All use the production code for
// leadership, store and standby's door. The invariants see them together as "the coordinator",
// which begins when one of them begins to lead and is dead when that process dies or no longer
// leads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/config/config.h"
#include "daemon/coordinator/coordinator.h"
#include "daemon/env/env.h"
#include "tests/sim/etcd_law.h"
#include "tests/sim/etcd_turns.h"
#include "tests/sim/invariants.h"
#include "tests/sim/sim_etcd.h"
#include "tests/sim/sim_world.h"
#include "tests/sim/swarm_plan.h"

namespace atolld {

class SwarmEtcd {
 public:
  // The time to live of a lease. It equals the config's default.
  static constexpr absl::Duration kTtl = absl::Seconds(2);

  // `note` adds a line to the story. All arguments must outlive this object, but the processes need
  // not.
  SwarmEtcd(SimWorld& world, const SwarmPlan& plan, Invariants& invariants,
            std::function<void(const std::string&)> note);

  // Begins a process's new life.
  std::shared_ptr<void> Begin(Env env, const std::string& name, const Config& config);
  // Called when the process has died.
  void OnDeath(const std::string& name);

  SimEtcd& etcd() { return etcd_; }
  const StoredRun& stored() const { return law_.stored(); }
  uint64_t terms() const { return law_.terms(); }
  // The coordinator that leads, or was the last to lead.
  const std::string& leader() const { return leader_; }
  // Stops the process as SIGTERM does. Does nothing if it is dead.
  void Stop(const std::string& name);

 private:
  struct Root;

  absl::Status Lead(Root& root, const Config& config, std::unique_ptr<Store> store);
  void EndLeading(const std::string& who);

  SimWorld& world_;
  const uint64_t seed_;
  Invariants& invariants_;
  const std::function<void(const std::string&)> note_;
  SimEtcd etcd_;
  EtcdLaw law_;
  std::string leader_;
  std::string leading_;  // The life of the process that leads; empty if no process leads.
  std::map<std::string, Root*> roots_;
};

// Returns "coordinator", "coordinator2", ...
std::vector<std::string> CoordinatorNames(const SwarmPlan& plan);

}  // namespace atolld

// SwarmEtcd: the coordinators of a swarm that has several, and the etcd that they share.
//
// Each is a process of its own. One leads, with the production leadership, store and standby's
// door. To the invariants they are together "the coordinator": it begins when one of them begins to
// lead, and is dead when that one dies or no longer leads.
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
  // The time to live of a lease, as in the config's default.
  static constexpr absl::Duration kTtl = absl::Seconds(2);

  // `note` writes to the story. All arguments must outlive this object; the processes need not.
  SwarmEtcd(SimWorld& world, const SwarmPlan& plan, Invariants& invariants,
            std::function<void(const std::string&)> note);

  // Begins a process's new life.
  std::shared_ptr<void> Begin(Env env, const std::string& name, const Config& config);
  // The process has died.
  void OnDeath(const std::string& name);

  SimEtcd& etcd() { return etcd_; }
  const StoredRun& stored() const { return law_.stored(); }
  uint64_t terms() const { return law_.terms(); }
  // The coordinator that leads, or was the last to lead.
  const std::string& leader() const { return leader_; }
  // Stops the process as SIGTERM does; does nothing if it is dead.
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
  std::string leading_;  // The life of the process that leads; empty if there is none.
  std::map<std::string, Root*> roots_;
};

// Returns "coordinator", "coordinator2", ...
std::vector<std::string> CoordinatorNames(const SwarmPlan& plan);

}  // namespace atolld

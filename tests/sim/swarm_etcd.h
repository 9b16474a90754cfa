// SwarmEtcd: the coordinators of a swarm that has several, and the etcd that they share.
//
// Each is a process of its own; one leads, by the leadership, the store and the standby's door of
// production. To the invariants all of them are "the coordinator": it begins when one has begun to
// lead, and it is dead when that one is, or leads no longer.
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
  // Of a lease, as the config has it unless it is told otherwise.
  static constexpr absl::Duration kTtl = absl::Seconds(2);

  // `note` is for the story. All outlive this, but for the processes.
  SwarmEtcd(SimWorld& world, const SwarmPlan& plan, Invariants& invariants,
            std::function<void(const std::string&)> note);

  // For a process's new life.
  std::shared_ptr<void> Begin(Env env, const std::string& name, const Config& config);
  // It has died.
  void OnDeath(const std::string& name);

  SimEtcd& etcd() { return etcd_; }
  const StoredRun& stored() const { return law_.stored(); }
  uint64_t terms() const { return law_.terms(); }
  // Who leads, or was the last to lead.
  const std::string& leader() const { return leader_; }
  // As by SIGTERM; nothing if it is dead.
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
  std::string leading_;  // its life; empty: nobody
  std::map<std::string, Root*> roots_;
};

// "coordinator", "coordinator2", ...
std::vector<std::string> CoordinatorNames(const SwarmPlan& plan);

}  // namespace atolld

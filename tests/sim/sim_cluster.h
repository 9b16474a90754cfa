// SimCluster: a whole run in a simulated world - the coordinator and the peers of production, on
// stub trainers.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/config.h"
#include "daemon/coordinator/coordinator.h"
#include "daemon/coordinator/memory_store.h"
#include "daemon/peer/peer.h"
#include "daemon/replica/verify.h"
#include "tests/sim/sim_world.h"
#include "tests/sim/stub_trainer.h"

namespace atolld {

struct SimClusterSettings {
  int peers = 3;
  uint64_t rounds = 10;
  uint32_t quorum = 2;
  bool error_feedback = false;
  absl::Duration failure_timeout = absl::Seconds(2);
  std::map<std::string, absl::Duration> steps;  // of single peers, where not 50 ms
};

class SimCluster {
 public:
  SimCluster(uint64_t seed, SimClusterSettings settings);

  SimWorld& world() { return world_; }

  // What the coordinator has made durable.
  const StoredRun& stored() const { return store_->run; }
  uint64_t version() const { return stored().headers.size(); }
  // As if the coordinator's folder came back from a backup, while it is down.
  void RestoreStore(const StoredRun& older) { store_->run = older; }
  bool RunToVersion(uint64_t wanted, absl::Duration limit = absl::Minutes(10));

  // All peers have ended well: the run is sealed.
  bool RunToSeal(absl::Duration limit = absl::Minutes(30));
  const std::map<std::string, absl::Status>& finished() const { return finished_; }

  void FlipThetaBit(const std::string& peer) { trainers_[peer]->FlipThetaBit(7, 3); }
  void KillWorker(const std::string& peer, absl::Duration pause) { trainers_[peer]->Kill(pause); }

  // The replayed log on a peer's disk.
  absl::StatusOr<VerifyReport> Verify(const std::string& peer);

 private:
  Config ConfigOf(const std::string& name) const;
  std::shared_ptr<void> StartCoordinator(Env env);
  std::shared_ptr<void> StartPeer(Env env, const std::string& name);

  const SimClusterSettings settings_;
  std::map<std::string, absl::Status> finished_;
  std::map<std::string, StubTrainer*> trainers_;  // of living peers
  const std::shared_ptr<MemoryStore::Disk> store_ = std::make_shared<MemoryStore::Disk>();
  SimWorld world_;  // destroyed first: its processes use the above
};

}  // namespace atolld

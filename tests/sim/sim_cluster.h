// SimCluster: a whole run in a simulated world - the coordinator and the peers of production, on
// stub trainers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/config.h"
#include "daemon/coordinator/coordinator.h"
#include "daemon/coordinator/memory_store.h"
#include "daemon/peer/peer.h"
#include "daemon/replica/verify.h"
#include "tests/sim/frame_probe.h"
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
  int founders = 0;  // trainers that the first round waits for; 0: `peers`
  uint64_t elements = 10000;
  std::string codec = "int8";
  uint32_t snapshot_every = 4;
  uint32_t keep_snapshots = 2;
  uint64_t keep_bytes = 0;
  bool start = true;  // false: the test starts each process
};

// What a test adds to a cluster or sees of it. All may be empty.
struct SimClusterHooks {
  // Gives the coordinator another store, made of its own.
  std::function<std::unique_ptr<Store>(std::unique_ptr<Store> store)> wrap_store;
  // A peer writes a frame on a call that it has dialled.
  std::function<void(const std::string& peer, const std::string& method, const Frame& frame)>
      on_written;
};

class SimCluster {
 public:
  SimCluster(uint64_t seed, SimClusterSettings settings, SimClusterHooks hooks = SimClusterHooks());

  SimWorld& world() { return world_; }

  // Starts "coordinator" or a peer for the first time.
  void Start(const std::string& name);
  bool started(const std::string& name) const { return started_.count(name) != 0; }
  std::vector<std::string> PeersStarted() const;

  // What the coordinator has made durable.
  const StoredRun& stored() const { return store_->run; }
  uint64_t version() const { return stored().headers.size(); }
  bool RunToVersion(uint64_t wanted, absl::Duration limit = absl::Minutes(10));

  // All peers have ended well: the run is sealed.
  bool RunToSeal(absl::Duration limit = absl::Minutes(30));
  const std::map<std::string, absl::Status>& finished() const { return finished_; }

  void KillWorker(const std::string& peer, absl::Duration pause) { trainers_[peer]->Kill(pause); }

  // A living peer leaves after the round under way.
  void Drain(const std::string& peer) { peers_[peer]->Drain(); }

  // The replayed log on a peer's disk.
  absl::StatusOr<VerifyReport> Verify(const std::string& peer);

 private:
  Config ConfigOf(const std::string& name) const;
  std::shared_ptr<void> StartCoordinator(Env env);
  std::shared_ptr<void> StartPeer(Env env, const std::string& name);

  const SimClusterSettings settings_;
  const SimClusterHooks hooks_;
  std::set<std::string> started_;
  std::map<std::string, absl::Status> finished_;
  std::map<std::string, StubTrainer*> trainers_;  // of living peers
  std::map<std::string, Peer*> peers_;            // the living ones
  const std::shared_ptr<MemoryStore::Disk> store_ = std::make_shared<MemoryStore::Disk>();
  SimWorld world_;  // destroyed first: its processes use the above
};

}  // namespace atolld

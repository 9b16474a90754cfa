// SimCluster: a whole run in a simulated world, with the production coordinator and peers on stub
// trainers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "atoll/v1/admin.pb.h"
#include "daemon/config/config.h"
#include "daemon/coordinator/coordinator.h"
#include "daemon/peer/peer.h"
#include "daemon/replica/state/verify.h"
#include "tests/sim/hostile_transport.h"
#include "tests/sim/session_tap.h"
#include "tests/sim/sim_store.h"
#include "tests/sim/sim_worker.h"
#include "tests/sim/sim_world.h"

namespace atolld {

// The name of the coordinator's machine; peers are "peer-1", "peer-2", ...
inline constexpr char kCoordinator[] = "coordinator";

struct SimClusterSettings {
  int peers = 3;
  uint64_t rounds = 10;
  uint32_t quorum = 2;
  bool error_feedback = false;
  absl::Duration failure_timeout = absl::Seconds(2);
  std::map<std::string, absl::Duration> steps;  // the step time of single peers, if it is not 50 ms
  std::set<std::string> dial_out;               // Peers that cannot be dialled.
  std::set<std::string> aggregators;            // started with the `peers` and in addition to them
  int founders = 0;  // The trainers that the first round waits for; 0 means `peers`.
  uint64_t elements = 10000;
  uint32_t fragments = 0;  // for mode "streaming", merged at the boundary; 0 means mode "sync"
  uint32_t experts = 0;    // the model's experts; 0 means a model without any
  uint32_t owners = 0;     // how many peers own an expert
  std::string codec = "int8";
  std::string upper_codec;
  uint32_t chunk_elements = 4096;
  uint32_t snapshot_every = 4;
  uint32_t keep_snapshots = 2;
  uint64_t keep_bytes = 0;
  double audit_share = 0.0625;
  bool masked = false;          // private data and masked updates, without audits
  uint32_t mask_threshold = 0;  // 0 means the one that suits the number of parties
  std::string mode = "sync";    // becomes "streaming" if there are fragments
  uint32_t overlap = 1;         // for mode "streaming" without fragments
  std::string outer = "nesterov";
  double outer_rate = 0.7;
  uint32_t age_cutoff = 0;
  bool auto_pace = false;                    // the number of steps follows each peer's speed
  bool own_initial = false;                  // each peer's worker makes a different version 0
  std::map<std::string, Hostility> hostile;  // peers that lie
  std::set<std::string> hung_makers;         // peers with workers that hang when they make version
                                             // 0
  bool start = true;                         // if false, the test starts each process
  bool watched = false;                      // if true, status() is kept up to date
};

// Called with what the coordinator says on its Sessions.
using SimClusterEar = std::function<void(const Frame& frame)>;

// Called with what peers say on their Sessions.
using SimClusterTap = std::function<void(const std::string& peer, const Frame& frame)>;

class SimCluster {
 public:
  SimCluster(uint64_t seed, SimClusterSettings settings, SimClusterTap tap = nullptr,
             SimClusterEar ear = nullptr);

  SimWorld& world() { return world_; }

  // Starts "coordinator" or a peer for the first time.
  void Start(const std::string& name);
  bool started(const std::string& name) const { return started_.count(name) != 0; }
  std::vector<std::string> PeersStarted() const;

  // The data that the coordinator has made durable.
  const StoredRun& stored() const { return store_->state->run; }
  uint64_t version() const { return stored().version(); }
  // The status that the coordinator shows, at most 100 ms old. Kept only if settings.watched.
  const v1::RunStatus& status() const { return status_; }
  const std::vector<RunUpdate>& transactions() const { return store_->journal; }
  // Restores the coordinator's folder as from a backup that has only the first `transactions`. The
  // coordinator must be down.
  void RestoreStore(size_t transactions);
  bool RunToVersion(uint64_t wanted, absl::Duration limit = absl::Minutes(10));

  // Returns true if all peers have ended without error, which means that the run is sealed.
  bool RunToSeal(absl::Duration limit = absl::Minutes(30));
  const std::map<std::string, absl::Status>& finished() const { return finished_; }

  void FlipThetaBit(const std::string& peer) { trainers_[peer]->FlipThetaBit(7, 3); }
  void SpoilUpdate(const std::string& peer, SimWorker::Spoil how) {
    trainers_[peer]->SpoilNext(how);
  }
  void KillWorker(const std::string& peer, absl::Duration pause) { trainers_[peer]->Kill(pause); }
  // If the stage is an evaluation, the worker hangs in that of the last version only.
  void HangWorker(const std::string& peer, SimWorker::Stage stage, bool always) {
    trainers_[peer]->HangAt(stage, always, settings_.rounds);
  }
  bool WorkerHangs(const std::string& peer) { return trainers_[peer]->hangs(); }

  // Returns the transport of a lying peer in its newest life.
  const HostileTransport& hostile(const std::string& peer) { return *hostile_.at(peer); }
  bool Evicted(const std::string& peer) const;

  // Sets what the owner of a living peer's machine allows it to do.
  void Allow(const std::string& peer, bool train, bool exchange, const std::string& why) {
    peers_[peer]->Allow(train, exchange, why);
  }
  void FinishRound(const std::string& peer, Task done) { peers_[peer]->FinishRound(done); }

  // Makes a living peer leave after the round under way.
  void Drain(const std::string& peer) { peers_[peer]->Drain(); }

  // Replays the log on a peer's disk.
  absl::StatusOr<VerifyReport> Verify(const std::string& peer);

 private:
  Config ConfigOf(const std::string& name) const;
  std::shared_ptr<void> StartCoordinator(Env env);
  std::shared_ptr<void> StartPeer(Env env, const std::string& name);

  const SimClusterSettings settings_;
  const SimClusterTap tap_;
  const SimClusterEar ear_;
  std::set<std::string> started_;
  std::map<std::string, absl::Status> finished_;
  std::map<std::string, SimWorker*> trainers_;  // those of living peers that train
  std::map<std::string, Peer*> peers_;          // The living peers.
  std::map<std::string, std::shared_ptr<HostileTransport>> hostile_;
  const std::shared_ptr<SimStore::Disk> store_ = std::make_shared<SimStore::Disk>();
  v1::RunStatus status_;
  SimWorld world_;  // Destroyed first, because its processes use the members above.
};

}  // namespace atolld

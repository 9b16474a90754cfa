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
  std::map<std::string, absl::Duration> steps;  // of single peers, where not 50 ms
  std::set<std::string> dial_out;               // peers that nobody can dial
  std::set<std::string> aggregators;            // beside `peers`, started with them
  int founders = 0;  // trainers that the first round waits for; 0: `peers`
  uint64_t elements = 10000;
  uint32_t fragments = 0;  // of mode "streaming", merged at the boundary; 0: mode "sync"
  std::string codec = "int8";
  std::string upper_codec;
  uint32_t chunk_elements = 4096;
  uint32_t snapshot_every = 4;
  uint32_t keep_snapshots = 2;
  uint64_t keep_bytes = 0;
  double audit_share = 0.0625;
  bool masked = false;          // private data, and updates that nobody sees: no audits then
  uint32_t mask_threshold = 0;  // 0: what the number of parties asks for
  std::string mode = "sync";    // "streaming" where there are fragments
  uint32_t overlap = 1;         // of mode "streaming" without fragments
  std::string outer = "nesterov";
  double outer_rate = 0.7;
  uint32_t age_cutoff = 0;
  bool auto_pace = false;                    // steps by speed
  bool own_initial = false;                  // each peer's worker makes another version 0
  std::map<std::string, Hostility> hostile;  // peers that lie
  std::set<std::string> hung_makers;         // whose workers hang when they make version 0
  bool start = true;                         // false: the test starts each process
};

// Sees what the coordinator says on its Sessions.
using SimClusterEar = std::function<void(const Frame& frame)>;

// Sees what peers say on their Sessions.
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

  // What the coordinator has made durable.
  const StoredRun& stored() const { return store_->state->run; }
  uint64_t version() const { return stored().version(); }
  const std::vector<RunUpdate>& transactions() const { return store_->journal; }
  // As if the coordinator's folder came back from a backup of the first of them, while it is down.
  void RestoreStore(size_t transactions);
  bool RunToVersion(uint64_t wanted, absl::Duration limit = absl::Minutes(10));

  // All peers have ended well: the run is sealed.
  bool RunToSeal(absl::Duration limit = absl::Minutes(30));
  const std::map<std::string, absl::Status>& finished() const { return finished_; }

  void FlipThetaBit(const std::string& peer) { trainers_[peer]->FlipThetaBit(7, 3); }
  void SpoilUpdate(const std::string& peer, SimWorker::Spoil how) {
    trainers_[peer]->SpoilNext(how);
  }
  void KillWorker(const std::string& peer, absl::Duration pause) { trainers_[peer]->Kill(pause); }
  // In an evaluation: in the last one.
  void HangWorker(const std::string& peer, SimWorker::Stage stage, bool always) {
    trainers_[peer]->HangAt(stage, always, settings_.rounds);
  }
  bool WorkerHangs(const std::string& peer) { return trainers_[peer]->hangs(); }

  // Of a peer that lies, in its newest life.
  const HostileTransport& hostile(const std::string& peer) { return *hostile_.at(peer); }
  bool Evicted(const std::string& peer) const;

  // The owner of a living peer's machine says what it may do.
  void Allow(const std::string& peer, bool train, bool exchange, const std::string& why) {
    peers_[peer]->Allow(train, exchange, why);
  }
  void FinishRound(const std::string& peer, Task done) { peers_[peer]->FinishRound(done); }

  // A living peer leaves after the round under way.
  void Drain(const std::string& peer) { peers_[peer]->Drain(); }

  // The replayed log on a peer's disk.
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
  std::map<std::string, SimWorker*> trainers_;  // of living peers that train
  std::map<std::string, Peer*> peers_;          // the living ones
  std::map<std::string, std::shared_ptr<HostileTransport>> hostile_;
  const std::shared_ptr<SimStore::Disk> store_ = std::make_shared<SimStore::Disk>();
  SimWorld world_;  // destroyed first: its processes use the above
};

}  // namespace atolld

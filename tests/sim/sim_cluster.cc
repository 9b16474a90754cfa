#include "tests/sim/sim_cluster.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace atolld {

SimCluster::SimCluster(uint64_t seed, SimClusterSettings settings)
    : settings_(std::move(settings)), world_(seed) {
  world_.AddProcess("coordinator", [this](Env env) { return StartCoordinator(env); });
  for (int i = 1; i <= settings_.peers; ++i) {
    const std::string name = absl::StrCat("p", i);
    world_.AddProcess(name, [this, name](Env env) { return StartPeer(env, name); });
  }
}

Config SimCluster::ConfigOf(const std::string& name) const {
  Config config;
  config.run.id = "sim";
  config.run.rounds = settings_.rounds;
  config.run.peers = static_cast<uint32_t>(settings_.peers);
  config.run.quorum = settings_.quorum;
  config.inner.steps = 10;
  config.inner.batch = 2;
  config.exchange.chunk_elements = 4096;
  config.exchange.error_feedback = settings_.error_feedback;
  config.evaluation.every_rounds = 3;
  config.membership.failure_timeout = settings_.failure_timeout;
  config.coordinator.address = "coordinator:1";
  config.coordinator.dir = "/coordinator";
  config.network.plaintext_beyond_loopback = true;
  config.peer.id = name;
  config.peer.listen = name + ":1";
  config.peer.dir = "/" + name;
  config.peer.snapshot_every = 4;
  return config;
}

std::shared_ptr<void> SimCluster::StartCoordinator(Env env) {
  auto coordinator = std::make_shared<Coordinator>(env, ConfigOf("coordinator"),
                                                   std::make_unique<MemoryStore>(store_));
  const absl::Status started = coordinator->Start();
  if (!started.ok()) env.log.Error(started.message());
  return coordinator;
}

std::shared_ptr<void> SimCluster::StartPeer(Env env, const std::string& name) {
  struct Node {
    Node(SimCluster& owner, std::string peer_name) : cluster(owner), name(std::move(peer_name)) {}
    ~Node() { cluster.trainers_.erase(name); }
    SimCluster& cluster;
    const std::string name;
    std::unique_ptr<StubTrainer> trainer;
    std::unique_ptr<Peer> peer;
  };
  auto node = std::make_shared<Node>(*this, name);
  StubTrainerSettings trainer;
  trainer.seed = std::hash<std::string>()(name);
  const auto step = settings_.steps.find(name);
  if (step != settings_.steps.end()) trainer.step = step->second;
  node->trainer = std::make_unique<StubTrainer>(env, trainer);
  trainers_[name] = node->trainer.get();
  node->peer = std::make_unique<Peer>(env, ConfigOf(name), *node->trainer, 1,
                                      [this, name](absl::Status status) {
                                        finished_[name] = status;
                                        world_.Kill(name);
                                      });
  const absl::Status started = node->peer->Start();
  if (!started.ok()) env.log.Error(started.message());
  return node;
}

bool SimCluster::RunToVersion(uint64_t wanted, absl::Duration limit) {
  return world_.RunUntil([this, wanted] { return version() >= wanted; }, limit);
}

bool SimCluster::RunToSeal(absl::Duration limit) {
  return world_.RunUntil(
      [this] {
        if (finished_.size() < static_cast<size_t>(settings_.peers)) return false;
        for (const auto& [name, status] : finished_) {
          if (!status.ok()) return false;
        }
        return true;
      },
      limit);
}

absl::StatusOr<VerifyReport> SimCluster::Verify(const std::string& peer) {
  SimFiles files(world_.process(peer).disk());
  return VerifyLog(files, "/" + peer);
}

}  // namespace atolld

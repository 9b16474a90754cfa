#include "tests/sim/sim_cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"

namespace atolld {
namespace {

// How often a watched run reports its status.
constexpr absl::Duration kStatusInterval = absl::Milliseconds(100);

SimSettings WorldOf(const SimClusterSettings& settings) {
  SimSettings world;
  world.network.keepalive = 1.5 * settings.failure_timeout;  // as production's transport
  return world;
}

}  // namespace

SimCluster::SimCluster(uint64_t seed, SimClusterSettings settings, SimClusterTap tap,
                       SimClusterEar ear)
    : settings_(std::move(settings)),
      tap_(std::move(tap)),
      ear_(std::move(ear)),
      world_(seed, WorldOf(settings_)) {
  if (!settings_.start) return;
  Start(kCoordinator);
  for (int i = 1; i <= settings_.peers; ++i) Start(absl::StrCat("p", i));
  for (const std::string& aggregator : settings_.aggregators) Start(aggregator);
}

void SimCluster::Start(const std::string& name) {
  started_.insert(name);
  const Role role = name == kCoordinator                     ? Role::kCoordinator
                    : settings_.aggregators.count(name) != 0 ? Role::kAggregator
                                                             : Role::kPeer;
  world_.network().SetIdentity(name, {"sim", role, name, ""});
  if (name == kCoordinator) {
    world_.AddProcess(name, [this](Env env) { return StartCoordinator(env); });
  } else {
    world_.AddProcess(name, [this, name](Env env) { return StartPeer(env, name); });
  }
}

std::vector<std::string> SimCluster::PeersStarted() const {
  std::vector<std::string> peers(started_.begin(), started_.end());
  peers.erase(std::remove(peers.begin(), peers.end(), kCoordinator), peers.end());
  return peers;
}

Config SimCluster::ConfigOf(const std::string& name) const {
  Config config;
  config.run.id = "sim";
  config.run.rounds = settings_.rounds;
  config.run.peers =
      static_cast<uint32_t>(settings_.founders == 0 ? settings_.peers : settings_.founders);
  config.run.quorum = settings_.quorum;
  config.inner.steps = 10;
  config.inner.batch = 2;
  if (settings_.auto_pace) config.inner.pace = "auto";
  config.mode.kind = settings_.mode;
  config.mode.overlap = settings_.overlap;
  config.mode.age_cutoff = settings_.age_cutoff;
  config.outer.rule = settings_.outer;
  config.outer.learning_rate = settings_.outer_rate;
  if (settings_.outer == "average") config.outer.momentum = 0;
  config.exchange.codec = settings_.codec;
  config.exchange.upper_codec = settings_.upper_codec;
  config.exchange.chunk_elements = settings_.chunk_elements;
  config.exchange.error_feedback = settings_.error_feedback;
  config.exchange.audit_share = settings_.audit_share;
  if (settings_.fragments > 0) {
    config.mode.kind = "streaming";
    config.mode.fragments = settings_.fragments;
    config.mode.overlap = 0;
  }
  if (settings_.experts > 0) {
    config.experts.owners = settings_.owners;
    config.experts.tensors = kSimExperts;
  }
  if (settings_.masked) {
    config.data.is_private = true;
    config.privacy.masked = true;
    config.privacy.threshold = settings_.mask_threshold;
    config.exchange.audit_share = 0;
    config.exchange.clip = 0;
    config.membership.weight_cap = 0;
    config.inner.learning_rate = 0.1;  // no worker here reads it; the first range of codes does
  }
  config.membership.outsized = DefaultOutsized(config);
  config.evaluation.every_rounds = 3;
  config.membership.failure_timeout = settings_.failure_timeout;
  config.coordinator.address = "coordinator:1";
  config.coordinator.dir = "/coordinator";
  config.peer.id = name;
  config.peer.listen = name + ":1";
  if (settings_.dial_out.count(name) > 0) config.peer.advertise = kDialsOutOnly;
  config.peer.dir = "/" + name;
  config.peer.snapshot_every = settings_.snapshot_every;
  config.peer.keep_snapshots = settings_.keep_snapshots;
  config.peer.keep_bytes = settings_.keep_bytes;
  return config;
}

std::shared_ptr<void> SimCluster::StartCoordinator(Env env) {
  const Config config = ConfigOf(kCoordinator);
  auto store = std::make_unique<SimStore>(env.files, config.coordinator.dir, store_);
  struct Node {
    std::unique_ptr<TapTransport> tap;
    std::unique_ptr<Coordinator> coordinator;
  };
  auto node = std::make_shared<Node>();
  Transport* transport = &env.transport;
  if (ear_) {
    node->tap = std::make_unique<TapTransport>(*transport, ear_);
    transport = node->tap.get();
  }
  node->coordinator = std::make_unique<Coordinator>(
      Env{env.executor, env.files, *transport, env.log}, config, std::move(store), nullptr,
      [](bool) { return SigningKey::FromSeed(std::string(32, 'k')); });
  const absl::Status started = node->coordinator->Start();
  if (!started.ok()) env.log.Error(started.message());
  if (settings_.watched) {
    node->coordinator->OnStatus(kStatusInterval,
                                [this](const v1::RunStatus& status) { status_ = status; });
  }
  return node;
}

std::shared_ptr<void> SimCluster::StartPeer(Env env, const std::string& name) {
  struct Node {
    Node(SimCluster& owner, std::string peer_name) : cluster(owner), name(std::move(peer_name)) {}
    ~Node() {
      cluster.trainers_.erase(name);
      cluster.peers_.erase(name);
    }
    SimCluster& cluster;
    const std::string name;
    std::shared_ptr<HostileTransport> hostile;
    std::unique_ptr<TapTransport> tap;
    std::unique_ptr<Worker> trainer;
    std::unique_ptr<Peer> peer;
  };
  auto node = std::make_shared<Node>(*this, name);
  Transport* transport = &env.transport;
  const auto hostility = settings_.hostile.find(name);
  if (hostility != settings_.hostile.end()) {
    hostile_[name] = std::make_shared<HostileTransport>(*transport, name, hostility->second);
    node->hostile = hostile_[name];
    transport = node->hostile.get();
  }
  if (tap_) {
    node->tap = std::make_unique<TapTransport>(
        *transport, [this, name](const Frame& frame) { tap_(name, frame); });
    transport = node->tap.get();
  }
  const Env seen{env.executor, env.files, *transport, env.log};
  SimWorkerSettings trainer;
  trainer.elements = settings_.elements;
  if (settings_.fragments > 0) {
    trainer.tensors = 4 * settings_.fragments + 1;
    trainer.tensors_a_layer = 2;
  }
  trainer.experts = settings_.experts;
  trainer.seed = std::hash<std::string>()(name);
  if (settings_.own_initial) trainer.initial = trainer.seed;
  const auto step = settings_.steps.find(name);
  if (step != settings_.steps.end()) trainer.step = step->second;
  if (settings_.aggregators.count(name) > 0) {
    node->trainer = std::make_unique<NoWorker>(env.executor);
  } else {
    auto stub = std::make_unique<SimWorker>(env, trainer);
    trainers_[name] = stub.get();
    if (settings_.hung_makers.count(name) > 0) {
      stub->HangAt(SimWorker::Stage::kInitialState, true);
    }
    node->trainer = std::move(stub);
  }
  node->peer = std::make_unique<Peer>(seen, ConfigOf(name), *node->trainer, 1,
                                      [this, name](absl::Status status) {
                                        finished_[name] = status;
                                        world_.Kill(name);
                                      });
  peers_[name] = node->peer.get();
  const absl::Status started = node->peer->Start();
  if (!started.ok()) env.log.Error(started.message());
  return node;
}

bool SimCluster::Evicted(const std::string& peer) const {
  for (const auto& member : stored().members) {
    if (member.peer == peer) return member.state == "evicted";
  }
  return false;
}

void SimCluster::RestoreStore(size_t transactions) {
  SimFiles files(world_.disk(kCoordinator));
  CHECK_OK(SimStore::Restore(files, ConfigOf(kCoordinator).coordinator.dir, transactions, *store_));
}

bool SimCluster::RunToVersion(uint64_t wanted, absl::Duration limit) {
  return world_.RunUntil([this, wanted] { return version() >= wanted; }, limit);
}

bool SimCluster::RunToSeal(absl::Duration limit) {
  return world_.RunUntil(
      [this] {
        const size_t all = static_cast<size_t>(settings_.peers) + settings_.aggregators.size();
        if (finished_.size() < all) return false;
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

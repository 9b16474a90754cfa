#include "tests/sim/swarm_etcd.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/coordinator/standby_door.h"
#include "membership/history/signing_key.h"
#include "tests/sim/session_tap.h"
#include "tests/sim/sim_cluster.h"

namespace atolld {
namespace {

constexpr char kPrefix[] = "atoll/swarm/";

}  // namespace

std::vector<std::string> CoordinatorNames(const SwarmPlan& plan) {
  std::vector<std::string> names = {kCoordinator};
  for (uint32_t i = 2; i <= plan.coordinators; ++i) {
    names.push_back(absl::StrCat(kCoordinator, i));
  }
  return names;
}

struct SwarmEtcd::Root {
  Root(SwarmEtcd& owner, std::string process, std::string life, Env environment)
      : etcd(owner), name(std::move(process)), who(std::move(life)), env(environment) {
    etcd.roots_[name] = this;
  }
  ~Root() { etcd.roots_.erase(name); }

  SwarmEtcd& etcd;
  const std::string name, who;
  const Env env;
  std::unique_ptr<TapTransport> tap;
  std::unique_ptr<EtcdTurns> turns;
};

SwarmEtcd::SwarmEtcd(SimWorld& world, const SwarmPlan& plan, Invariants& invariants,
                     std::function<void(const std::string&)> note)
    : world_(world),
      seed_(plan.seed),
      invariants_(invariants),
      note_(std::move(note)),
      etcd_(world, SimMix(plan.seed, 0x65746364), plan.latency),
      law_(
          etcd_, kPrefix,
          [this](int invariant, const std::string& what) { invariants_.Violate(invariant, what); }),
      leader_(kCoordinator) {
  law_.OnDurable([this](const RunUpdate& update) { invariants_.OnDurable(update); });
}

std::shared_ptr<void> SwarmEtcd::Begin(Env env, const std::string& name, const Config& config) {
  SimProcess& process = world_.process(name);
  auto root = std::make_shared<Root>(*this, name, SimEtcd::WhoIs(process), env);
  // What a process says that its disk has just killed goes nowhere.
  root->tap = std::make_unique<TapTransport>(
      env.transport,
      [this, name, who = root->who](const Frame& frame) {
        if (!world_.process(name).alive()) return;
        if (who == leading_) return invariants_.OnCoordinatorFrame(frame);
        invariants_.OnFormerLeaderFrame(frame);
      },
      nullptr,
      [this, name](const std::string& peer, const Frame& frame) {
        if (world_.process(name).alive()) invariants_.OnTold(peer, frame);
      });
  EtcdTurns::Events events;
  events.wait = [this, at = root.get(), config]() -> std::shared_ptr<void> {
    auto door = std::make_shared<StandbyDoor>(at->env, [at] { return at->turns->leader(); });
    const absl::Status listens = door->Listen(config.coordinator.address);
    if (!listens.ok()) invariants_.Violate(12, absl::StrCat(at->name, ": ", listens.ToString()));
    return door;
  };
  events.lead = [this, at = root.get(), config](std::unique_ptr<Store> store) {
    return Lead(*at, config, std::move(store));
  };
  events.ended = [this, name](const absl::Status& why) {
    note_(absl::StrCat(name, " ends: ", why.ToString()));
    if (!why.ok()) invariants_.Violate(12, absl::StrCat(name, " ends: ", why.ToString()));
    world_.Kill(name);
  };
  root->turns = std::make_unique<EtcdTurns>(
      process, etcd_, law_, EtcdTurns::Settings{kPrefix, kTtl, config.coordinator.address},
      std::move(events));
  return root;
}

absl::Status SwarmEtcd::Lead(Root& root, const Config& config, std::unique_ptr<Store> store) {
  const Env tapped{root.env.executor, root.env.files, *root.tap, root.env.log};
  Coordinator coordinator(tapped, config, std::move(store), nullptr, [this](bool) {
    return SigningKey::FromSeed(absl::StrFormat("%032u", seed_));
  });
  const absl::Status started = coordinator.Start();
  if (!started.ok()) {
    note_(absl::StrCat(root.who, " does not begin to lead: ", started.ToString()));
    return started;
  }
  EndLeading(leading_);
  leading_ = root.who;
  leader_ = root.name;
  note_(absl::StrCat(root.who, " leads"));
  invariants_.OnStart(kCoordinator);
  root.turns->AwaitLost();
  // As its end waits for the update that is under way.
  world_.process(root.name).threads().JoinPool();
  coordinator.Stop();
  if (leading_ == root.who) {
    note_(absl::StrCat(root.who, " leads no longer"));
    EndLeading(root.who);
  }
  return absl::OkStatus();
}

void SwarmEtcd::EndLeading(const std::string& who) {
  if (who.empty() || who != leading_) return;
  leading_.clear();
  SimFiles files(world_.disk(leader_));
  invariants_.OnDeath(kCoordinator, files, "");
}

void SwarmEtcd::OnDeath(const std::string& name) {
  invariants_.Disturb(kCoordinator, world_.now());
  if (name == leader_) EndLeading(leading_);
}

void SwarmEtcd::Stop(const std::string& name) {
  const auto found = roots_.find(name);
  if (found != roots_.end()) found->second->turns->Stop();
}

}  // namespace atolld

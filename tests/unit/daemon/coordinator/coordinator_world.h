// CoordinatorWorld: a coordinator and scripted peers on the simulated network, for tests.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "compression/base/check.h"
#include "daemon/coordinator/coordinator.h"
#include "daemon/coordinator/memory_store.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/coordinator/scripted_peer.h"

namespace atolld {

struct CoordinatorWorld {
  explicit CoordinatorWorld(uint32_t trainers, uint32_t quorum = 0, uint64_t rounds = 5)
      : world(1) {
    config.run.id = "r1";
    config.run.peers = trainers;
    config.run.quorum = quorum;
    config.run.rounds = rounds;
    config.inner.steps = 5;
    config.exchange.chunk_elements = 4096;
    config.exchange.audit_share = 0;  // scripted peers average nothing
    config.evaluation.every_rounds = 2;
    config.coordinator.address = "127.0.0.1:7070";
  }

  void AddCoordinator() {
    world.AddProcess("coordinator", [this](Env env) {
      auto made = std::make_shared<Coordinator>(env, config, std::make_unique<MemoryStore>(disk),
                                                nullptr, history_key);
      CHECK_OK(made->Start());
      made->OnSealed([this] { sealed = true; });
      coordinator = made;
      return made;
    });
  }
  void AddPeer(const std::string& id) {
    world.AddProcess(id, [this, id](Env env) {
      auto made = std::make_shared<ScriptedPeer>(env, id, config.coordinator.address);
      peers[id] = made;
      return made;
    });
  }
  ScriptedPeer& peer(const std::string& id) { return *peers.at(id).lock(); }
  uint64_t committed() const { return disk->run.headers.size(); }
  bool RunToVersion(uint64_t version, absl::Duration limit = absl::Minutes(2)) {
    return world.RunUntil([&] { return committed() >= version; }, limit);
  }

  Config config;
  SigningKey key = *SigningKey::FromSeed(std::string(32, 'k'));
  HistoryKeySource history_key = [this](bool) { return key; };
  std::shared_ptr<MemoryStore::Disk> disk = std::make_shared<MemoryStore::Disk>();
  SimWorld world;
  std::weak_ptr<Coordinator> coordinator;
  std::map<std::string, std::weak_ptr<ScriptedPeer>> peers;
  bool sealed = false;
};

}  // namespace atolld

// For tests: a coordinator and scripted peers on the simulated network (CoordinatorWorld), and an
// operator (Asker and AdminWorld).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"
#include "compression/base/check.h"
#include "daemon/coordinator/coordinator.h"
#include "daemon/coordinator/store.h"
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

// An admin call with all its answers.
template <typename Message>
struct Asker {
  Asker(Env env, const std::string& address, const std::string& method,
        const google::protobuf::MessageLite& request) {
    call = env.transport.Dial(address, "/atolld.v1.Admin/" + method, absl::Minutes(10));
    call->Start({[this](const Frame& frame) {
                   answers.emplace_back();
                   CHECK_OK(Unpack(frame, &answers.back()));
                   call->Read();
                 },
                 nullptr, [this](const absl::Status& closed) { status = closed; }});
    call->Read();
    call->Write(Pack(request));
    call->Finish(absl::OkStatus());
  }
  std::unique_ptr<Call> call;
  std::vector<Message> answers;
  std::optional<absl::Status> status;
};

struct AdminWorld : CoordinatorWorld {
  explicit AdminWorld(uint32_t trainers = 2, uint32_t quorum = 0, uint64_t rounds = 5)
      : CoordinatorWorld(trainers, quorum, rounds) {
    AddCoordinator();
    for (const char* peer : {"a", "b", "c", "d"}) {
      if (peers.size() < trainers) AddPeer(peer);
    }
    world.AddProcess("operator");
  }
  Env env() { return world.process("operator").env(); }

  // Makes the call and waits until it has ended. After an error `answer` is unchanged.
  template <typename Message>
  absl::Status Ask(const std::string& method, const google::protobuf::MessageLite& request,
                   Message* answer) {
    Asker<Message> asker(env(), config.coordinator.address, method, request);
    CHECK(world.RunUntil([&] { return asker.status.has_value(); }, absl::Minutes(1)));
    if (asker.status->ok()) *answer = asker.answers.at(0);
    return *asker.status;
  }
};

}  // namespace atolld

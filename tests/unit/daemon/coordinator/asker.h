// Asker and AdminWorld: an operator on the simulated network, beside a coordinator and its scripted
// peers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"
#include "compression/base/check.h"
#include "tests/unit/daemon/coordinator/coordinator_world.h"

namespace atolld {

// One admin call and all that it was answered.
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

  // Asks and waits for the end of the call; `answer` is left alone on an error.
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

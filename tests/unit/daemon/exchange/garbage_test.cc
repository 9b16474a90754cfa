// Would break: whoever can dial a peer could crash it, or hold its round up, with bytes that are no
// message.
#include "tests/unit/daemon/garbage.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/sim_ends.h"
#include "tests/unit/daemon/exchange/swarm.h"

namespace atolld {
namespace {

constexpr char kExchange[] = "/atolld.v1.Exchange/Exchange";

// p1 and p2 average; p3's place is the liar's.
struct GarbageScene {
  GarbageScene() : swarm(SwarmSettings{}) {
    for (const char* name : {"p1", "p2", "p3"}) swarm.Add(name);
    swarm.world.AddProcess("liar");
    plan = swarm.MakePlan({"p1", "p2", "p3"}, {"p1", "p2"});
    swarm.Give("p1", plan);
    swarm.Give("p2", plan);
  }

  // Says these things to p1, one after another, and waits for the end of the call.
  std::unique_ptr<Reader> Say(const std::string& method, const std::vector<std::string>& frames) {
    auto reader = std::make_unique<Reader>();
    reader->Start(swarm.world.process("liar").env().transport.Dial(Swarm::Address("p1"), method,
                                                                   absl::InfiniteDuration()));
    for (const std::string& frame : frames) reader->call->Write({frame, SharedBytes()});
    swarm.world.RunUntil([&] { return !reader->closed.empty(); }, absl::Milliseconds(500));
    return reader;
  }

  v1::ToReducer Open() const {
    v1::ToReducer message;
    message.mutable_open()->set_run_id(kRun);
    message.mutable_open()->set_version(plan.version());
    message.mutable_open()->set_epoch(plan.epoch());
    message.mutable_open()->set_contributor("p3");
    return message;
  }

  void ExpectTheOthersComplete() {
    const v1::Plan next = Swarm::Revise(plan, "p3", "p1");
    swarm.Give("p1", next);
    swarm.Give("p2", next);
    const auto complete = [&] { return swarm.Complete({"p1", "p2"}, 2); };
    ASSERT_TRUE(swarm.world.RunUntil(complete, absl::Seconds(5))) << swarm.world.LogText();
    swarm.CheckOutcomes({"p1", "p2"}, next, {"p1", "p2"});
  }

  Swarm swarm;
  v1::Plan plan;
};

void ExpectRefused(const google::protobuf::MessageLite& type, const std::string& bytes,
                   const Reader& said) {
  if (CanBeRead(type, bytes)) return;
  ASSERT_EQ(said.closed.size(), 1u) << testing::PrintToString(bytes);
  EXPECT_TRUE(absl::IsInvalidArgument(said.closed[0]))
      << testing::PrintToString(bytes) << ": " << said.closed[0];
}

// Would break: a stranger could end a round before it has said who it is.
TEST(Garbage, NoCallBeginsWithIt) {
  GarbageScene scene;
  const v1::ToReducer open = scene.Open();
  for (const std::string& bytes : Garbage(open)) {
    ASSERT_NO_FATAL_FAILURE(ExpectRefused(open, bytes, *scene.Say(kExchange, {bytes})));
  }
  v1::InputsRequest request;
  request.set_run_id(kRun);
  request.set_version(scene.plan.version());
  request.set_epoch(scene.plan.epoch());
  request.add_chunks(0);
  for (const std::string& bytes : Garbage(request)) {
    ASSERT_NO_FATAL_FAILURE(ExpectRefused(request, bytes, *scene.Say(kInputsMethod, {bytes})));
  }
  scene.ExpectTheOthersComplete();
}

// Would break: a contributor could do after its Open what no stranger may.
TEST(Garbage, AStreamEndsWithIt) {
  v1::ToReducer chunk;
  chunk.mutable_chunk()->set_attempt(1);
  chunk.mutable_chunk()->set_chunk(3);
  chunk.mutable_chunk()->set_revision(1);
  for (const std::string& bytes : Garbage(chunk)) {
    GarbageScene scene;
    const auto said = scene.Say(kExchange, {scene.Open().SerializeAsString(), bytes});
    ASSERT_NO_FATAL_FAILURE(ExpectRefused(chunk, bytes, *said));
    ASSERT_NO_FATAL_FAILURE(scene.ExpectTheOthersComplete());
  }
}

}  // namespace
}  // namespace atolld

// Who has proved to be whom: streams in another's name, and callers that take all the room.
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/sim_ends.h"
#include "tests/unit/daemon/exchange/liar.h"
#include "tests/unit/daemon/exchange/swarm.h"

namespace atolld {
namespace {

// p1 reduces for itself and p2; "liar" is a member too, with the certificate of x.
struct IdentityScene {
  explicit IdentityScene(bool certificates = true) : swarm(SwarmSettings{}) {
    for (const char* name : {"p1", "p2"}) {
      swarm.Add(name);
      if (certificates) swarm.world.network().SetIdentity(name, {"sim", Role::kPeer, name, ""});
    }
    swarm.world.AddProcess("liar");
    if (certificates) swarm.world.network().SetIdentity("liar", {"sim", Role::kPeer, "x", ""});
    plan = swarm.MakePlan({"p1", "p2"}, {"p1"});
  }

  void Complete() {
    swarm.Give("p2", plan);
    ASSERT_TRUE(swarm.world.RunUntil(
        [&] {
          return swarm.Complete({"p1", "p2"}, 1);
        },
        absl::Seconds(5)))
        << swarm.world.LogText();
    swarm.CheckOutcomes({"p1", "p2"}, plan, {"p1", "p2"});
  }

  // Calls of the liar that send nothing.
  void Dial(size_t calls) {
    for (size_t i = 0; i < calls; ++i) {
      silent.push_back(std::make_unique<Reader>());
      silent.back()->Start(swarm.world.process("liar").env().transport.Dial(
          Swarm::Address("p1"), kExchangeMethod, absl::InfiniteDuration()));
    }
    swarm.world.RunFor(absl::Milliseconds(200));
  }

  Swarm swarm;
  v1::Plan plan;
  std::vector<std::unique_ptr<Reader>> silent;
};

// Would break: any member could contribute in another's place, or read along for it and cut its
// stream.
TEST(ExchangeIdentity, AStreamInAnothersNameIsRefused) {
  IdentityScene scene;
  scene.swarm.Give("p1", scene.plan);
  Liar before(scene.swarm);
  before.Open(scene.plan, "p2");
  scene.swarm.world.RunFor(absl::Milliseconds(200));
  ASSERT_NO_FATAL_FAILURE(scene.Complete());
  Liar after(scene.swarm);
  after.Open(scene.plan, "p2");
  scene.swarm.world.RunFor(absl::Milliseconds(200));
  for (const Liar* liar : {&before, &after}) {
    ASSERT_EQ(liar->closed.size(), 1u);
    EXPECT_TRUE(absl::IsPermissionDenied(liar->closed[0])) << liar->closed[0];
    EXPECT_EQ(liar->results, 0);
  }
  EXPECT_TRUE(scene.swarm.peer("p1").refused.empty()) << "p2 was blamed for it";
  // In its own name it may receive.
  Liar itself(scene.swarm);
  itself.OpenWithout(scene.plan, "x", "p1");
  scene.swarm.world.RunFor(absl::Seconds(1));
  EXPECT_EQ(itself.results, static_cast<int>(scene.swarm.grid.chunks()));
}

// Would break: one member that opens streams and says nothing would shut the others out.
TEST(ExchangeIdentity, OneCallersSilentStreamsLeaveRoomForOthers) {
  IdentityScene scene;
  scene.swarm.Give("p1", scene.plan);
  scene.Dial(257);
  size_t refused = 0;
  for (const auto& call : scene.silent) {
    if (call->closed.empty()) continue;
    ++refused;
    EXPECT_TRUE(absl::IsResourceExhausted(call->closed[0])) << call->closed[0];
  }
  EXPECT_EQ(refused, 257u - 64u);
  ASSERT_NO_FATAL_FAILURE(scene.Complete());
}

// Would break: the same by streams of a plan that nobody else has heard of.
TEST(ExchangeIdentity, OneCallersEarlyStreamsLeaveRoomForOthers) {
  IdentityScene scene;
  v1::Plan later = scene.plan;
  later.set_version(scene.plan.version() + 1);
  std::vector<std::unique_ptr<Liar>> early;
  for (int i = 0; i < 300; ++i) {
    early.push_back(std::make_unique<Liar>(scene.swarm));
    early.back()->OpenWithout(later, "x", "p1");
    scene.swarm.world.RunFor(absl::Milliseconds(1));
  }
  scene.swarm.world.RunFor(absl::Milliseconds(100));
  size_t waiting = 0;
  for (const auto& liar : early) {
    waiting += liar->closed.empty() ? 1 : 0;
    if (liar->closed.empty()) continue;
    EXPECT_TRUE(absl::IsResourceExhausted(liar->closed[0])) << liar->closed[0];
  }
  EXPECT_EQ(waiting, 64u);
  // Its plan has not come to p1 either, and it finds room to wait.
  Liar honest(scene.swarm);
  scene.swarm.world.network().SetIdentity("liar", {"sim", Role::kPeer, "p2", ""});
  honest.Open(scene.plan, "p2");
  scene.swarm.world.RunFor(absl::Milliseconds(100));
  EXPECT_TRUE(honest.closed.empty());
  scene.swarm.Give("p1", scene.plan);
  ASSERT_NO_FATAL_FAILURE(scene.Complete());
}

// Would break: whoever can dial could make a peer hold streams without end.
TEST(ExchangeIdentity, SilentStreamsAreBoundedAndLetGo) {
  IdentityScene scene(false);
  scene.swarm.Give("p1", scene.plan);
  scene.Dial(257);
  for (size_t i = 0; i < 256; ++i) EXPECT_TRUE(scene.silent[i]->closed.empty()) << i;
  ASSERT_EQ(scene.silent[256]->closed.size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(scene.silent[256]->closed[0]));
  scene.swarm.world.RunFor(scene.swarm.settings.failure_timeout);
  size_t told = 0;
  for (size_t i = 0; i < 256; ++i) {
    ASSERT_EQ(scene.silent[i]->closed.size(), 1u) << i;
    told += absl::IsFailedPrecondition(scene.silent[i]->closed[0]) ? 1 : 0;
  }
  EXPECT_GE(told, 64u) << "the status of more than the last 64 may be lost";
  ASSERT_NO_FATAL_FAILURE(scene.Complete());
}

}  // namespace
}  // namespace atolld

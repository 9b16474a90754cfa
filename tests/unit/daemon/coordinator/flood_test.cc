// Would break: one peer that floods the coordinator takes its time from everybody.
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/sim_ends.h"
#include "tests/unit/daemon/coordinator/coordinator_world.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

// Two peers that train, and "x", which has a certificate and no manners.
struct FloodedRun : CoordinatorWorld {
  FloodedRun() : CoordinatorWorld(2, 2, 8) {
    config.limits.sessions_per_minute = 60;
    config.limits.session_messages = 100;
    AddCoordinator();
    for (const char* peer : {"a", "b"}) AddPeer(peer);
    world.AddProcess("x");
    world.network().SetIdentity("x", {"r1", Role::kPeer, "x", "7"});
  }

  std::unique_ptr<Reader> OpenSession() {
    auto reader = std::make_unique<Reader>();
    reader->Start(world.process("x").env().transport.Dial(
        config.coordinator.address, "/atolld.v1.Membership/Session", absl::InfiniteDuration()));
    v1::PeerMessage message;
    message.mutable_hello()->set_peer("x");
    message.mutable_hello()->set_numerics(1);
    reader->call->Write(Pack(message));
    return reader;
  }

  // When the last round's news has come to both.
  absl::Duration FinishRounds() {
    const auto done = [this] { return peer("a").version == 8 && peer("b").version == 8; };
    EXPECT_TRUE(world.RunUntil(done, absl::Minutes(5))) << world.LogText();
    EXPECT_EQ(world.LogCount("peer a died") + world.LogCount("peer b died"), 0u);
    EXPECT_EQ(world.LogCount("committed by a, b;"), 8u);
    return world.now();
  }
};

// Would break: a peer that dials again and again costs the run a roster and a row of the store each
// time.
TEST(Flood, SessionsBeyondTheLimitAreRefused) {
  FloodedRun w;
  std::vector<std::unique_ptr<Reader>> sessions;
  for (int i = 0; i < 200; ++i) {  // in 50 s
    sessions.push_back(w.OpenSession());
    w.world.RunFor(absl::Milliseconds(250));
  }
  size_t refused = 0;
  for (const auto& session : sessions) {
    if (session->closed.empty() || !absl::IsResourceExhausted(session->closed[0])) continue;
    EXPECT_THAT(std::string(session->closed[0].message()),
                HasSubstr("[limits] sessions_per_minute = 60"));
    EXPECT_TRUE(session->frames.empty());
    ++refused;
  }
  // Half a minute's at once and one a second.
  EXPECT_NEAR(static_cast<double>(refused), 200 - 30 - 50, 1);
  w.FinishRounds();
}

// Would break: one peer that says too much holds up the others' rounds.
TEST(Flood, MessagesBeyondTheLimitWaitAndTheRunDoesNot) {
  FloodedRun calm;
  const auto quiet = calm.OpenSession();
  const absl::Duration usual = calm.FinishRounds();
  EXPECT_EQ(calm.world.LogCount("[limits]"), 0u);

  FloodedRun w;
  const auto session = w.OpenSession();
  v1::PeerMessage message;
  message.mutable_heartbeat()->mutable_progress()->set_step(1);
  for (int i = 0; i < 20000; ++i) session->call->Write(Pack(message));
  const absl::Duration flooded = w.FinishRounds();
  EXPECT_LE(flooded, usual * 1.1);
  EXPECT_GE(flooded, usual * 0.9);
  EXPECT_EQ(w.world.LogCount("peer x sends more than [limits] session_messages allows"), 1u);
  // The last heartbeat is read after (20000 - 200) / 100 s, and x is not heard from after it.
  const auto died = [&] { return w.world.LogCount("peer x died: silent for 10s") == 1; };
  ASSERT_TRUE(w.world.RunUntil(died, absl::Minutes(10))) << w.world.LogText();
  EXPECT_NEAR(absl::ToDoubleSeconds(w.world.now()), 198 + 10, 1);
}

}  // namespace
}  // namespace atolld

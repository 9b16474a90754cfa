// Would break: a peer that floods its Session takes up the coordinator's time, or its messages are
// lost when it is held back.
#include "daemon/coordinator/session_stream.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "tests/sim/sim_ends.h"

namespace atolld {
namespace {

constexpr double kRate = 100;

struct FloodedWorld {
  FloodedWorld() : world(1) {
    SimProcess& coordinator = world.AddProcess("coordinator");
    world.AddProcess("peer");
    listener = coordinator.env()
                   .transport
                   .Listen("coordinator:1",
                           [this, env = coordinator.env()](const std::string&,
                                                           std::unique_ptr<Call> call) {
                             stream = std::make_unique<SessionStream>(
                                 env, std::move(call), absl::Seconds(2), kRate,
                                 SessionStream::Events{[](const v1::Hello&) {},
                                                       [this](const v1::PeerMessage&) { ++heard; },
                                                       [this] { ++closed; }});
                           })
                   .value();
    peer.Start(world.process("peer").env().transport.Dial(
        "coordinator:1", "/atolld.v1.Membership/Session", absl::InfiniteDuration()));
    v1::PeerMessage hello;
    hello.mutable_hello()->set_peer("p1");
    peer.call->Write(Pack(hello));
  }

  void Flood(int messages) {
    v1::PeerMessage message;
    message.mutable_heartbeat()->mutable_progress()->set_step(1);
    for (int i = 0; i < messages; ++i) peer.call->Write(Pack(message));
  }

  SimWorld world;
  std::unique_ptr<SessionStream> stream;
  std::unique_ptr<Listener> listener;
  Reader peer;
  int heard = 0;
  int closed = 0;
};

TEST(SessionStream, AFlooderIsReadAtTheRateAndNothingIsLost) {
  FloodedWorld w;
  w.Flood(2000);
  w.world.RunFor(absl::Seconds(1));
  EXPECT_NEAR(3 * kRate, w.heard, 5) << "a burst of two seconds' worth, and one second";
  w.world.RunFor(absl::Seconds(9));
  EXPECT_NEAR(12 * kRate, w.heard, 5);
  w.world.RunFor(absl::Seconds(10));
  EXPECT_EQ(2000, w.heard);
  EXPECT_EQ(0, w.closed);
  const std::string log = w.world.LogText();
  const std::string line = "peer p1 sends more than [limits] session_messages allows";
  ASSERT_NE(std::string::npos, log.find(line));
  EXPECT_EQ(log.find(line), log.rfind(line)) << "said once";
}

TEST(SessionStream, WhoStaysBelowIsNotHeldUp) {
  FloodedWorld w;
  for (int second = 1; second <= 10; ++second) {
    w.Flood(90);
    w.world.RunFor(absl::Milliseconds(500));
    EXPECT_EQ(90 * second, w.heard);
    w.world.RunFor(absl::Milliseconds(500));
  }
  EXPECT_EQ(std::string::npos, w.world.LogText().find("read no faster"));
}

// Would break: a peer that reads nothing makes the coordinator hold all that it is ever sent.
TEST(SessionStream, WhoDoesNotReadIsEndedAndThenLetGo) {
  for (const bool reads_at_last : {true, false}) {
    FloodedWorld w;
    w.world.RunFor(absl::Seconds(1));
    w.peer.keep_reading = false;
    v1::CoordinatorMessage message;
    message.mutable_audit()->set_nonce(std::string(size_t{1} << 19, 'n'));
    for (int i = 0; i < 100; ++i) {
      w.stream->Send(message);
      w.world.RunFor(absl::Milliseconds(10));
    }
    EXPECT_GT(w.world.network().max_unsent_bytes(), uint64_t{16} << 20);
    EXPECT_LT(w.world.network().max_unsent_bytes(), uint64_t{17} << 20);
    EXPECT_EQ(0, w.closed) << "what it was sent before may still go";
    if (reads_at_last) {
      w.peer.keep_reading = true;
      w.peer.call->Read();
      w.world.RunFor(absl::Seconds(10));
      ASSERT_EQ(1u, w.peer.closed.size());
      EXPECT_TRUE(absl::IsResourceExhausted(w.peer.closed[0])) << w.peer.closed[0];
      EXPECT_LT(w.peer.frames.size(), 40u);
    }
    w.world.RunFor(absl::Minutes(1));
    EXPECT_EQ(1, w.closed);
  }
}

}  // namespace
}  // namespace atolld

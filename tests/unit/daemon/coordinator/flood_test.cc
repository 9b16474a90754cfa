// Would break: one peer that floods the coordinator takes its time from everybody.
#include <memory>
#include <string>
#include <vector>

#include "daemon/coordinator/session_stream.h"
#include "daemon/coordinator/throttle.h"
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

// ------------------------------------------------------------------------------------------------
// Would break: a peer that floods its Session takes up the coordinator's time, or its messages are
// lost when it is held back.

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
    const Frame frame = PackShared(message);
    for (int i = 0; i < 100; ++i) {
      w.stream->Send(frame);
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

// ------------------------------------------------------------------------------------------------
// Would break: one that floods is let have all that there is, or one that does not is held up.

const absl::Time kStart = absl::FromUnixSeconds(1000);

TEST(Throttle, AllowsABurstAndThenTheRate) {
  Throttle throttle(10, 5);
  int allowed = 0;
  for (int i = 0; i < 20; ++i) allowed += throttle.Allow(kStart) ? 1 : 0;
  EXPECT_EQ(5, allowed);
  // A hundred asks a second for ten seconds.
  for (int i = 1; i <= 1000; ++i) {
    allowed += throttle.Allow(kStart + i * absl::Milliseconds(10)) ? 1 : 0;
  }
  EXPECT_NEAR(5 + 100, allowed, 1);
  EXPECT_FALSE(throttle.Full(kStart + absl::Seconds(10)));
  EXPECT_TRUE(throttle.Full(kStart + absl::Seconds(11)));
}

TEST(Throttle, WhoIsPatientIsToldHowLong) {
  Throttle throttle(10, 2);
  EXPECT_EQ(absl::ZeroDuration(), throttle.Charge(kStart));
  EXPECT_EQ(absl::ZeroDuration(), throttle.Charge(kStart));
  EXPECT_EQ(absl::Milliseconds(100), throttle.Charge(kStart));
  EXPECT_EQ(absl::Milliseconds(100), throttle.Charge(kStart + absl::Milliseconds(100)));
  // A clock that goes back gives nothing.
  EXPECT_EQ(absl::Milliseconds(200), throttle.Charge(kStart));
}

TEST(CallerThrottle, EachHasItsOwnAndTheQuietAreForgotten) {
  CallerThrottle throttle(1, 2);
  EXPECT_TRUE(throttle.Allow(kStart, "a"));
  EXPECT_TRUE(throttle.Allow(kStart, "a"));
  EXPECT_FALSE(throttle.Allow(kStart, "a"));
  EXPECT_TRUE(throttle.Allow(kStart, "b"));
  for (int i = 0; i < 100; ++i) throttle.Allow(kStart, "name-" + std::to_string(i));
  EXPECT_EQ(102u, throttle.remembered());
  EXPECT_TRUE(throttle.Allow(kStart + absl::Seconds(5), "a"));
  EXPECT_EQ(1u, throttle.remembered());
}

TEST(SessionLimits, OnePeerBeginsSoManyAndTheOthersStill) {
  SessionLimits limits(60);
  const Identity flooder{"r1", Role::kPeer, "p1", "1"};
  const Identity other{"r1", Role::kPeer, "p2", "2"};
  size_t begun = 0;
  absl::Status refused;
  for (int i = 0; i < 6000; ++i) {  // a hundred a second for a minute
    const absl::Status status = limits.Check(kStart + i * absl::Milliseconds(10), flooder, 1);
    begun += status.ok() ? 1 : 0;
    if (!status.ok()) refused = status;
  }
  EXPECT_NEAR(30 + 60, static_cast<double>(begun), 1);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()),
              ::testing::HasSubstr("peer p1 begins more sessions than [limits]"));
  EXPECT_TRUE(limits.Check(kStart + absl::Minutes(1), other, 1).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(limits.Check(kStart, other, 32768)));
  EXPECT_TRUE(limits.Check(kStart, std::nullopt, 1).ok()) << "in plain text nobody is known";
}

}  // namespace
}  // namespace atolld

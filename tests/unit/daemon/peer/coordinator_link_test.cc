#include "daemon/peer/coordinator_link.h"

#include <gtest/gtest.h>

#include <memory>

#include "compression/base/check.h"
#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

// A coordinator that says what the test wants.
struct World {
  World() : world(1) {
    SimProcess& coordinator = world.AddProcess("coordinator");
    auto listening = coordinator.env().transport.Listen(
        "coordinator:1", [this](const std::string&, std::unique_ptr<Call> accepted) {
          call = std::move(accepted);
          ++sessions;
          call->Start({[this](Frame frame) {
                         CHECK_OK(Unpack(frame, &heard));
                         if (heard.has_leaving() && polite) return call->Finish(absl::OkStatus());
                         call->Read();
                       },
                       nullptr, nullptr});
          call->Read();
          v1::CoordinatorMessage welcome;
          welcome.mutable_welcome()->set_epoch(1);
          call->Write(Pack(welcome));
        });
    CHECK_OK(listening.status());
    listener = *std::move(listening);
    CoordinatorLink::Events events;
    events.hello = [] { return v1::Hello(); };
    events.progress = [] { return v1::PeerProgress(); };
    events.on_message = [this](const v1::CoordinatorMessage&) {
      ++messages;
      return answer;
    };
    events.on_down = [this] { ++downs; };
    events.on_refused = [this](absl::Status status) { refused = status; };
    events.waits_for = [] { return std::string("It waits for a test"); };
    link = std::make_unique<CoordinatorLink>(world.AddProcess("peer").env(), "coordinator:1",
                                             absl::Seconds(10), events);
    link->Start();
    world.RunFor(absl::Seconds(1));
  }
  void Beat(const std::string& waiting_for) {
    v1::CoordinatorMessage message;
    message.mutable_heartbeat()->set_waiting_for(waiting_for);
    call->Write(Pack(message));
    world.RunFor(absl::Seconds(1));
  }

  SimWorld world;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Call> call;
  std::unique_ptr<CoordinatorLink> link;
  v1::PeerMessage heard;  // by the coordinator, last
  bool polite = true;     // it closes what has said goodbye
  absl::Status answer;    // to what the coordinator says
  int messages = 0;
  int sessions = 0;
  int downs = 0;
  absl::Status refused;
};

// Broken: a volunteer would not see why the machine is idle, or see it in every line of the log.
TEST(CoordinatorLinkTest, WhyTheRunWaitsIsLoggedOnceAtEachChange) {
  World w;
  w.Beat("");
  for (int i = 0; i < 3; ++i) w.Beat("2 of 3 peers are here; waiting for one more");
  for (int i = 0; i < 3; ++i) w.Beat("an operator has paused it");
  EXPECT_EQ(w.world.LogCount("the run waits: 2 of 3 peers are here; waiting for one more"), 1u);
  EXPECT_EQ(w.world.LogCount("the run waits: an operator has paused it"), 1u);
  EXPECT_EQ(w.world.LogCount("the run goes on"), 0u);
  for (int i = 0; i < 3; ++i) w.Beat("");
  EXPECT_EQ(w.world.LogCount("the run goes on"), 1u);
  EXPECT_EQ(w.messages, 1);  // the Welcome: heartbeats are the link's own
}

// Broken: a report that is ready a moment after the goodbye would end the process in a crash.
TEST(CoordinatorLinkTest, NothingIsSaidAfterTheGoodbye) {
  World w;
  bool left = false;
  w.link->Leave("drained", [&] { left = true; });
  v1::PeerMessage late;
  late.mutable_state_report()->set_version(1);
  w.link->Send(late);
  w.link->SendProgress();
  w.world.RunFor(absl::Seconds(2));
  EXPECT_TRUE(left);
}

// Broken: whoever looks at a peer without a coordinator would not see what it waits for, or see
// little else.
TEST(CoordinatorLinkTest, WhatItWaitsForIsSaidOnceAMinute) {
  World w;
  w.world.Kill("coordinator");
  w.world.RunFor(absl::Minutes(10));
  EXPECT_EQ(w.world.LogCount("lost the coordinator"), 1u);
  EXPECT_GE(w.world.LogCount("no coordinator at coordinator:1 yet"), 9u);
  EXPECT_LE(w.world.LogCount("no coordinator at coordinator:1 yet"), 12u);
  EXPECT_EQ(w.world.LogCount("It waits for a test"),
            1 + w.world.LogCount("no coordinator at coordinator:1 yet"));
}

// Broken: a peer would end for a coordinator that lies, hang on it, hammer it, or keep to itself
// why.
TEST(CoordinatorLinkTest, ACoordinatorThatIsNotBelievedIsToldWhyAndDialledSeldom) {
  for (const bool polite : {true, false}) {
    World w;
    w.polite = polite;
    w.answer = absl::FailedPreconditionError("the history is forked");
    w.call->Finish(absl::UnavailableError("another one comes"));
    w.world.RunFor(absl::Minutes(5));
    EXPECT_TRUE(w.refused.ok());
    EXPECT_GE(w.sessions, 45);
    EXPECT_LE(w.sessions, 70);  // one in 5 s
    EXPECT_NEAR(w.messages, w.sessions, 1);
    EXPECT_NEAR(w.downs, w.sessions, 1);
    EXPECT_EQ(w.heard.leaving().reason(),
              "it does not believe the coordinator: the history is forked");
    const size_t lines = w.world.LogCount("is not believed: the history is forked");
    EXPECT_GE(lines, 4u);  // one a minute
    EXPECT_LE(lines, 8u);
    // One that is believed is kept, and after a while all is forgotten.
    w.answer = absl::OkStatus();
    w.world.RunFor(absl::Seconds(8));
    for (int second = 0; second < 20; ++second) w.Beat("");
    const int sessions = w.sessions;
    EXPECT_TRUE(w.link->up());
    w.call->Finish(absl::UnavailableError("gone for a moment"));
    w.world.RunFor(absl::Seconds(1));
    EXPECT_EQ(w.sessions, sessions + 1);
    EXPECT_TRUE(w.link->up());
  }
}

// Broken: an evicted peer would dial for ever instead of ending with the reason.
TEST(CoordinatorLinkTest, AnEvictionIsFinal) {
  World w;
  w.call->Finish(absl::PermissionDeniedError("peer p was evicted: it lies"));
  w.world.RunFor(absl::Seconds(30));
  EXPECT_EQ(w.refused, absl::PermissionDeniedError("peer p was evicted: it lies"));
  EXPECT_EQ(w.messages, 1);  // it did not dial again
}

}  // namespace
}  // namespace atolld

// What operators ask of the run: pause, resume, stop.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using Verb = RunOrder::Verb;

// Would break: a pause loses the exchange that was nearly done, does not hold, or never ends.
TEST(RunPause, TheExchangeUnderWayCommitsAndResumeGoesOn) {
  SimulatedPeers peers(3, 2);
  peers.Begin({"a", "b", "c"});
  for (const char* peer : {"a", "b", "c"}) peers.Ready(peer);
  ASSERT_TRUE(peers.Order(Verb::kPause, "", "backup\nnow").ok());
  EXPECT_TRUE(peers.stored.control.paused());
  EXPECT_TRUE(peers.run->Status(peers.now).paused());
  EXPECT_EQ(peers.phase(), "exchanging");
  for (const char* peer : {"a", "b", "c"}) peers.Vote(peer);
  EXPECT_EQ(peers.run->version(), 1u);
  EXPECT_EQ(peers.phase(), "paused");
  EXPECT_EQ(peers.reason(), "an operator has paused it: backup\\nnow");  // one line in every log
  EXPECT_EQ(peers.run->WaitingFor(), peers.reason());
  peers.Clear();
  peers.Tick(absl::Minutes(10));
  EXPECT_EQ(peers.Train("a"), nullptr);
  EXPECT_FALSE(peers.Said("died"));
  ASSERT_TRUE(peers.Order(Verb::kResume).ok());
  EXPECT_EQ(peers.stored.control.state, RunControl::State::kGoing);
  ASSERT_NE(peers.Train("a"), nullptr);
  peers.Commit({"a", "b", "c"});
  EXPECT_EQ(peers.run->version(), 2u);
  EXPECT_EQ(peers.run->WaitingFor(), "");
}

// Would break: inner steps that end in a pause are thrown away, or exchanged in spite of it.
TEST(RunPause, UpdatesThatBecomeReadyStand) {
  SimulatedPeers peers(2, 2);
  peers.Begin({"a", "b"});
  ASSERT_TRUE(peers.Order(Verb::kPause).ok());
  ASSERT_TRUE(peers.Order(Verb::kPause, "", "twice").ok());
  peers.Clear();
  for (const char* peer : {"a", "b"}) peers.Ready(peer);
  peers.Tick(absl::Minutes(1));
  EXPECT_EQ(peers.Plan("a"), nullptr);
  EXPECT_EQ(peers.phase(), "paused");
  ASSERT_TRUE(peers.Order(Verb::kResume).ok());
  ASSERT_NE(peers.Plan("a"), nullptr);
  EXPECT_EQ(peers.Train("a"), nullptr);  // nobody trained anew
  for (const char* peer : {"a", "b"}) peers.Vote(peer);
  EXPECT_EQ(peers.run->version(), 1u);
}

// Would break: a restart of the coordinator starts a paused run, or takes its peers for dead.
TEST(RunPause, SurvivesARestartAndItsGrace) {
  SimulatedPeers peers(3, 2);
  peers.Begin({"a", "b", "c"});
  ASSERT_TRUE(peers.Order(Verb::kPause, "", "x").ok());
  peers.Restart();
  EXPECT_EQ(peers.phase(), "paused");
  peers.Tick(absl::Seconds(9));
  EXPECT_FALSE(peers.Said("died"));
  peers.ComeBack({"a", "b"});
  peers.Tick(absl::Seconds(2));
  EXPECT_TRUE(peers.Said("peer c died"));
  for (const char* peer : {"a", "b"}) peers.Ready(peer);
  peers.Tick(absl::Minutes(1));
  EXPECT_EQ(peers.Plan("a"), nullptr);
  ASSERT_TRUE(peers.Order(Verb::kResume).ok());
  ASSERT_NE(peers.Plan("a"), nullptr);
  peers.Restart();
  EXPECT_NE(peers.phase(), "paused");
}

// Would break: a failed attempt in a pause is repeated in spite of it, for ever.
TEST(RunPause, AnAttemptThatFailsIsRepeatedAfterResume) {
  SimulatedPeers peers(2, 2);
  peers.Begin({"a", "b"});
  for (const char* peer : {"a", "b"}) peers.Ready(peer);
  ASSERT_TRUE(peers.Order(Verb::kPause).ok());
  peers.Die("b");
  EXPECT_EQ(peers.stored.epoch, 2u);
  EXPECT_EQ(peers.phase(), "paused");
  peers.Clear();
  peers.Ready("a");
  peers.ComeBack({"b"});
  peers.Ready("b");
  EXPECT_EQ(peers.Plan("a"), nullptr);
  ASSERT_TRUE(peers.Order(Verb::kResume).ok());
  EXPECT_NE(peers.Plan("a"), nullptr);
}

// Would break: a run that was stopped goes on, or ends without its loss or its seal.
TEST(RunStop, EndsAtTheNewestVersionLikeTheLast) {
  SimulatedPeers peers(2, 2, 9);
  peers.Begin({"a", "b"});
  peers.Commit({"a", "b"});
  peers.Clear();
  ASSERT_TRUE(peers.Order(Verb::kStop, "", "enough").ok());
  EXPECT_TRUE(peers.Said("its last version is 1"));
  EXPECT_TRUE(peers.run->Status(peers.now).stopping());
  EXPECT_EQ(peers.phase(), "evaluating");
  for (const char* peer : {"a", "b"}) peers.Ready(peer);  // too late
  EXPECT_EQ(peers.Plan("a"), nullptr);
  for (const char* peer : {"a", "b"}) peers.Evaluate(peer);
  for (const char* peer : {"a", "b"}) peers.Report(peer);
  ASSERT_TRUE(peers.stored.seal.has_value());
  EXPECT_EQ(peers.stored.seal->version(), 1u);
  EXPECT_EQ(peers.stored.evaluations.back().version(), 1u);
  EXPECT_TRUE(peers.Order(Verb::kStop).ok());
  EXPECT_EQ(peers.Order(Verb::kPause).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(peers.Order(Verb::kResume).code(), absl::StatusCode::kFailedPrecondition);
}

// Would break: the exchange under way is lost, or followed by another.
TEST(RunStop, TheExchangeUnderWayIsTheLast) {
  SimulatedPeers peers(2, 2, 9);
  peers.Begin({"a", "b"});
  for (const char* peer : {"a", "b"}) peers.Ready(peer);
  ASSERT_TRUE(peers.Order(Verb::kStop).ok());
  EXPECT_TRUE(peers.Said("its last version is 1"));
  EXPECT_EQ(peers.phase(), "exchanging");
  peers.inbox["a"].erase(peers.inbox["a"].begin());
  for (const char* peer : {"a", "b"}) peers.Vote(peer);
  EXPECT_EQ(peers.run->version(), 1u);
  for (const char* peer : {"a", "b"}) peers.Evaluate(peer);
  for (const char* peer : {"a", "b"}) peers.Report(peer);
  ASSERT_TRUE(peers.stored.seal.has_value());
  EXPECT_EQ(peers.stored.seal->version(), 1u);
}

// Would break: a stop waits for an exchange that can no longer be finished.
TEST(RunStop, AnExchangeThatFailsEndsTheRunBeforeIt) {
  SimulatedPeers peers(2, 2, 9);
  peers.Begin({"a", "b"});
  peers.Commit({"a", "b"});
  for (const char* peer : {"a", "b"}) peers.Ready(peer);
  ASSERT_TRUE(peers.Order(Verb::kStop).ok());
  peers.Die("b");
  peers.Evaluate("a");
  peers.Report("a");
  ASSERT_TRUE(peers.stored.seal.has_value());
  EXPECT_EQ(peers.stored.seal->version(), 1u);
}

// Would break: a stop is forgotten when the coordinator dies at any point before the seal.
TEST(RunStop, SurvivesARestartAtEachPoint) {
  for (int point = 0; point < 4; ++point) {
    SimulatedPeers peers(2, 2, 9);
    peers.Begin({"a", "b"});
    peers.Commit({"a", "b"});
    if (point == 1) {
      ASSERT_TRUE(peers.Order(Verb::kPause).ok());  // a stop ends a pause
    }
    if (point == 3) {
      for (const char* peer : {"a", "b"}) peers.Ready(peer);  // the exchange is lost with it
    }
    ASSERT_TRUE(peers.Order(Verb::kStop, "", "enough").ok());
    if (point == 2) {
      for (const char* peer : {"a", "b"}) peers.Evaluate(peer);
    }
    peers.Restart();
    EXPECT_TRUE(peers.run->Status(peers.now).stopping());
    peers.ComeBack({"a", "b"});
    EXPECT_EQ(peers.Train("a"), nullptr) << point;
    for (const char* peer : {"a", "b"}) peers.Evaluate(peer);
    for (const char* peer : {"a", "b"}) peers.Report(peer);
    ASSERT_TRUE(peers.stored.seal.has_value()) << point;
    EXPECT_EQ(peers.stored.seal->version(), 1u);
    EXPECT_FALSE(peers.run->Status(peers.now).stopping());
  }
}

// Would break: a run that was stopped is sealed in the grace after a restart, without the digest of
// a peer that is a second late.
TEST(RunStop, IsNotSealedInTheGraceUnlessAllAreBack) {
  SimulatedPeers peers(3, 2, 9);
  peers.Begin({"a", "b", "c"});
  peers.Commit({"a", "b", "c"});
  ASSERT_TRUE(peers.Order(Verb::kStop).ok());
  peers.Restart();
  peers.ComeBack({"a", "b"});
  for (const char* peer : {"a", "b"}) peers.Evaluate(peer);
  for (const char* peer : {"a", "b"}) peers.Report(peer);
  peers.Tick(absl::Seconds(9));
  EXPECT_FALSE(peers.stored.seal.has_value());
  EXPECT_FALSE(peers.Said("died"));
  peers.ComeBack({"c"});
  peers.Report("c");
  EXPECT_TRUE(peers.stored.seal.has_value());
}

// Would break: a run is sealed that has nothing to seal, or a stop cannot be told from a pause.
TEST(RunStop, IsRefusedBeforeVersionZeroAndCannotBeTakenBack) {
  SimulatedPeers peers(2, 2, 9);
  peers.JoinAndWork("a");
  EXPECT_EQ(peers.Order(Verb::kStop).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(peers.run->Status(peers.now).stopping());
  peers.InitialState("a");
  ASSERT_TRUE(peers.Order(Verb::kStop).ok());
  EXPECT_THAT(peers.Order(Verb::kResume).message(), HasSubstr("cannot be undone"));
  EXPECT_THAT(peers.Order(Verb::kPause).message(), HasSubstr("being stopped"));
  peers.Evaluate("a");
  peers.Report("a");
  ASSERT_TRUE(peers.stored.seal.has_value());
  EXPECT_EQ(peers.stored.seal->version(), 0u);
}

// Would break: an order fills the log with whatever was typed.
TEST(RunOrders, ALongReasonIsRefused) {
  SimulatedPeers peers(1, 1);
  EXPECT_EQ(peers.Order(Verb::kPause, "", std::string(257, 'x')).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(peers.stored.control.paused());
  EXPECT_EQ(peers.Order(Verb::kDrain, "nobody").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(peers.Order(Verb::kEvict, "nobody").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(peers.Order(Verb::kReadmit, "nobody").code(), absl::StatusCode::kNotFound);
}

// -----------------------------------------------------------------------------------------------
// What operators ask of a peer: drain, evict, let back.

using ::testing::ElementsAre;

// Would break: a drained peer is given new work, or the others wait for it.
TEST(RunDrain, ThePeerIsToldOnceASessionAndGetsNoNewWork) {
  SimulatedPeers peers(3, 2);
  peers.Begin({"a", "b", "c"});
  peers.Clear();
  ASSERT_TRUE(peers.Order(Verb::kDrain, "c", "new disk").ok());
  EXPECT_EQ(peers.notice, "");
  const auto* drain = peers.Last("c", &v1::CoordinatorMessage::has_drain);
  ASSERT_NE(drain, nullptr);
  EXPECT_EQ(drain->drain().reason(), "new disk");
  EXPECT_EQ(peers.StateOf("c"), "live");
  peers.Clear();
  ASSERT_TRUE(peers.Order(Verb::kDrain, "c").ok());  // asked twice
  EXPECT_EQ(peers.Last("c", &v1::CoordinatorMessage::has_drain), nullptr);
  peers.Commit({"a", "b", "c"});
  EXPECT_EQ(peers.run->version(), 1u);
  EXPECT_EQ(peers.Train("c"), nullptr);
  ASSERT_NE(peers.Train("a"), nullptr);
  peers.Leave("c");
  EXPECT_EQ(peers.StateOf("c"), "left");
  peers.Commit({"a", "b"});
  EXPECT_EQ(peers.run->version(), 2u);
  EXPECT_EQ(peers.Order(Verb::kDrain, "c").code(), absl::StatusCode::kFailedPrecondition);
  // It may come back, and is then a member like any other.
  const v1::Hello hello = peers.Returning("c", &peers.stored.headers.back());
  peers.Clear();
  peers.Join("c", &hello);
  EXPECT_EQ(peers.Last("c", &v1::CoordinatorMessage::has_drain), nullptr);
}

// Would break: the exchange loses a contributor that only wanted to leave after it.
TEST(RunDrain, InMidExchangeItContributesFirst) {
  SimulatedPeers peers(3, 2);
  peers.Begin({"a", "b", "c"});
  for (const char* peer : {"a", "b", "c"}) peers.Ready(peer);
  ASSERT_TRUE(peers.Order(Verb::kDrain, "c").ok());
  EXPECT_EQ(peers.Plan("a")->revision(), 1u);
  for (const char* peer : {"a", "b", "c"}) peers.Vote(peer);
  EXPECT_THAT(ContributorsOf(peers.stored.headers[0]), ElementsAre("a", "b", "c"));
}

// Would break: a coordinator's restart or a broken session keeps a peer that was asked to leave.
TEST(RunDrain, IsSaidAgainAfterABrokenSessionAndARestart) {
  SimulatedPeers peers(2, 1);
  peers.Begin({"a", "b"});
  ASSERT_TRUE(peers.Order(Verb::kDrain, "b", "x").ok());
  peers.Break("b");
  peers.Clear();
  peers.ComeBack({"b"});
  EXPECT_NE(peers.Last("b", &v1::CoordinatorMessage::has_drain), nullptr);
  peers.Restart();
  peers.ComeBack({"a", "b"});
  EXPECT_NE(peers.Last("b", &v1::CoordinatorMessage::has_drain), nullptr);
  EXPECT_EQ(peers.Last("a", &v1::CoordinatorMessage::has_drain), nullptr);
  peers.Leave("b");
  peers.Restart();
  peers.ComeBack({"a", "b"});
  EXPECT_EQ(peers.Last("b", &v1::CoordinatorMessage::has_drain), nullptr);
}

// Would break: an operator stops the run by draining one peer too many, and is not told.
TEST(RunDrain, BelowTheQuorumItSaysThatTheRunWillWait) {
  SimulatedPeers peers(2, 2);
  peers.Begin({"a", "b"});
  ASSERT_TRUE(peers.Order(Verb::kDrain, "b").ok());
  EXPECT_EQ(peers.notice, "1 peer stays, fewer than the quorum of 2: the run will wait");
  EXPECT_TRUE(peers.Said("an operator drains peer b; 1 peer stays"));
}

// Would break: an evicted peer is still heard, comes back, or keeps its samples.
TEST(RunEvict, IsOutAtOnceUntilItIsLetBack) {
  SimulatedPeers peers(3, 1);
  peers.Begin({"a", "b", "c"});
  const auto lease = peers.samples.at("b");
  const SessionId session = peers.sessions.at("b");
  ASSERT_TRUE(peers.Order(Verb::kEvict, "b", "it lies").ok());
  EXPECT_EQ(peers.ended.at(session), absl::PermissionDeniedError("peer b was evicted: it lies"));
  EXPECT_EQ(peers.StateOf("b"), "evicted");
  EXPECT_EQ(peers.stored.members[1].state, "evicted");
  peers.Ready("b");  // was on its way
  peers.Ready("a");
  EXPECT_EQ(peers.Plan("a"), nullptr);  // c is awaited, b is not
  peers.Ready("c");
  ASSERT_EQ(peers.Plan("a")->contributors_size(), 2);
  for (const char* peer : {"a", "c"}) peers.Vote(peer);
  EXPECT_EQ(peers.Train("a")->samples(0).first(), lease[0].first());
  peers.Break("b");  // the end of its session
  EXPECT_EQ(peers.StateOf("b"), "evicted");

  const v1::Hello hello = peers.Returning("b", nullptr);
  peers.Join("b", &hello);
  EXPECT_EQ(peers.ended.at(peers.sessions.at("b")).code(), absl::StatusCode::kPermissionDenied);
  peers.Restart();  // it is durable
  peers.Join("b", &hello);
  EXPECT_EQ(peers.ended.at(peers.sessions.at("b")).message(), "peer b was evicted: it lies");
  ASSERT_TRUE(peers.Order(Verb::kEvict, "b").ok());  // asked twice
  ASSERT_TRUE(peers.Order(Verb::kReadmit, "b").ok());
  peers.Join("b", &hello);
  EXPECT_EQ(peers.ended.count(peers.sessions.at("b")), 0u);
  EXPECT_EQ(peers.StateOf("b"), "live");
  ASSERT_TRUE(peers.Order(Verb::kReadmit, "b").ok());  // not evicted: nothing to do
  EXPECT_EQ(peers.StateOf("b"), "live");
}

// Would break: an eviction in mid-exchange counts twice what was averaged already, or stops it.
TEST(RunEvict, InMidExchangeItIsLostAndItsSamplesWaitForTheCommit) {
  for (const bool its_chunks_count : {false, true}) {
    SimulatedPeers peers(3, 2);
    peers.Begin({"a", "b", "c"});
    for (const char* peer : {"a", "b", "c"}) peers.Ready(peer);
    if (its_chunks_count) {
      for (const char* peer : {"a", "c"}) peers.Vote(peer);
    }
    ASSERT_TRUE(peers.Order(Verb::kEvict, "b").ok());
    if (!its_chunks_count) {
      EXPECT_THAT(peers.Plan("a")->lost(), ElementsAre("b"));
      for (const LeaseRecord& lease : peers.stored.leases.ranges) EXPECT_NE(lease.holder, "");
      for (const char* peer : {"a", "c"}) peers.Vote(peer);
    }
    EXPECT_EQ(peers.run->version(), 1u);
    EXPECT_EQ(ContributorsOf(peers.stored.headers[0]).size(), its_chunks_count ? 3u : 2u);
    EXPECT_EQ(peers.Train("a")->samples(0).first(), its_chunks_count ? 30u : 10u);
  }
}

// Would break: a run without version 0 hangs because the peer that makes it was thrown out.
TEST(RunEvict, OfTheMakerOfVersionZero) {
  SimulatedPeers peers(2, 1);
  peers.JoinAndWork("a");
  peers.JoinAndWork("b");
  peers.Clear();
  ASSERT_TRUE(peers.Order(Verb::kEvict, "a").ok());
  EXPECT_NE(peers.Last("b", &v1::CoordinatorMessage::has_make_initial_state), nullptr);
  peers.InitialState("a");  // too late
  EXPECT_FALSE(peers.stored.genesis.has_value());
}

// Would break: the grace waits for a peer that was thrown out before the restart, or in it.
TEST(RunEvict, NobodyWaitsForItAfterARestart) {
  SimulatedPeers peers(3, 2);
  peers.Begin({"a", "b", "c"});
  peers.Restart();
  peers.ComeBack({"a", "b"});
  for (const char* peer : {"a", "b"}) peers.Ready(peer);
  EXPECT_EQ(peers.Plan("a"), nullptr);
  ASSERT_TRUE(peers.Order(Verb::kEvict, "c").ok());
  EXPECT_NE(peers.Plan("a"), nullptr);
}

// Would break: an evicted peer's share of the last evaluation is never answered.
TEST(RunStop, APeerEvictedWhileItEvaluates) {
  SimulatedPeers peers(2, 1, 9);
  peers.Begin({"a", "b"});
  peers.Commit({"a", "b"});
  ASSERT_TRUE(peers.Order(Verb::kStop).ok());
  peers.Evaluate("a");
  peers.inbox["a"].clear();
  ASSERT_TRUE(peers.Order(Verb::kEvict, "b").ok());
  peers.Evaluate("a");
  peers.Report("a");
  EXPECT_TRUE(peers.stored.seal.has_value());
}

}  // namespace
}  // namespace atolld

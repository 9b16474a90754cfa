// Who becomes a member, version 0, and coming back.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

v1::Hello ReturningHello(const SimulatedPeers& peers, const std::string& peer, uint64_t version) {
  v1::Hello hello = peers.MakeHello(peer);
  hello.set_run_id("r1");
  hello.set_has_state(true);
  hello.set_version(version);
  std::string digest = version == 0 ? peers.settings.genesis_digest(*peers.stored.genesis)
                                    : "header " + std::to_string(version);
  digest.resize(32, '.');
  hello.set_header_digest(digest);
  return hello;
}

// Would break: a run without a version 0, with two of them, or with one that is not durable when it
// is told.
TEST(RunGenesis, OneWorkerMakesVersionZeroAndAllAreWelcomedToIt) {
  SimulatedPeers peers(2, 2);
  peers.Join("b");
  EXPECT_EQ(peers.phase(), "waiting");
  EXPECT_THAT(peers.reason(), HasSubstr("no worker is ready"));
  peers.WorkerReady("b");
  peers.JoinAndWork("a");
  EXPECT_EQ(peers.phase(), "initializing");
  EXPECT_NE(peers.Last("b", &v1::CoordinatorMessage::has_make_initial_state), nullptr);
  EXPECT_EQ(peers.Last("a", &v1::CoordinatorMessage::has_make_initial_state), nullptr);
  peers.Clear();
  peers.InitialState("b");
  ASSERT_TRUE(peers.stored.genesis.has_value());
  EXPECT_EQ(peers.stored.spec->data().digest().substr(0, 4), "data");
  const auto* welcome = peers.Last("a", &v1::CoordinatorMessage::has_welcome);
  ASSERT_NE(welcome, nullptr);
  EXPECT_TRUE(welcome->welcome().has_genesis());
}

// Would break: a run whose workers all fail waits for ever, and nobody is told why.
TEST(RunGenesis, TheReasonNamesWhatKeepsTheWorkersFromStarting) {
  SimulatedPeers peers(2, 2);
  v1::PeerMessage lost;
  lost.mutable_worker_lost()->set_reason("text.txt is empty");
  for (const char* peer : {"a", "b"}) {
    peers.Join(peer);
    peers.Say(peer, lost);
    EXPECT_TRUE(
        peers.Said(std::string("peer ") + peer + ": its worker does not start: text.txt is empty"));
  }
  EXPECT_THAT(peers.reason(), HasSubstr("no worker is ready"));
  EXPECT_THAT(peers.reason(), HasSubstr("; a, b: text.txt is empty"));
  peers.Clear();
  peers.Say("a", lost);
  EXPECT_FALSE(peers.Said("does not start"));  // said once
  const v1::RunStatus status = peers.run->Status(peers.now);
  EXPECT_EQ(status.peers(0).worker_failures(), 2u);
  EXPECT_EQ(status.peers(0).why(), "its worker does not train: text.txt is empty");
  EXPECT_EQ(status.peers(1).worker_failures(), 1u);
  peers.WorkerReady("a");
  EXPECT_EQ(peers.run->Status(peers.now).peers(0).why(), "");
}

// Would break: a machine whose owner needs it counts as a broken one, and nobody sees why it idles.
TEST(RunGenesis, WhatAnOwnerHoldsBackIsNoFailureAndIsNamed) {
  SimulatedPeers peers(2, 2);
  peers.Begin({"a", "b"});
  v1::PeerMessage lost;
  lost.mutable_worker_lost()->set_reason("on battery");
  lost.mutable_worker_lost()->set_by_owner(true);
  peers.Say("a", lost);
  EXPECT_TRUE(peers.Said("peer a is held back: on battery"));
  EXPECT_FALSE(peers.Said("its worker died"));
  EXPECT_EQ(peers.run->Status(peers.now).peers(0).worker_failures(), 0u);
  EXPECT_EQ(peers.run->Status(peers.now).peers(0).why(), "held back: on battery");
  EXPECT_THAT(peers.reason(), HasSubstr("1 of 2 peers is here; waiting for one more; a: on bat"));
  lost.mutable_worker_lost()->set_reason("outside its hours until 18:00");
  peers.Say("b", lost);
  EXPECT_THAT(peers.reason(), HasSubstr("; a: on battery; b: outside its hours until 18:00"));
  // It is being started again, and then it is there.
  v1::PeerMessage starting;
  starting.mutable_worker_lost();
  peers.Say("a", starting);
  EXPECT_EQ(peers.run->Status(peers.now).peers(0).why(), "");
  peers.Clear();
  peers.WorkerReady("a");
  peers.WorkerReady("b");
  EXPECT_NE(peers.Train("a"), nullptr);
  peers.Commit({"a", "b"});
  EXPECT_EQ(peers.run->version(), 1u);
}

// Would break: a disk that takes seconds for each write holds up every round, and nobody sees
// whose.
TEST(RunMembers, ASlowDiskIsNamed) {
  SimulatedPeers peers(2, 2);
  peers.Begin({"a", "b"});
  v1::PeerMessage heartbeat;
  heartbeat.mutable_heartbeat()->mutable_progress()->set_slow_sync_seconds(4.25);
  peers.Say("b", heartbeat);
  EXPECT_EQ(peers.run->Status(peers.now).peers(0).why(), "");
  EXPECT_EQ(peers.run->Status(peers.now).peers(1).why(), "its disk is slow: an fsync took 4.2 s");
}

// Would break: parameters that a peer never trains stay as they were drawn, and only its own log
// says so.
TEST(RunMembers, TensorsThatDoNotMoveAreNamed) {
  SimulatedPeers peers(2, 2);
  peers.Begin({"a", "b"});
  v1::PeerMessage heartbeat;
  v1::PeerProgress& progress = *heartbeat.mutable_heartbeat()->mutable_progress();
  progress.set_still_tensors("1 of 3 tensors did not move in 3 rounds of training: t\n2");
  peers.Say("b", heartbeat);
  const auto why = [&](int peer) { return peers.run->Status(peers.now).peers(peer).why(); };
  EXPECT_EQ(why(0), "");
  EXPECT_EQ(why(1), "1 of 3 tensors did not move in 3 rounds of training: t 2");
  progress.set_slow_sync_seconds(4.25);
  peers.Say("b", heartbeat);
  EXPECT_EQ(why(1), "its disk is slow: an fsync took 4.2 s");
  progress.clear_slow_sync_seconds();
  progress.clear_still_tensors();
  peers.Say("b", heartbeat);
  EXPECT_EQ(why(1), "");
}

// Would break: a worker whose loss is NaN at the same step again and again seems to be well each
// time that it has started.
TEST(RunGenesis, OnlyAContributionEndsARowOfFailures) {
  SimulatedPeers peers(2, 2);
  peers.Begin({"a", "b"});
  v1::PeerMessage lost;
  lost.mutable_worker_lost()->set_reason("step 4: the loss is nan");
  const auto failures = [&] { return peers.run->Status(peers.now).peers(0).worker_failures(); };
  for (uint32_t i = 1; i <= 3; ++i) {
    peers.Say("a", lost);
    peers.WorkerReady("a");
    EXPECT_EQ(failures(), i);
  }
  peers.Commit({"a", "b"});
  EXPECT_EQ(failures(), 0u);
}

// Would break: a run of which some workers fail says only that peers are missing.
TEST(RunGenesis, ARoundThatWaitsNamesTheWorkerThatItLacks) {
  SimulatedPeers peers(2, 2);
  peers.JoinAndWork("a");
  peers.InitialState("a");
  peers.Join("b");
  v1::PeerMessage lost;
  lost.mutable_worker_lost()->set_reason("no CUDA device");
  peers.Say("b", lost);
  EXPECT_THAT(peers.reason(), HasSubstr("1 of 2 peers is here; waiting for one more; b: no CUDA"));
}

// Would break: a run that hangs because the one peer that was asked died.
TEST(RunGenesis, AnotherIsAskedWhenTheMakerDies) {
  SimulatedPeers peers(2, 1);
  peers.JoinAndWork("a");
  peers.JoinAndWork("b");
  peers.Clear();
  peers.Die("a");
  EXPECT_NE(peers.Last("b", &v1::CoordinatorMessage::has_make_initial_state), nullptr);
}

size_t TimesAsked(const SimulatedPeers& peers, const std::string& peer) {
  size_t times = 0;
  const auto inbox = peers.inbox.find(peer);
  if (inbox == peers.inbox.end()) return 0;
  for (const v1::CoordinatorMessage& message : inbox->second) {
    times += message.has_make_initial_state() ? 1 : 0;
  }
  return times;
}

// 12 x 4096 parameters of two values at 1 MB/s, twice; four failure_timeouts of 10 s; 10 s.
constexpr absl::Duration kStatePatience = absl::Milliseconds(50800);

// Would break: a worker that hangs while it makes version 0, or a peer that never says a word about
// it, keeps the run from beginning.
TEST(RunGenesis, AnotherIsAskedWhenTheMakerDoesNotMakeItInTime) {
  SimulatedPeers peers(2, 2);
  for (const char* peer : {"a", "b"}) peers.JoinAndWork(peer);
  EXPECT_EQ(peers.reason(), "peer a makes version 0");
  peers.Tick(absl::Seconds(50));
  EXPECT_EQ(TimesAsked(peers, "b"), 0u);
  peers.Tick(absl::Seconds(1));
  EXPECT_EQ(TimesAsked(peers, "b"), 1u);
  EXPECT_TRUE(
      peers.Said("peer b makes the initial state: peer a, who was asked before, has not "
                 "made it in time"));
  peers.InitialState("a");  // late: what b is making counts
  EXPECT_FALSE(peers.stored.genesis.has_value());
  peers.InitialState("b");
  EXPECT_TRUE(peers.stored.genesis.has_value());
}

// Would break: a run of one slow trainer never begins, or it is told off for being slow.
TEST(RunGenesis, WhoIsAloneIsAskedAgainAndGivenMoreTime) {
  SimulatedPeers peers(1, 1);
  peers.JoinAndWork("a");
  peers.Tick(absl::Seconds(52));
  EXPECT_EQ(TimesAsked(peers, "a"), 2u);
  peers.Tick(absl::Seconds(60));
  EXPECT_EQ(TimesAsked(peers, "a"), 2u);
  peers.InitialState("a");
  EXPECT_TRUE(peers.stored.genesis.has_value());
}

// Would break: whoever makes version 0 and gives it to nobody keeps the run from beginning.
TEST(RunGenesis, AVersionZeroThatComesToNobodyIsMadeByAnother) {
  SimulatedPeers peers(2, 2);
  for (const char* peer : {"a", "b"}) peers.JoinAndWork(peer);
  peers.InitialState("a");
  peers.Tick(absl::Seconds(20));
  EXPECT_THAT(peers.reason(), HasSubstr("b waits for version 0, which peer a alone holds"));
  peers.Clear();
  peers.Tick(kStatePatience - absl::Seconds(20));
  EXPECT_TRUE(peers.Said("version 0 reached no peer in 50.8s"));
  EXPECT_EQ(TimesAsked(peers, "b"), 1u);
  EXPECT_EQ(TimesAsked(peers, "a"), 0u);
  peers.InitialState("a");  // again, unasked
  EXPECT_EQ(peers.phase(), "initializing");
  peers.InitialState("b");
  EXPECT_EQ(peers.phase(), "waiting");
  EXPECT_EQ(peers.StateOf("a"), "joining");  // it has to fetch the one that counts
  peers.Synced("a", 0);
  for (const char* peer : {"a", "b"}) peers.Evaluate(peer);
  EXPECT_NE(peers.Train("a"), nullptr);
}

// Would break: a version 0 is replaced that several hold, or on which training has begun.
TEST(RunGenesis, AVersionZeroThatWasGivenStands) {
  SimulatedPeers peers(3, 2);
  for (const char* peer : {"a", "b", "c"}) peers.JoinAndWork(peer);
  peers.InitialState("a");
  peers.Synced("b", 0);
  peers.Clear();
  peers.Tick(absl::Minutes(10));
  for (const char* peer : {"a", "b", "c"}) EXPECT_EQ(TimesAsked(peers, peer), 0u);
  peers.Synced("c", 0);
  EXPECT_NE(peers.Train("a"), nullptr);
  for (const char* peer : {"b", "c"}) peers.Die(peer);
  peers.JoinAndWork("d");
  peers.Tick(absl::Minutes(10));
  for (const char* peer : {"a", "d"}) EXPECT_EQ(TimesAsked(peers, peer), 0u);
}

// Would break: a peer that has made version 0 as well, too late, is put out for it.
TEST(RunGenesis, WhoHoldsAnotherVersionZeroIsToldTheRunsAndFetchesIt) {
  SimulatedPeers peers(1, 1);
  peers.Begin({"a"});
  v1::Hello hello = ReturningHello(peers, "b", 0);
  hello.set_header_digest(std::string(32, 'x'));
  peers.Join("b", &hello);
  EXPECT_EQ(peers.ended.count(peers.sessions.at("b")), 0u);
  EXPECT_EQ(peers.StateOf("b"), "joining");
  const auto* welcome = peers.Last("b", &v1::CoordinatorMessage::has_welcome);
  ASSERT_NE(welcome, nullptr);
  EXPECT_TRUE(welcome->welcome().has_genesis());
}

// Would break: a maker that reconnects, or restarts its worker, is never asked again.
TEST(RunGenesis, TheMakerIsAskedAgainWhenItComesBack) {
  SimulatedPeers peers(1, 1);
  peers.JoinAndWork("a");
  peers.Break("a");
  peers.Clear();
  peers.Join("a");  // the same process: its worker is still there
  EXPECT_NE(peers.Last("a", &v1::CoordinatorMessage::has_make_initial_state), nullptr);
  v1::PeerMessage lost;
  lost.mutable_worker_lost();
  peers.Say("a", lost);
  EXPECT_EQ(peers.phase(), "waiting");
  peers.Clear();
  peers.WorkerReady("a");
  EXPECT_NE(peers.Last("a", &v1::CoordinatorMessage::has_make_initial_state), nullptr);
}

// Would break: a worker with another model or corpus joins the mean, or costs its daemon, which
// holds the replica, the membership.
TEST(RunAdmission, AWorkerThatDoesNotFitIsNamedAndTrainsNothing) {
  SimulatedPeers peers(2, 1);
  v1::PeerMessage message;
  v1::Tensor* tensor = message.mutable_worker_ready()->mutable_manifest()->add_tensors();
  tensor->set_name("w");
  tensor->add_shape(8);
  message.mutable_worker_ready()->mutable_manifest()->set_elements(8);
  message.mutable_worker_ready()->set_data_digest(std::string(32, 'd'));
  // Of c it is known before there is a version 0 that it could fit, of b after.
  peers.Join("c");
  peers.Say("c", message);
  peers.JoinAndWork("a");
  peers.Clear();
  peers.InitialState("a");
  peers.Join("b");
  peers.Say("b", message);
  peers.Synced("a", 0);
  peers.Evaluate("a");
  for (const std::string peer : {"b", "c"}) {
    EXPECT_TRUE(peers.Said("peer " + peer + " cannot train: tensor 0 is w [8]")) << peer;
    EXPECT_EQ(peers.ended.count(peers.sessions.at(peer)), 0u) << peer;
    EXPECT_NE(peers.StateOf(peer), "left");
    peers.Synced(peer, 0);
    EXPECT_EQ(peers.Train(peer), nullptr);
  }
  // Its successor, which has read the run's data.
  peers.WorkerReady("b");
  EXPECT_NE(peers.Train("b"), nullptr);
  EXPECT_EQ(peers.Train("c"), nullptr);
}

// Would break: a peer of a newer release is put out for a message that this one does not know.
TEST(RunAdmission, AnEmptyMessageIsPassedOver) {
  SimulatedPeers peers(2, 2);
  peers.Begin({"a", "b"});
  peers.Clear();
  const std::string before = peers.run->Status(peers.now).SerializeAsString();
  peers.Say("a", v1::PeerMessage());
  EXPECT_TRUE(peers.ended.empty());
  EXPECT_TRUE(peers.events.empty());
  EXPECT_TRUE(peers.inbox.empty());
  EXPECT_EQ(peers.run->Status(peers.now).SerializeAsString(), before);
}

// Would break: a replica of another history votes, donates and drifts.
TEST(RunAdmission, APeerOfAnotherHistoryIsRefused) {
  SimulatedPeers peers(1, 1);
  peers.Begin({"a"});
  peers.Commit({"a"});
  const auto code = [&](const v1::Hello& hello) {
    peers.Join("b", &hello);
    const auto it = peers.ended.find(peers.sessions.at("b"));
    return it == peers.ended.end() ? absl::StatusCode::kOk : it->second.code();
  };
  EXPECT_EQ(code(ReturningHello(peers, "b", 1)), absl::StatusCode::kOk);
  EXPECT_EQ(code(ReturningHello(peers, "b", 0)), absl::StatusCode::kOk);
  EXPECT_EQ(code(ReturningHello(peers, "b", 2)),
            absl::StatusCode::kFailedPrecondition);  // not committed
  v1::Hello other = ReturningHello(peers, "b", 1);
  other.set_header_digest(std::string(32, 'x'));
  EXPECT_EQ(code(other), absl::StatusCode::kFailedPrecondition);
}

// Would break: two processes of one id fight for ever, or a redial is refused because the old
// stream is not dead yet.
TEST(RunAdmission, ANewerSessionReplacesTheOlder) {
  SimulatedPeers peers(1, 1);
  peers.Join("a");
  const SessionId first = peers.sessions.at("a");
  peers.Join("a");
  const SessionId second = peers.sessions.at("a");
  EXPECT_EQ(peers.ended.at(first).code(), absl::StatusCode::kUnavailable);
  v1::Hello other = peers.MakeHello("a");
  other.set_pid(8);
  peers.Join("a", &other);
  EXPECT_EQ(peers.ended.at(second).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(peers.StateOf("a"), "joining");
}

// Would break: peers that do not learn of a death, or learn of it late.
TEST(RunMembers, ABrokenSessionIsProbedAndEverybodyIsTold) {
  SimulatedPeers peers(2, 1);
  peers.Begin({"a", "b"});
  peers.Clear();
  peers.Break("b");
  EXPECT_EQ(peers.probes, std::vector<std::string>{"b"});
  EXPECT_EQ(peers.StateOf("b"), "suspect");
  EXPECT_NE(peers.Last("a", &v1::CoordinatorMessage::has_roster_delta), nullptr);
  peers.Refused("b");
  EXPECT_EQ(peers.StateOf("b"), "dead");
  EXPECT_TRUE(peers.Said("peer b died"));
  EXPECT_EQ(peers.stored.members.back().state, "dead");
}

// Would break: a peer with a wrong address is taken for dead as soon as its session breaks, and
// loses its round, although it is back in a second.
TEST(RunMembers, ARefusalAtAnAddressThatLedNowhereBeforeIsNoDeath) {
  SimulatedPeers peers(2, 1);
  peers.Begin({"a", "b"});
  peers.Probed("b", ProbeResult::kRefused, "b:1");
  EXPECT_EQ(peers.StateOf("b"), "live");
  peers.Break("b");
  peers.Probed("b", ProbeResult::kRefused, "b:1");
  EXPECT_EQ(peers.StateOf("b"), "suspect");
  peers.Tick(absl::Seconds(10));
  EXPECT_EQ(peers.StateOf("b"), "dead") << "it did not come back";
}

// Would break: a peer that receives nothing is shown as live, and nobody learns why it does
// nothing.
TEST(RunMembers, WhoGreetsAndHearsNothingIsNamed) {
  SimulatedPeers peers(2, 1);
  peers.Begin({"a", "b"});
  const v1::Hello hello = peers.MakeHello("b");
  const auto why = [&] { return peers.run->Status(peers.now).peers(1).why(); };
  for (int i = 0; i < 2; ++i) {
    peers.Break("b");
    peers.Join("b", &hello);
  }
  EXPECT_EQ(why(), "");
  peers.Break("b");
  peers.Join("b", &hello);
  EXPECT_THAT(why(), HasSubstr("its Hellos arrive, and it answers nothing"));
  EXPECT_TRUE(peers.Said("peer b: its Hellos arrive"));
  v1::PeerMessage heartbeat;
  heartbeat.mutable_heartbeat();
  peers.Say("b", heartbeat);
  EXPECT_EQ(why(), "");
}

// Would break: the store and the roster grow with every peer that ever looked in.
TEST(RunMembers, TheGoneAreForgottenAfterADay) {
  SimulatedPeers peers(2, 1);
  peers.Begin({"a", "b"});
  for (const char* peer : {"a", "b"}) peers.Ready(peer);
  peers.Vote("a");
  peers.Die("b");  // all others have voted: it has contributed
  peers.Join("c");
  peers.Leave("c");
  EXPECT_EQ(peers.stored.members.size(), 3u);
  peers.Tick(absl::Hours(25));
  EXPECT_EQ(peers.stored.members.size(), 1u);
  EXPECT_EQ(peers.StateOf("b"), "");
  // It may come back, and what it has contributed still counts.
  const v1::Hello hello = ReturningHello(peers, "b", 0);
  peers.Join("b", &hello);
  EXPECT_EQ(peers.run->Status(peers.now).peers(1).rounds_contributed(), 1u);
}

// Would break: nobody knows why a peer is not there.
TEST(RunMembers, TheReasonOfEachAbsenceIsShown) {
  SimulatedPeers peers(3, 1);
  peers.Begin({"a", "b", "c"});
  const auto why = [&](int peer) { return peers.run->Status(peers.now).peers(peer).why(); };
  EXPECT_EQ(why(0), "");
  peers.Break("a");
  EXPECT_EQ(why(0), "its session broke");
  peers.Refused("a");
  EXPECT_THAT(why(0), HasSubstr("refuses connections"));
  ASSERT_TRUE(peers.Order(RunOrder::Verb::kDrain, "b", "new disk").ok());
  EXPECT_EQ(why(1), "new disk");
  v1::PeerMessage leaving;
  leaving.mutable_leaving()->set_reason("drained");
  peers.Say("b", leaving);
  EXPECT_EQ(why(1), "drained");
  ASSERT_TRUE(peers.Order(RunOrder::Verb::kEvict, "c", "it lies").ok());
  EXPECT_EQ(why(2), "it lies");
}

// Would break: `atoll run show` tells nothing, or nonsense, about the data.
TEST(RunMembers, TheDataIsCounted) {
  SimulatedPeers peers(2, 2);
  peers.Begin({"a", "b"});
  peers.Commit({"a", "b"});
  peers.Die("b");
  const v1::DataStatus data = peers.run->Status(peers.now).data();
  EXPECT_EQ(data.spent(), 20u);
  EXPECT_EQ(data.held(), 10u);
  EXPECT_EQ(data.returned(), 10u);
  EXPECT_EQ(data.next(), 40u);
  EXPECT_EQ(data.samples_a_pass(), 0u);  // these workers tell nothing of their text
}

// Would break: a restart of the coordinator throws away training that goes on.
TEST(RunRestart, PeersKeepTheirTrainingOverARestart) {
  SimulatedPeers peers(2, 2);
  peers.Begin({"a", "b"});
  const auto trained = peers.samples;
  peers.Restart();
  for (const char* peer : {"a", "b"}) {
    v1::Hello hello = ReturningHello(peers, peer, 0);
    for (const auto& range : trained.at(peer)) *hello.add_samples() = range;
    peers.Join(peer, &hello);
    peers.WorkerReady(peer);
    EXPECT_EQ(peers.Train(peer), nullptr);
  }
  peers.Commit({"a", "b"});
  EXPECT_EQ(peers.run->version(), 1u);
  EXPECT_EQ(peers.stored.headers.size(), 1u);
  EXPECT_EQ(peers.Train("a")->version(), 2u);
  EXPECT_EQ(peers.Train("a")->epoch(), 2u);
}

// Would break: the others go on without a peer that is only a second late after the coordinator's
// restart.
TEST(RunRestart, NoRoundClosesInTheGraceUnlessAllAreBack) {
  SimulatedPeers peers(3, 2);
  peers.Begin({"a", "b", "c"});
  const auto trained = peers.samples;
  peers.Restart();
  for (const char* peer : {"a", "b"}) {
    v1::Hello hello = ReturningHello(peers, peer, 0);
    for (const auto& range : trained.at(peer)) *hello.add_samples() = range;
    peers.Join(peer, &hello);
    peers.WorkerReady(peer);
    peers.Ready(peer);
  }
  peers.Tick(absl::Seconds(9));
  EXPECT_EQ(peers.Plan("a"), nullptr);
  peers.Tick(absl::Seconds(1));
  EXPECT_TRUE(peers.Said("peer c died"));
  ASSERT_NE(peers.Plan("a"), nullptr);
  EXPECT_EQ(peers.Plan("a")->contributors_size(), 2);
}

// Would break: a worker that hangs since before the coordinator's restart holds the round for ever:
// its time is not measured, nor is that of the others, who began before the restart as well.
TEST(RunRestart, ARoundUnderWayEndsWithoutAWorkerThatHangs) {
  for (const bool first : {true, false}) {
    SimulatedPeers peers(3, 2);
    peers.Begin({"a", "b", "c"});
    if (!first) {
      for (const char* peer : {"a", "b", "c"}) peers.train_seconds[peer] = 2;
      peers.Commit({"a", "b", "c"});
      peers.train_seconds.clear();
    }
    peers.Restart();
    peers.ComeBack({"a", "b", "c"});
    // Of the first round the updates tell how long they took, of a later one the store does.
    for (const char* peer : {"a", "b"}) {
      if (first) peers.train_seconds[peer] = 2;
      peers.Ready(peer);
    }
    peers.Tick(absl::Seconds(3.4));
    EXPECT_EQ(peers.Plan("a"), nullptr) << first;
    peers.Tick(absl::Seconds(0.2));
    ASSERT_NE(peers.Plan("a"), nullptr) << first;
    EXPECT_EQ(peers.Plan("a")->contributors_size(), 2) << first;
  }
}

// Would break: a commit that was durable but not announced is lost, or its samples are trained on
// again.
TEST(RunRestart, ADurableCommitIsTheVersionAfterARestart) {
  SimulatedPeers peers(2, 2);
  peers.Begin({"a", "b"});
  const auto trained = peers.samples;
  peers.Commit({"a", "b"});
  peers.Restart();
  // They never heard of the commit.
  for (const char* peer : {"a", "b"}) {
    v1::Hello hello = ReturningHello(peers, peer, 0);
    for (const auto& range : trained.at(peer)) *hello.add_samples() = range;
    peers.Join(peer, &hello);
    peers.WorkerReady(peer);
    EXPECT_EQ(peers.Last(peer, &v1::CoordinatorMessage::has_welcome)->welcome().version(), 1u);
    EXPECT_EQ(peers.Train(peer), nullptr);
  }
  peers.Synced("a", 1);
  peers.Synced("b", 1);
  ASSERT_NE(peers.Train("a"), nullptr);
  EXPECT_EQ(peers.Train("a")->version(), 2u);
  EXPECT_GE(peers.Train("a")->samples(0).first(), 20u);  // 0-19 are spent
}

std::string AddressOf(const SimulatedPeers& peers, const std::string& peer) {
  const v1::RunStatus status = peers.run->Status(peers.now);
  for (const v1::PeerStatus& one : status.peers()) {
    if (one.member().peer() == peer) return one.member().address();
  }
  return "?";
}

// Would break: two that advertise one address by mistake, or one that steals it, are both dialled
// there, and nobody is told why that fails; or who comes back finds its own address gone for good.
TEST(RunMembers, ATakenAddressIsGivenToWhoeverAnswersThere) {
  SimulatedPeers peers(2, 2);
  peers.JoinAndWork("a");
  v1::Hello hello = peers.MakeHello("z");
  hello.set_address("a:1");
  peers.Join("z", &hello);
  EXPECT_EQ(AddressOf(peers, "a"), "a:1");
  EXPECT_EQ(AddressOf(peers, "z"), "");
  EXPECT_TRUE(peers.Said("peer z advertises a:1, which is the address of peer a"));
  EXPECT_THAT(peers.probes, ::testing::ElementsAre("a", "z"));
  peers.Probed("z", ProbeResult::kRefused, "a:1");
  EXPECT_EQ(AddressOf(peers, "z"), "");
  peers.Die("a");
  EXPECT_EQ(AddressOf(peers, "z"), "a:1");
  peers.JoinAndWork("a");
  EXPECT_EQ(AddressOf(peers, "a"), "");
  peers.Probed("a", ProbeResult::kAnswered, "a:1");
  EXPECT_EQ(AddressOf(peers, "a"), "a:1");
  EXPECT_EQ(AddressOf(peers, "z"), "");
}

// Would break: one that names an address where it is not makes version 0, and nobody can fetch it.
TEST(RunMembers, VersionZeroIsMadeByOneThatAnswersWhereItSaysItIs) {
  SimulatedPeers peers(2, 2);
  const auto made_by = [&](const std::string& peer) {
    return peers.Last(peer, &v1::CoordinatorMessage::has_make_initial_state) != nullptr;
  };
  peers.Join("a");
  peers.Probed("a", ProbeResult::kRefused, "a:1");
  peers.WorkerReady("a");
  EXPECT_FALSE(made_by("a"));
  EXPECT_THAT(peers.reason(), HasSubstr("peer a does not answer at a:1"));
  peers.JoinAndWork("b");
  EXPECT_TRUE(made_by("b"));

  SimulatedPeers nobody(2, 2);  // perhaps they reach each other all the same
  for (const char* peer : {"a", "b"}) {
    nobody.Join(peer);
    nobody.Probed(peer, ProbeResult::kRefused, std::string(peer) + ":1");
    nobody.WorkerReady(peer);
  }
  EXPECT_NE(nobody.Last("a", &v1::CoordinatorMessage::has_make_initial_state), nullptr);
}

v1::Hello HelloOfLife(const SimulatedPeers& peers, const std::string& peer, uint64_t life,
                      uint64_t instance, uint64_t session) {
  v1::Hello hello = ReturningHello(peers, peer, 0);
  hello.set_life(life);
  hello.set_instance(instance);
  hello.set_pid(static_cast<uint32_t>(instance));
  hello.set_session(session);
  return hello;
}

// The peer's session stays its current one; what comes on `late` is heard of nobody.
void ExpectIgnored(SimulatedPeers* peers, const std::string& peer, const v1::Hello& hello) {
  const SessionId current = peers->sessions.at(peer);
  peers->Clear();
  peers->Join(peer, &hello);
  const SessionId late = peers->sessions.at(peer);
  EXPECT_EQ(peers->ended.count(current), 0u) << peers->ended[current];
  ASSERT_EQ(peers->ended.count(late), 1u);
  EXPECT_TRUE(absl::IsUnavailable(peers->ended[late])) << peers->ended[late];
  EXPECT_EQ(peers->Last(peer, &v1::CoordinatorMessage::has_welcome), nullptr);
  EXPECT_EQ(peers->run->OnMessage(peers->now, late, v1::PeerMessage()).events.size(), 0u);
  peers->sessions[peer] = current;
}

// Would break: what a process said before it died, late on a slow line, ends the one that lives.
TEST(RunMembers, AHelloOfAFormerLifeEndsNobody) {
  SimulatedPeers peers(2, 2, 9);
  peers.Begin({"a", "b"});
  v1::Hello living = HelloOfLife(peers, "b", 8, 80, 1);
  peers.Join("b", &living);
  peers.WorkerReady("b");
  ExpectIgnored(&peers, "b", HelloOfLife(peers, "b", 7, 70, 1));
  EXPECT_TRUE(peers.Said("peer b (pid 70, b:1) comes with life 7, and life 8 has been here"));
  const auto* told = peers.Last("b", &v1::CoordinatorMessage::has_other_life);
  ASSERT_NE(told, nullptr) << "on its own session: had it been alive, it would know now";
  EXPECT_EQ(told->other_life().life(), 8u);
  ExpectIgnored(&peers, "b", HelloOfLife(peers, "b", 8, 81, 1));
  EXPECT_EQ(peers.StateOf("b"), "live");
  EXPECT_EQ(peers.run->Status(peers.now).peers(1).offence(), "");
  // The later one takes the place, as ever; and a release that knows of no lives.
  const SessionId replaced = peers.sessions.at("b");
  const v1::Hello later = HelloOfLife(peers, "b", 9, 90, 1);
  peers.Join("b", &later);
  EXPECT_TRUE(absl::IsFailedPrecondition(peers.ended[replaced])) << peers.ended[replaced];
  EXPECT_THAT(std::string(peers.ended[replaced].message()),
              HasSubstr("another process (pid 90, b:1) has joined as b"));
  v1::Hello unnumbered = HelloOfLife(peers, "b", 0, 91, 0);
  peers.Join("b", &unnumbered);
  EXPECT_NE(peers.Last("b", &v1::CoordinatorMessage::has_welcome), nullptr);
}

// Would break: a dial that was given up, and arrives behind the next one, ends that one's session
// and brings back what the peer held then.
TEST(RunMembers, AFormerSessionOfTheSameProcessIsIgnored) {
  SimulatedPeers peers(2, 2, 9);
  peers.Begin({"a", "b"});
  v1::Hello hello = HelloOfLife(peers, "b", 8, 80, 4);
  peers.Join("b", &hello);
  for (const uint64_t session : {3u, 4u}) {
    ExpectIgnored(&peers, "b", HelloOfLife(peers, "b", 8, 80, session));
    EXPECT_TRUE(peers.Said("a later session of the same process"));
  }
  hello.set_session(5);
  const SessionId replaced = peers.sessions.at("b");
  peers.Join("b", &hello);
  EXPECT_TRUE(absl::IsUnavailable(peers.ended[replaced])) << "the process goes on";
  EXPECT_NE(peers.Last("b", &v1::CoordinatorMessage::has_welcome), nullptr);
}

// Would break: two machines with one key end each other for ever, and neither the operator nor the
// owners learn why.
TEST(RunMembers, TwoProcessesWithOneKeyAreNamedAtTheSecondTurn) {
  SimulatedPeers peers(2, 2, 9);
  peers.Begin({"a", "b"});
  uint64_t life = 6;
  uint64_t instance = 60;
  const v1::Hello first = HelloOfLife(peers, "b", life, instance, 1);
  peers.Join("b", &first);
  for (int turn = 1; turn <= 2; ++turn) {
    // A copy of the folder has counted as far; it is alive, so it comes with more.
    peers.Clear();
    const v1::Hello equal = HelloOfLife(peers, "b", life, ++instance, 1);
    peers.Join("b", &equal);
    const auto* told = peers.Last("b", &v1::CoordinatorMessage::has_other_life);
    ASSERT_NE(told, nullptr);
    EXPECT_EQ(told->other_life().life(), life);
    EXPECT_THAT(told->other_life().reason(), HasSubstr("give each machine a token of its own"));
    EXPECT_FALSE(peers.Said("copied or put back")) << "it may be a dead one's";
    const v1::Hello raised = HelloOfLife(peers, "b", ++life, instance, 2);
    peers.Join("b", &raised);
    EXPECT_EQ(peers.Said("has a folder that was copied or put back from a backup"), turn == 1);
    EXPECT_EQ(peers.Said("its key is used by two processes in turn (pid 62, b:1 and pid 61, b:1)"),
              turn == 2);
  }
  EXPECT_THAT(peers.run->Status(peers.now).peers(1).offence(),
              HasSubstr("its key is used by two processes in turn"));
}

// Would break: one machine whose worker fails at every start keeps all others from the first round
// for ever.
TEST(RunMembers, OneWhoseWorkerNeverTrainsIsSetAsideForTheFirstRound) {
  SimulatedPeers peers(3, 2);
  v1::PeerMessage lost;
  lost.mutable_worker_lost()->set_reason("text.txt is empty");
  for (const char* peer : {"a", "b", "c"}) peers.Join(peer);
  for (const char* peer : {"a", "b"}) peers.WorkerReady(peer);
  peers.Say("c", lost);
  peers.InitialState("a");
  for (const char* peer : {"a", "b", "c"}) peers.Synced(peer, 0);
  EXPECT_EQ(peers.reason(), "2 of 3 peers are here; waiting for one more; c: text.txt is empty");
  for (int second = 1; second < 50; ++second) {  // 4 x failure_timeout + 10 s
    peers.Tick(absl::Seconds(1));
    if (second % 7 == 0) peers.Say("c", lost);  // it fails again and again
  }
  EXPECT_EQ(peers.Train("a"), nullptr);
  peers.Tick(absl::Seconds(1));
  EXPECT_TRUE(
      peers.Said("the first round does not wait for peer c any more, whose worker has not "
                 "trained for 50s: text.txt is empty; it comes in when it can"));
  EXPECT_NE(peers.Train("a"), nullptr);
  EXPECT_EQ(peers.Train("c"), nullptr);
  for (const char* peer : {"a", "b"}) peers.Ready(peer);
  for (const char* peer : {"a", "b"}) peers.Vote(peer);
  EXPECT_EQ(peers.run->version(), 1u);
  peers.Synced("c", 1);
  peers.WorkerReady("c");  // somebody has mended it
  EXPECT_NE(peers.Train("c"), nullptr);
}

// Would break: a machine that its owner keeps away from the run holds the others up, or one that
// has left for good counts as one that comes back.
TEST(RunMembers, WhoIsAwayByItsOwnersWillIsSetAsideAndWhoHasLeftIsNot) {
  for (const bool by_owner : {true, false}) {
    SimulatedPeers peers(3, 2);
    for (const char* peer : {"a", "b", "c"}) peers.Join(peer);
    for (const char* peer : {"a", "b"}) peers.WorkerReady(peer);
    v1::PeerMessage lost;
    lost.mutable_worker_lost()->set_reason("away by its trace until 18:00:00");
    lost.mutable_worker_lost()->set_by_owner(by_owner);
    peers.Say("c", lost);
    peers.Leave("c");
    peers.InitialState("a");
    for (const char* peer : {"a", "b"}) peers.Synced(peer, 0);
    EXPECT_THAT(peers.reason(), HasSubstr("2 of 3 peers are here"));
    EXPECT_EQ(peers.reason().find("until 18:00") != std::string::npos, by_owner);
    for (int second = 0; second < 60; ++second) peers.Tick(absl::Seconds(1));
    // Those that are here begin all the same; but nobody who has left is named as one to come.
    EXPECT_NE(peers.Train("a"), nullptr) << peers.reason();
    EXPECT_TRUE(peers.Said("does not wait any more for peers that have not come: 2 of 3 are here"));
    EXPECT_FALSE(peers.Said("does not wait for peer c any more"));
  }
}

// Would break: version 0 waits for one that will never train.
TEST(RunGenesis, VersionZeroIsNotLeftForOneThatIsSetAside) {
  SimulatedPeers peers(2, 1);
  for (const char* peer : {"a", "b"}) peers.Join(peer);
  peers.Probed("a", ProbeResult::kRefused, "a:1");
  v1::PeerMessage lost;
  lost.mutable_worker_lost()->set_reason("text.txt is empty");
  peers.Say("b", lost);
  peers.WorkerReady("a");
  EXPECT_EQ(peers.Last("a", &v1::CoordinatorMessage::has_make_initial_state), nullptr);
  EXPECT_THAT(peers.reason(), HasSubstr("does not answer at a:1"));
  for (int second = 0; second <= 50; ++second) peers.Tick(absl::Seconds(1));
  EXPECT_NE(peers.Last("a", &v1::CoordinatorMessage::has_make_initial_state), nullptr);
}

}  // namespace
}  // namespace atolld

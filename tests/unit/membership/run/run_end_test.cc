// Evaluations and the seal.
#include <cmath>
#include <limits>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

// Would break: a run without its loss curve, or one that counts a share twice.
TEST(RunEvaluation, VersionZeroIsEvaluatedInSharesBeforeTheFirstTrain) {
  SimulatedPeers peers(2, 2);
  for (const char* peer : {"a", "b"}) peers.JoinAndWork(peer);
  peers.InitialState("a");
  peers.Synced("b", 0);
  EXPECT_EQ(peers.phase(), "evaluating");
  std::string order;
  for (const auto& message : peers.inbox["a"]) {
    if (message.has_evaluate()) order += "evaluate ";
    if (message.has_train()) order += "train ";
  }
  EXPECT_EQ(order, "evaluate train ");
  peers.Evaluate("a");
  EXPECT_TRUE(peers.stored.evaluations.empty());
  peers.Evaluate("a");
  EXPECT_TRUE(peers.stored.evaluations.empty());
  peers.Evaluate("b");
  ASSERT_EQ(peers.stored.evaluations.size(), 1u);
  EXPECT_EQ(peers.stored.evaluations[0].loss(), 3.0);
  EXPECT_EQ(peers.stored.evaluations[0].tokens(), 20u);
  EXPECT_EQ(peers.phase(), "training");
}

// Would break: a death leaves a version without its loss.
TEST(RunEvaluation, AShareWhosePeerDiedIsAskedOfAnother) {
  SimulatedPeers peers(2, 1);
  for (const char* peer : {"a", "b"}) peers.JoinAndWork(peer);
  peers.InitialState("a");
  peers.Synced("b", 0);
  peers.Evaluate("a");
  peers.inbox["a"].clear();
  peers.Die("b");
  const auto* asked = peers.Last("a", &v1::CoordinatorMessage::has_evaluate);
  ASSERT_NE(asked, nullptr);
  EXPECT_EQ(asked->evaluate().share(), 1u);
  peers.Evaluate("a");
  EXPECT_EQ(peers.stored.evaluations.size(), 1u);
}

void SayLoss(SimulatedPeers* peers, const std::string& peer, uint32_t share, double loss) {
  v1::PeerMessage message;
  message.mutable_evaluated()->set_version(0);
  message.mutable_evaluated()->set_share(share);
  message.mutable_evaluated()->set_shares(2);
  message.mutable_evaluated()->set_loss_sum(loss);
  message.mutable_evaluated()->set_tokens(10);
  peers->Say(peer, message);
}

// Would break: a run without held-out data has a loss of 0 in its tables, and [stop_when] ends it.
TEST(RunEvaluation, NothingHeldOutIsNoLoss) {
  SimulatedPeers peers(2, 2, /*rounds=*/2, /*every_rounds=*/1);
  peers.settings.stop_when.loss_below = 1;
  peers.Restart();
  peers.held_out = 0;
  peers.Begin({"a", "b"});
  EXPECT_TRUE(peers.stored.evaluations.empty());
  EXPECT_TRUE(
      peers.Said("version 0: nobody has held data out, so it has no validation loss, which "
                 "[stop_when] waits for"));
  peers.Clear();
  for (int round = 0; round < 2; ++round) {
    peers.Commit({"a", "b"});
    for (const char* peer : {"a", "b"}) peers.Evaluate(peer);
  }
  EXPECT_FALSE(peers.Said("nobody has held data out")) << "it is said once";
  EXPECT_FALSE(peers.stored.control.stopping());
  EXPECT_TRUE(peers.stored.evaluations.empty());
  for (const char* peer : {"a", "b"}) peers.Report(peer);
  EXPECT_TRUE(peers.stored.seal.has_value()) << "nobody waits for a loss that will not come";
}

// Would break: any peer answers for the others, and says what the run's loss is.
TEST(RunEvaluation, OnlyWhoWasAskedForAShareAnswersForIt) {
  SimulatedPeers peers(2, 2);
  for (const char* peer : {"a", "b"}) peers.JoinAndWork(peer);
  peers.InitialState("a");
  peers.Synced("b", 0);
  SayLoss(&peers, "b", 0, 7000);  // a's
  SayLoss(&peers, "b", 1, 30);
  EXPECT_TRUE(peers.stored.evaluations.empty());
  peers.Evaluate("a");
  ASSERT_EQ(peers.stored.evaluations.size(), 1u);
  EXPECT_EQ(peers.stored.evaluations[0].loss(), 3.0);
}

// Would break: one NaN of one peer spoils the run's loss; or a run that has diverged hides it, and
// waits for ever for a loss.
TEST(RunEvaluation, ALossThatIsNotFiniteCountsWhereNobodyFindsAnother) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  SimulatedPeers peers(2, 2);
  for (const char* peer : {"a", "b"}) peers.JoinAndWork(peer);
  peers.InitialState("a");
  peers.Synced("b", 0);
  SayLoss(&peers, "a", 0, nan);
  SayLoss(&peers, "b", 1, 30);
  EXPECT_TRUE(peers.stored.evaluations.empty());
  const auto* asked = peers.Last("b", &v1::CoordinatorMessage::has_evaluate);
  ASSERT_NE(asked, nullptr);
  EXPECT_EQ(asked->evaluate().share(), 0u);
  SayLoss(&peers, "b", 0, nan);
  ASSERT_EQ(peers.stored.evaluations.size(), 1u);
  EXPECT_TRUE(std::isnan(peers.stored.evaluations[0].loss()));
}

// It comes back and finds a loss for both shares, which counts.
void ExpectLossOnceBack(SimulatedPeers* peers, const std::string& peer) {
  peers->JoinAndWork(peer);
  peers->Synced(peer, 0);
  SayLoss(peers, peer, 0, 30);
  SayLoss(peers, peer, 1, 30);
  ASSERT_EQ(peers->stored.evaluations.size(), 1u);
  EXPECT_EQ(peers->stored.evaluations[0].loss(), 3);
}

// Would break: whoever happens to be alone for a moment says that there is no loss.
TEST(RunEvaluation, OneAloneIsNotBelievedWhileAnotherMayFindALoss) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  SimulatedPeers peers(2, 2);
  for (const char* peer : {"a", "b"}) peers.JoinAndWork(peer);
  peers.InitialState("a");
  peers.Synced("b", 0);
  peers.Break("b");
  SayLoss(&peers, "a", 0, nan);
  ExpectLossOnceBack(&peers, "b");
}

// Would break: all others die at once, and the one that is left says that the run has diverged. A
// quorum of one believes it, since nobody else may come.
TEST(RunEvaluation, OneAloneIsNotBelievedWhileTheDeadMayComeBack) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const uint32_t quorum : {1u, 2u}) {
    SimulatedPeers peers(2, quorum);
    for (const char* peer : {"a", "b"}) peers.JoinAndWork(peer);
    peers.InitialState("a");
    peers.Synced("b", 0);
    peers.Die("b");
    EXPECT_EQ(peers.StateOf("b"), "dead");
    SayLoss(&peers, "a", 0, nan);
    peers.Tick();
    SayLoss(&peers, "a", 1, nan);
    ASSERT_EQ(peers.stored.evaluations.size(), quorum == 1 ? 1u : 0u);
    if (quorum == 1) continue;
    ExpectLossOnceBack(&peers, "b");
  }
}

// A run of one round whose last version a and b are to evaluate; ten seconds of failure_timeout,
// and no time taken by anything so far: forty seconds of patience.
struct LastEvaluation {
  LastEvaluation() : peers(2, 1, 1) {
    peers.Begin({"a", "b"});
    peers.Clear();
    peers.Commit({"a", "b"});
  }
  const v1::Evaluate* Asked(const std::string& peer) const {
    const auto* message = peers.Last(peer, &v1::CoordinatorMessage::has_evaluate);
    return message == nullptr ? nullptr : &message->evaluate();
  }
  SimulatedPeers peers;
};

// Would break: a worker that hangs under a daemon that lives holds the end of the run for ever.
TEST(RunEvaluation, AShareThatIsOverdueIsAskedOfAnother) {
  LastEvaluation end;
  SimulatedPeers& peers = end.peers;
  ASSERT_EQ(end.Asked("b")->version(), 1u);
  peers.Evaluate("a");
  EXPECT_EQ(peers.phase(), "evaluating");
  EXPECT_THAT(peers.reason(), testing::HasSubstr("waiting for b to evaluate the last version"));
  peers.inbox["a"].clear();
  peers.Tick(absl::Seconds(39));
  EXPECT_EQ(end.Asked("a"), nullptr);
  peers.Tick(absl::Seconds(1));
  ASSERT_NE(end.Asked("a"), nullptr);
  EXPECT_EQ(end.Asked("a")->share(), end.Asked("b")->share());
  EXPECT_TRUE(peers.Said("version 1: peer b was to evaluate a share of it"));
  peers.Evaluate("a");
  EXPECT_EQ(peers.stored.evaluations.size(), 2u);
}

// Would break: what a slow peer has found is thrown away, and perhaps nobody else finds it.
TEST(RunEvaluation, ALateAnswerCounts) {
  LastEvaluation end;
  SimulatedPeers& peers = end.peers;
  peers.Evaluate("a");
  peers.Tick(absl::Seconds(40));
  peers.Evaluate("b");
  EXPECT_EQ(peers.stored.evaluations.size(), 2u);
}

// Would break: a share that takes long is taken from a peer that comes on with it; or one that says
// so for ever holds the run.
TEST(RunEvaluation, WhoShowsSignsOfLifeIsWaitedForButNotForEver) {
  LastEvaluation end;
  SimulatedPeers& peers = end.peers;
  peers.Evaluate("a");
  peers.inbox["a"].clear();
  v1::PeerMessage heartbeat;
  v1::PeerProgress* const progress = heartbeat.mutable_heartbeat()->mutable_progress();
  const auto live = [&](int seconds) {
    for (int i = 0; i < seconds; i += 10) {
      peers.Tick(absl::Seconds(10));
      progress->set_evaluated(progress->evaluated() + 1);
      peers.Say("b", heartbeat);
    }
  };
  live(Evaluation::kMostPatience * 40 - 20);
  EXPECT_EQ(end.Asked("a"), nullptr);
  live(20);
  EXPECT_NE(end.Asked("a"), nullptr);
}

// Would break: a run whose trainers all hang at the end is never sealed.
TEST(RunEvaluation, WhereNobodyEvaluatesTheRunIsSealedWithoutTheLoss) {
  LastEvaluation end;
  SimulatedPeers& peers = end.peers;
  peers.Tick(absl::Seconds(39));
  EXPECT_EQ(peers.phase(), "evaluating");
  peers.Tick(absl::Seconds(1));
  EXPECT_EQ(peers.phase(), "sealing");
  EXPECT_TRUE(
      peers.Said("version 1: nobody evaluates it (a, b let the time for it pass); the run "
                 "is sealed without its loss"));
  for (const char* peer : {"a", "b"}) peers.Report(peer);
  EXPECT_TRUE(peers.stored.seal.has_value());
  EXPECT_EQ(peers.stored.evaluations.size(), 1u);
}

// Would break: a worker that ends at each evaluation, started again each time, is asked for ever;
// or one that somebody has killed costs the run its loss.
TEST(RunEvaluation, AWorkerThatEndsOverAShareAgainAndAgainIsNotAskedAgain) {
  LastEvaluation end;
  SimulatedPeers& peers = end.peers;
  v1::PeerMessage lost;
  lost.mutable_worker_lost()->set_reason("out of memory");
  for (int times = 0; times < 2; ++times) {
    for (const char* peer : {"a", "b"}) peers.Say(peer, lost);
    for (const char* peer : {"a", "b"}) peers.inbox[peer].clear();
    for (const char* peer : {"a", "b"}) peers.WorkerReady(peer);
    EXPECT_EQ(end.Asked("a") != nullptr || end.Asked("b") != nullptr, times < 1) << times;
  }
  peers.Tick(absl::Seconds(40));
  for (const char* peer : {"a", "b"}) peers.Report(peer);
  EXPECT_TRUE(peers.stored.seal.has_value());
}

// Would break: a coordinator that finds nobody for a while gives the loss up.
TEST(RunEvaluation, WhileNobodyIsHereTheLossIsNotGivenUp) {
  LastEvaluation end;
  SimulatedPeers& peers = end.peers;
  for (const char* peer : {"a", "b"}) peers.Die(peer);
  peers.Tick(absl::Minutes(20));
  EXPECT_THAT(peers.reason(), testing::HasSubstr("no peer is here to evaluate the last version"));
  peers.ComeBack({"a", "b"});
  for (const char* peer : {"a", "b"}) peers.Evaluate(peer);
  EXPECT_EQ(peers.stored.evaluations.size(), 2u);
}

// Would break: evaluations at the wrong versions.
TEST(RunEvaluation, IsDueAtTheStartEverySoManyRoundsAndAtTheEnd) {
  v1::RunSpec spec;
  spec.set_rounds(7);
  spec.mutable_evaluation()->set_every_rounds(3);
  std::string due;
  for (uint64_t version = 0; version <= 7; ++version)
    due += EvaluationDue(spec, version, 7) ? '1' : '0';
  EXPECT_EQ(due, "10010011");
  spec.mutable_evaluation()->set_every_rounds(0);
  due.clear();
  for (uint64_t version = 0; version <= 7; ++version)
    due += EvaluationDue(spec, version, 7) ? '1' : '0';
  EXPECT_EQ(due, "10000001");
}

// Would break: the end of every run.
TEST(RunSeal, WaitsForTheLossAndEveryDigestThenSeals) {
  SimulatedPeers peers(3, 2, 1);
  peers.Begin({"a", "b", "c"});
  peers.Clear();
  peers.Commit({"a", "b", "c"});
  EXPECT_EQ(peers.phase(), "evaluating");
  EXPECT_EQ(peers.Train("a"), nullptr);  // there is no round after the last
  for (const char* peer : {"a", "b", "c"}) peers.Report(peer);
  EXPECT_FALSE(peers.stored.seal.has_value());
  for (const char* peer : {"a", "b", "c"}) peers.Evaluate(peer);
  ASSERT_TRUE(peers.stored.seal.has_value());
  EXPECT_EQ(peers.stored.seal->version(), 1u);
  EXPECT_EQ(peers.stored.seal->state_digest(), std::string(32, 'z'));
  EXPECT_EQ(peers.stored.seal->header_digest().substr(0, 8), "header 1");
  EXPECT_EQ(peers.phase(), "sealed");
  EXPECT_NE(peers.Last("b", &v1::CoordinatorMessage::has_sealed), nullptr);
  EXPECT_FALSE(peers.finished);
  for (const char* peer : {"a", "b"}) peers.Leave(peer);
  EXPECT_FALSE(peers.finished);
  peers.Break("c");
  EXPECT_EQ(peers.StateOf("c"), "left");
  EXPECT_TRUE(peers.finished);
}

// Would break: one hung peer keeps a finished run open, or fewer than the quorum vouch for its
// state.
TEST(RunSeal, ASilentPeerIsLeftOutAfterTheFailureTimeoutButAQuorumMustReport) {
  SimulatedPeers peers(3, 2, 1);
  peers.Begin({"a", "b", "c"});
  peers.Clear();
  peers.Commit({"a", "b", "c"});
  for (const char* peer : {"a", "b", "c"}) peers.Evaluate(peer);
  EXPECT_EQ(peers.phase(), "sealing");
  peers.Tick(absl::Seconds(30));
  EXPECT_FALSE(peers.stored.seal.has_value());
  peers.Report("b");
  EXPECT_FALSE(peers.stored.seal.has_value());
  EXPECT_THAT(peers.reason(), ::testing::HasSubstr("from a, c"));
  peers.Report("c");
  EXPECT_TRUE(peers.stored.seal.has_value());
}

// Would break: an operator stops a run that its peers have left, and it is never sealed.
TEST(RunSeal, WhoLeftBeforeItSaidWhatItHoldsIsNotWaitedFor) {
  SimulatedPeers peers(3, 3, 1);
  peers.Begin({"a", "b", "c"});
  peers.Clear();
  peers.Commit({"a", "b", "c"});
  for (const char* peer : {"a", "b", "c"}) peers.Evaluate(peer);
  peers.Leave("a");
  EXPECT_FALSE(peers.stored.seal.has_value());
  peers.Report("b", 'y');
  peers.Report("c");
  peers.Tick(absl::Seconds(30));
  EXPECT_FALSE(peers.stored.seal.has_value());  // one of two is wrong, and nobody knows which
  peers.Report("b");
  EXPECT_TRUE(peers.stored.seal.has_value());
}

// Would break: whoever joins last, and as often as it likes, says what the run has come to.
TEST(RunSeal, WhoHadNoPartInTheLastVersionDoesNotSayWhatIsSealed) {
  SimulatedPeers peers(2, 2, 1);
  peers.Begin({"a", "b"});
  peers.Clear();
  peers.Commit({"a", "b"});
  for (const char* peer : {"a", "b"}) peers.Evaluate(peer);
  for (const char* peer : {"x", "y", "z"}) {
    const v1::Hello hello = peers.Returning(peer, &peers.stored.headers.back());
    peers.Join(peer, &hello);
    peers.Report(peer, 'x');
  }
  peers.Report("a");
  peers.Tick(absl::Seconds(30));
  EXPECT_FALSE(peers.stored.seal.has_value());
  peers.Report("b");
  ASSERT_TRUE(peers.stored.seal.has_value());
  EXPECT_EQ(peers.stored.seal->state_digest(), std::string(32, 'z'));
}

// Would break: of two that hold different states the one with the smaller digest is believed.
TEST(RunSeal, ATieSealsNothingAndBothLookAgain) {
  SimulatedPeers peers(2, 2, 1);
  peers.Begin({"a", "b"});
  peers.Clear();
  peers.Commit({"a", "b"});
  for (const char* peer : {"a", "b"}) peers.Evaluate(peer);
  peers.Report("a", 'y');
  peers.Report("b");
  EXPECT_FALSE(peers.stored.seal.has_value());
  EXPECT_THAT(peers.reason(), ::testing::HasSubstr("hold different states"));
  for (const char* peer : {"a", "b"}) {
    const auto* asked = peers.Last(peer, &v1::CoordinatorMessage::has_check_state);
    ASSERT_NE(asked, nullptr) << peer;
    EXPECT_EQ(asked->check_state().version(), 1u);
  }
  peers.Report("a");  // its memory was at fault
  EXPECT_TRUE(peers.stored.seal.has_value());
}

// Would break: a drifted replica goes unnoticed, or its state is sealed.
TEST(RunSeal, TheMajoritysDigestWinsAndTheOddOneIsNamed) {
  SimulatedPeers peers(3, 2, 1);
  peers.Begin({"a", "b", "c"});
  peers.Clear();
  peers.Commit({"a", "b", "c"});
  for (const char* peer : {"a", "b", "c"}) peers.Evaluate(peer);
  peers.Report("a", 'y');
  peers.Report("b");
  peers.Report("c");
  ASSERT_TRUE(peers.stored.seal.has_value());
  EXPECT_EQ(peers.stored.seal->state_digest(), std::string(32, 'z'));
  EXPECT_TRUE(peers.Said("a hold another state than b, c"));
}

std::string AwaitedAt(const SimulatedPeers& peers, const std::string& peer) {
  const auto told = peers.rosters.find(peer);
  return told == peers.rosters.end() ? "" : absl::StrJoin(told->second.awaited(), ",");
}

// A sealed run of version 1, which c has missed.
struct SealedWithoutC {
  SealedWithoutC() : peers(3, 2, 1) {
    peers.Begin({"a", "b", "c"});
    peers.Die("c");
    peers.Clear();
    peers.Commit({"a", "b"});
    const v1::Hello hello = peers.Returning("c", nullptr);
    peers.Join("c", &hello);
    for (const char* peer : {"a", "b"}) {
      peers.Report(peer);
      peers.Evaluate(peer);
    }
    peers.Tick(absl::Seconds(20));  // for c's digest
  }
  SimulatedPeers peers;
};

// Would break: the last entry's holders leave while a living peer still lacks it, or stay when none
// does.
TEST(RunSeal, WhoLacksTheLastStateIsNamedWhileItLives) {
  SealedWithoutC run;
  ASSERT_TRUE(run.peers.stored.seal.has_value());
  EXPECT_EQ(AwaitedAt(run.peers, "a"), "c");
  EXPECT_THAT(run.peers.reason(), ::testing::HasSubstr("c does not hold version 1 yet"));
  run.peers.Tick(absl::Seconds(30));
  EXPECT_EQ(AwaitedAt(run.peers, "b"), "c");
  EXPECT_FALSE(run.peers.finished);
  run.peers.Synced("c", 1);
  EXPECT_EQ(AwaitedAt(run.peers, "a"), "");
  EXPECT_EQ(run.peers.reason(), "");
  EXPECT_TRUE(run.peers.finished);  // all have had the time to leave
}

// Would break: a peer that lives and never comes to the last state, as a hung or a lying one, keeps
// all others of a finished run for ever; or it does by coming back again and again.
TEST(RunSeal, WhoNeverComesToTheLastStateIsNotWaitedForForEver) {
  SealedWithoutC run;
  ASSERT_EQ(AwaitedAt(run.peers, "a"), "c");
  for (int i = 0; i < 6; ++i) {
    run.peers.Tick(absl::Seconds(10));
    const v1::Hello hello = run.peers.Returning("c", nullptr);
    run.peers.Join("c", &hello);
  }
  EXPECT_TRUE(run.peers.Said("peer c has not come to version 1 in 50.8s"));
  EXPECT_EQ(AwaitedAt(run.peers, "a"), "");
  EXPECT_TRUE(run.peers.finished);
}

// Would break: a peer that dies without the last entry is waited for, or is taken for one that has
// left with it.
TEST(RunSeal, NobodyWaitsForTheDead) {
  SealedWithoutC run;
  run.peers.Break("c");
  EXPECT_EQ(run.peers.StateOf("c"), "suspect");
  EXPECT_EQ(AwaitedAt(run.peers, "a"), "c");
  run.peers.Refused("c");
  EXPECT_EQ(run.peers.StateOf("c"), "dead");
  EXPECT_EQ(AwaitedAt(run.peers, "a"), "");
}

// Would break: a drifted replica finds nobody to be repaired from.
TEST(RunSeal, WhoHoldsAnotherStateIsWaitedFor) {
  SealedWithoutC run;
  run.peers.Synced("c", 1);
  run.peers.Report("c", 'y');
  EXPECT_EQ(AwaitedAt(run.peers, "a"), "c");
  run.peers.Report("c");
  EXPECT_EQ(AwaitedAt(run.peers, "a"), "");
}

// Would break: who was outvoted by the deadline would be taken for a holder of the entry.
TEST(RunSeal, OnlyWhoHasVotedIsKnownToHoldTheEntry) {
  SimulatedPeers peers(3, 2, 1);
  peers.Begin({"a", "b", "c"});
  peers.Clear();
  for (const char* peer : {"a", "b", "c"}) peers.Ready(peer);
  for (const char* peer : {"a", "b"}) peers.Vote(peer);
  peers.Tick(absl::Minutes(2));
  ASSERT_EQ(peers.stored.headers.size(), 1u);
  ASSERT_EQ(peers.stored.headers[0].contributors_size(), 3);
  const v1::RunStatus status = peers.run->Status(peers.now);
  EXPECT_EQ(status.peers(0).member().version(), 1u);
  EXPECT_EQ(status.peers(2).member().version(), 0u);
}

// Would break: a restart between the last commit and the seal leaves the run open for ever.
TEST(RunSeal, ARestartBeforeTheSealSealsStill) {
  SimulatedPeers peers(1, 1, 1);
  peers.Begin({"a"});
  peers.Commit({"a"});
  peers.Restart();
  v1::Hello hello = peers.MakeHello("a");
  hello.set_run_id("r1");
  hello.set_has_state(true);
  hello.set_version(1);
  hello.set_header_digest(
      peers.stored.headers.empty() ? "" : peers.settings.header_digest(peers.stored.headers[0]));
  peers.Join("a", &hello);
  peers.WorkerReady("a");
  peers.Report("a");
  peers.Evaluate("a");
  EXPECT_TRUE(peers.stored.seal.has_value());
  // And one after it tells whoever asks.
  peers.Restart();
  peers.Join("a", &hello);
  EXPECT_TRUE(peers.Last("a", &v1::CoordinatorMessage::has_welcome)->welcome().has_seal());
  peers.Leave("a");
  EXPECT_TRUE(peers.finished);
}

}  // namespace
}  // namespace atolld

// Whole runs whose workers die, are slow, or hand over something that is not an update.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/sealed.h"
#include "tests/sim/sim_cluster.h"

namespace atolld {
namespace {

// If this failed, a worker's death would cost its daemon the membership or the round.
TEST(SimWorkerTest, WorkerKilledKeepsItsDaemonInTheRound) {
  SimCluster cluster(3, {});
  ASSERT_TRUE(cluster.RunToVersion(2));
  cluster.world().RunFor(absl::Milliseconds(200));
  cluster.KillWorker("p1", absl::Milliseconds(300));
  ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 3, 10);
}

// If this failed, one slow peer would delay all others for ever, or its work would be lost.
TEST(SimWorkerTest, StragglerIsLeftOutAndContributesLater) {
  SimClusterSettings settings;
  settings.rounds = 14;
  SimCluster cluster(4, settings);
  ASSERT_TRUE(cluster.RunToVersion(3)) << cluster.world().LogText();
  // p3's link is cut for longer than a round, but for less than the time-out that would make it
  // dead.
  cluster.world().CutLink("p3", "coordinator");
  cluster.world().RunFor(absl::Milliseconds(1500));
  cluster.world().HealLink("p3", "coordinator");
  ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 3, 14);
}

// If this failed, a peer that is slower than the others allow would be left out once and never
// contribute again, and every later round would wait for it without end.
TEST(SimWorkerTest, SlowPeerContributesNowAndThen) {
  for (const bool error_feedback : {false, true}) {
    SimClusterSettings settings;
    settings.rounds = 16;
    settings.error_feedback = error_feedback;
    settings.steps["p3"] = absl::Milliseconds(250);
    SimCluster cluster(6, settings);
    ASSERT_TRUE(cluster.RunToSeal(absl::Minutes(2))) << cluster.world().LogText();
    ExpectSealedEqual(cluster, 3, 16);
    int with = 0;
    int without = 0;
    for (const v1::EntryHeader& header : cluster.stored().headers) {
      bool there = false;
      for (const v1::Contributor& one : header.contributors()) there |= one.peer() == "p3";
      ++(there ? with : without);
    }
    EXPECT_GE(with, 3) << "error feedback " << error_feedback;
    EXPECT_GE(without, 3) << "error feedback " << error_feedback;
  }
}

using Stage = SimWorker::Stage;

std::set<uint64_t> EvaluatedVersions(const SimCluster& cluster) {
  std::set<uint64_t> versions;
  for (const v1::EvaluationRecord& one : cluster.stored().evaluations)
    versions.insert(one.version());
  return versions;
}

// If this failed, a worker that hangs while its daemon is alive would stop a run that needs it.
TEST(SimWorkerTest, AWorkerThatHangsIsEndedAndAnotherTrains) {
  SimClusterSettings settings;
  settings.quorum = 3;
  SimCluster cluster(11, settings);
  ASSERT_TRUE(cluster.RunToVersion(2));
  cluster.HangWorker("p2", Stage::kTraining, false);
  // Eight times the longest silence, a round's half second, and twelve failure_timeouts.
  ASSERT_TRUE(cluster.RunToSeal(absl::Seconds(60))) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 3, 10);
  EXPECT_GE(cluster.world().LogCount("no sign of life for 28s while it trains version "), 1u)
      << cluster.world().LogText();
}

// If this failed, a worker that has hung since before the coordinator's restart would delay the
// round until it is ended itself, or for ever.
TEST(SimWorkerTest, ARoundAfterARestartDoesNotWaitForAWorkerThatHangs) {
  SimCluster cluster(12, {});
  ASSERT_TRUE(cluster.RunToVersion(3));
  cluster.HangWorker("p2", Stage::kTraining, false);
  SimWorld& world = cluster.world();
  ASSERT_TRUE(world.RunUntil([&] { return cluster.WorkerHangs("p2"); }, absl::Seconds(10)));
  const uint64_t before = cluster.version();
  world.Kill("coordinator");
  world.RunFor(absl::Milliseconds(200));
  world.Restart("coordinator");
  // Dialled again in some tenths of a second; then a second and a quarter of half a second.
  ASSERT_TRUE(cluster.RunToVersion(before + 1, absl::Seconds(6))) << world.LogText();
  EXPECT_TRUE(cluster.WorkerHangs("p2"));
  ASSERT_TRUE(cluster.RunToSeal(absl::Minutes(2))) << world.LogText();
  ExpectSealedEqual(cluster, 3, 10);
}

// If this failed, one worker that hangs in its share of the last evaluation would delay the end of
// the run, although others can do that share.
TEST(SimWorkerTest, TheLastEvaluationDoesNotWaitForAWorkerThatHangs) {
  SimCluster cluster(13, {});
  ASSERT_TRUE(cluster.RunToVersion(9));
  cluster.HangWorker("p2", Stage::kEvaluation, true);
  ASSERT_TRUE(cluster.RunToSeal(absl::Seconds(30))) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 3, 10);
  EXPECT_EQ(EvaluatedVersions(cluster).count(10), 1u);
}

// If this failed, a run whose workers all hang in the evaluation of its last version would never
// end.
TEST(SimWorkerTest, WhereAllHangOverTheLastEvaluationTheRunIsSealedWithoutIt) {
  SimCluster cluster(14, {});
  ASSERT_TRUE(cluster.RunToVersion(9));
  for (const char* peer : {"p1", "p2", "p3"}) cluster.HangWorker(peer, Stage::kEvaluation, true);
  ASSERT_TRUE(cluster.RunToSeal(absl::Minutes(1))) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 3, 10);
  EXPECT_EQ(EvaluatedVersions(cluster), (std::set<uint64_t>{0, 3, 6, 9}));
  EXPECT_EQ(cluster.world().LogCount("the run is sealed without its loss"), 1u);
}

// If this failed, a worker that does not end would hold back its daemon, which has all of the run.
TEST(SimWorkerTest, AWorkerThatHangsAtTheEndDoesNotKeepItsDaemon) {
  SimCluster cluster(15, {});
  ASSERT_TRUE(cluster.RunToVersion(9));
  for (const char* peer : {"p1", "p2", "p3"}) cluster.HangWorker(peer, Stage::kEnd, true);
  ASSERT_TRUE(cluster.RunToSeal(absl::Seconds(30))) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 3, 10);
}

// If this failed, a worker that hangs while it makes version 0 would keep the run from beginning.
TEST(SimWorkerTest, AnotherMakesVersionZeroWhereAWorkerHangsOverIt) {
  SimClusterSettings settings;
  settings.hung_makers = {"p1"};
  settings.own_initial = true;
  SimCluster cluster(16, settings);
  ASSERT_TRUE(cluster.RunToVersion(1, absl::Seconds(30))) << cluster.world().LogText();
  EXPECT_EQ(cluster.world().LogCount("peer p1, who was asked before, has not made it in time"), 1u);
  ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 3, 10);
}

// If this failed, a peer that made version 0 and gives it to no other would keep the run from
// beginning; or what it made would remain beside the version 0 that the others hold.
TEST(SimWorkerTest, AVersionZeroThatIsGivenToNobodyIsMadeAnew) {
  for (const Hostility hostility : {Hostility::kHoarder, Hostility::kMute}) {
    SimClusterSettings settings;
    settings.hostile["p1"] = hostility;
    settings.own_initial = true;
    SimCluster cluster(17, settings);
    ASSERT_TRUE(cluster.RunToVersion(1, absl::Seconds(40))) << cluster.world().LogText();
    EXPECT_GT(cluster.hostile("p1").acts() + (hostility == Hostility::kHoarder ? 1 : 0), 0u);
    EXPECT_EQ(cluster.world().LogCount("is not the one that became the run's"),
              hostility == Hostility::kHoarder ? 1u : 0u)
        << cluster.world().LogText();
    ASSERT_TRUE(cluster.RunToSeal(absl::Minutes(2))) << cluster.world().LogText();
    ExpectSealedEqual(cluster, 3, 10);
  }
}

// If this failed, two peers that both made version 0 (the first was cut off before it could report
// it) would never follow one run.
TEST(SimWorkerTest, AMakerThatWasCutOffTakesTheVersionZeroThatBecameTheRuns) {
  SimClusterSettings settings;
  settings.own_initial = true;
  SimCluster cluster(18, settings);
  SimWorld& world = cluster.world();
  ASSERT_TRUE(world.RunUntil([&] { return world.LogCount("making the initial parameters") == 1; },
                             absl::Seconds(10)));
  world.CutLink("p1", "coordinator");
  ASSERT_TRUE(
      world.RunUntil([&] { return cluster.stored().genesis.has_value(); }, absl::Seconds(20)))
      << world.LogText();
  world.HealLink("p1", "coordinator");
  ASSERT_TRUE(cluster.RunToSeal(absl::Minutes(2))) << world.LogText();
  ExpectSealedEqual(cluster, 3, 10);
  EXPECT_EQ(world.LogCount("is not the one that became the run's"), 1u) << world.LogText();
}

// If this failed, a worker whose state has gone bad would train to the same NaN for ever, without a
// report.
TEST(SimWorkerTest, AWorkerThatHandsOverNaNBeginsAnewAndIsCounted) {
  SimCluster cluster(9, {});
  ASSERT_TRUE(cluster.RunToVersion(2));
  cluster.SpoilUpdate("p1", SimWorker::Spoil::kNaN);
  ASSERT_TRUE(cluster.world().RunUntil(
      [&] { return cluster.world().LogCount("p1: its worker was ended: ") > 0; }, absl::Minutes(1)))
      << cluster.world().LogText();
  ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 3, 10);
  std::map<std::string, uint64_t> refused;
  for (const JudgedPeer& peer : cluster.stored().judged.peers) {
    if (peer.refused > 0) refused[peer.peer] = peer.refused;
  }
  EXPECT_EQ(refused, (std::map<std::string, uint64_t>{{"p1", 1}}));
  std::set<std::string> last;
  for (const v1::Contributor& one : cluster.stored().headers.back().contributors()) {
    last.insert(one.peer());
  }
  EXPECT_EQ(last.count("p1"), 1u) << "it trains with the others again";
}

// Returns the contributors to each version.
std::vector<std::set<std::string>> Contributors(const SimCluster& cluster) {
  std::vector<std::set<std::string>> all;
  for (const v1::EntryHeader& header : cluster.stored().headers) {
    all.emplace_back();
    for (const v1::Contributor& one : header.contributors()) all.back().insert(one.peer());
  }
  return all;
}

// If this failed, a machine that its owner needs would continue to train, or delay or split the
// run.
TEST(SimOwnerTest, APausedPeerFollowsTheRunAndTrainsAgainWhenItMay) {
  SimClusterSettings settings;
  settings.rounds = 14;
  SimCluster cluster(31, settings);
  SimWorld& world = cluster.world();
  ASSERT_TRUE(cluster.RunToVersion(3));
  world.RunFor(absl::Milliseconds(200));  // in the middle of its steps
  cluster.Allow("p2", false, true, "paused by its owner");
  const uint64_t paused = cluster.version() + 1;
  // Nobody waits for it: no deadline has to pass.
  ASSERT_TRUE(cluster.RunToVersion(paused + 3, absl::Seconds(10))) << world.LogText();
  const uint64_t resumed = cluster.version();
  cluster.Allow("p2", true, true, "");
  ASSERT_TRUE(cluster.RunToSeal()) << world.LogText();
  ExpectSealedEqual(cluster, 3, 14);
  const auto contributors = Contributors(cluster);
  for (uint64_t version = paused + 1; version <= resumed; ++version) {
    EXPECT_EQ(contributors[version - 1].count("p2"), 0u) << version;
  }
  EXPECT_EQ(contributors.back().count("p2"), 1u);
  EXPECT_EQ(world.LogCount("peer p2 is held back: paused by its owner"), 1u);
  EXPECT_EQ(world.LogCount("its worker died"), 0u);
}

// If this failed, "finish" would lose the round that it should finish, or begin another.
TEST(SimOwnerTest, AFinishedRoundIsContributedAndNoOtherBegun) {
  SimClusterSettings settings;
  settings.rounds = 12;
  SimCluster cluster(32, settings);
  SimWorld& world = cluster.world();
  ASSERT_TRUE(cluster.RunToVersion(3));
  world.RunFor(absl::Milliseconds(200));
  const uint64_t under_way = cluster.version() + 1;
  bool finished = false;
  cluster.FinishRound("p2", [&] {
    if (finished) return;
    finished = true;
    cluster.FinishRound("p2", nullptr);
    cluster.Allow("p2", false, true, "paused by its owner");
  });
  ASSERT_TRUE(world.RunUntil([&] { return finished; }, absl::Seconds(20))) << world.LogText();
  EXPECT_EQ(Contributors(cluster)[under_way - 1].count("p2"), 1u);
  EXPECT_EQ(cluster.version(), under_way);
  ASSERT_TRUE(cluster.RunToVersion(under_way + 2, absl::Seconds(10))) << world.LogText();
  EXPECT_EQ(Contributors(cluster)[under_way].count("p2"), 0u);
  cluster.Allow("p2", true, true, "");
  ASSERT_TRUE(cluster.RunToSeal()) << world.LogText();
  ExpectSealedEqual(cluster, 3, 12);
}

// If this failed, a run whose machines are all needed elsewhere would not say so, or would not
// continue later.
TEST(SimOwnerTest, WhereAllAreHeldBackTheRunWaitsAndGoesOn) {
  SimCluster cluster(33, {});
  SimWorld& world = cluster.world();
  ASSERT_TRUE(cluster.RunToVersion(3));
  for (const char* peer : {"p1", "p2", "p3"}) cluster.Allow(peer, false, true, "on battery");
  world.RunFor(absl::Minutes(5));
  const uint64_t waits = cluster.version();
  EXPECT_LE(waits, 4u);
  EXPECT_GE(world.LogCount("p1, p2, p3: on battery"), 1u) << world.LogText();
  world.RunFor(absl::Minutes(5));
  EXPECT_EQ(cluster.version(), waits);
  for (const char* peer : {"p1", "p2", "p3"}) cluster.Allow(peer, true, true, "");
  ASSERT_TRUE(cluster.RunToSeal()) << world.LogText();
  ExpectSealedEqual(cluster, 3, 10);
}

// If this failed, a peer outside its network hours would use the line, or not come back.
TEST(SimOwnerTest, APeerThatMayNotExchangeLeavesAndComesBack) {
  SimClusterSettings settings;
  settings.rounds = 16;
  SimCluster cluster(34, settings);
  SimWorld& world = cluster.world();
  ASSERT_TRUE(cluster.RunToVersion(3));
  cluster.Allow("p2", false, false, "outside its network hours until 18:00");
  ASSERT_TRUE(
      world.RunUntil([&] { return world.LogCount("peer p2 left: outside its network hours") == 1; },
                     absl::Seconds(20)))
      << world.LogText();
  const uint64_t left = cluster.version();
  ASSERT_TRUE(cluster.RunToVersion(left + 4, absl::Seconds(20))) << world.LogText();
  cluster.Allow("p2", true, true, "");
  ASSERT_TRUE(cluster.RunToSeal()) << world.LogText();
  ExpectSealedEqual(cluster, 3, 16);
  EXPECT_EQ(Contributors(cluster).back().count("p2"), 1u);
  EXPECT_EQ(Contributors(cluster)[left + 1].count("p2"), 0u);
}

}  // namespace
}  // namespace atolld

// Whole runs whose workers die, are slow, or hand over what is no update.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

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

// If this failed, one slow peer would hold all others back for ever, or its work would be lost.
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

// If this failed, a peer that is slower than the others allow would be left out once and then never
// contribute again, and every later round would wait for it in vain.
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

// If this failed, a worker whose state has gone bad would train to the same NaN for ever, and
// nobody would be told.
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

}  // namespace
}  // namespace atolld

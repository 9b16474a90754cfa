// Joins, returns and repairs in whole simulated runs.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "daemon/replica/state/layout.h"
#include "tests/sim/sealed.h"
#include "tests/sim/sim_cluster.h"

namespace atolld {
namespace {

SimClusterSettings Rounds(uint64_t rounds) {
  SimClusterSettings settings;
  settings.rounds = rounds;
  return settings;
}

// If this failed, a peer that slept a few rounds would fetch a whole snapshot, eight bytes a
// parameter instead of one a round.
TEST(SimJoinTest, RejoinerFetchesTheEntriesThatItMissed) {
  SimCluster cluster(11, Rounds(14));
  ASSERT_TRUE(cluster.RunToVersion(3)) << cluster.world().LogText();
  cluster.world().Kill("p3");
  const size_t snapshots = cluster.world().LogCount("fetched the snapshot");
  ASSERT_TRUE(cluster.RunToVersion(7)) << cluster.world().LogText();
  cluster.world().Restart("p3");
  ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 3, 14);
  EXPECT_GE(cluster.world().LogCount("instead of a snapshot of"), 1u) << cluster.world().LogText();
  EXPECT_EQ(cluster.world().LogCount("fetched the snapshot"), snapshots)
      << cluster.world().LogText();
}

// If this failed, a peer whose entries are gone everywhere could not come back.
TEST(SimJoinTest, LongSleeperTakesASnapshot) {
  SimCluster cluster(12, Rounds(24));
  ASSERT_TRUE(cluster.RunToVersion(2)) << cluster.world().LogText();
  cluster.world().Kill("p3");
  const size_t snapshots = cluster.world().LogCount("fetched the snapshot");
  ASSERT_TRUE(cluster.RunToVersion(18)) << cluster.world().LogText();
  cluster.world().Restart("p3");
  ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 3, 24);
  EXPECT_EQ(cluster.world().LogCount("fetched the snapshot"), snapshots + 1)
      << cluster.world().LogText();
}

// If this failed, one flipped bit in a peer's memory would end it, or split the replicas.
TEST(SimJoinTest, DriftInMemoryIsRepairedFromTheOwnDisk) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    SimCluster cluster(seed, Rounds(12));
    ASSERT_TRUE(cluster.RunToVersion(3)) << cluster.world().LogText();
    cluster.world().RunFor(absl::Milliseconds(60 * static_cast<int64_t>(seed)));
    cluster.FlipThetaBit("p2");
    ASSERT_TRUE(cluster.RunToSeal()) << "seed " << seed << "\n" << cluster.world().LogText();
    ExpectSealedEqual(cluster, 3, 12);
    EXPECT_GE(cluster.world().LogCount("has drifted"), 1u) << cluster.world().LogText();
    EXPECT_GE(cluster.world().LogCount("repaired from its own snapshot and log"), 1u)
        << cluster.world().LogText();
  }
}

// If this failed, a drifted replica would block for ever a run that needs every peer: the header
// that would reveal the drift cannot come.
TEST(SimJoinTest, DriftIsRepairedWhereTheQuorumNeedsEveryPeer) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SimClusterSettings settings = Rounds(12);
    settings.peers = seed % 2 == 0 ? 3 : 2;  // of two nobody can tell which is right
    settings.quorum = static_cast<uint32_t>(settings.peers);
    SimCluster cluster(seed, settings);
    ASSERT_TRUE(cluster.RunToVersion(6)) << cluster.world().LogText();
    cluster.world().RunFor(absl::Milliseconds(40 * static_cast<int64_t>(seed)));
    const bool spoiled = seed >= 6;  // the disk too
    if (spoiled) {
      SimDisk& disk = cluster.world().process("p2").disk();
      SimFiles files(disk);
      const std::vector<uint64_t> versions = ListSnapshots(files, "/p2").value();
      for (const uint64_t version : versions) {
        ASSERT_TRUE(disk.FlipBit(SnapshotPath("/p2", version), 9000, 4));
      }
    }
    cluster.FlipThetaBit("p2");
    ASSERT_TRUE(cluster.RunToSeal(absl::Minutes(5))) << "seed " << seed << "\n"
                                                     << cluster.world().LogText();
    ExpectSealedEqual(cluster, settings.peers, 12);
    EXPECT_GE(cluster.world().LogCount(spoiled ? "the blocks of other peers"
                                               : "its own snapshot and log"),
              1u)
        << cluster.world().LogText();
  }
}

// If this failed, a peer whose memory and disk are both corrupted would end, although others hold
// every block.
TEST(SimJoinTest, DriftWithASpoiledDiskIsRepairedFromOthers) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    SimCluster cluster(seed, Rounds(14));
    ASSERT_TRUE(cluster.RunToVersion(6)) << cluster.world().LogText();
    cluster.world().RunFor(absl::Milliseconds(60 * static_cast<int64_t>(seed)));
    SimDisk& disk = cluster.world().process("p2").disk();
    SimFiles files(disk);
    const std::vector<uint64_t> versions = ListSnapshots(files, "/p2").value();
    for (const uint64_t version : versions) {
      ASSERT_TRUE(disk.FlipBit(SnapshotPath("/p2", version), 9000, 4));
    }
    cluster.FlipThetaBit("p2");
    ASSERT_TRUE(cluster.RunToSeal()) << "seed " << seed << "\n" << cluster.world().LogText();
    ExpectSealedEqual(cluster, 3, 14);
    EXPECT_GE(cluster.world().LogCount("repaired from the blocks of other peers"), 1u)
        << cluster.world().LogText();
  }
}

// If this failed, a run would stop for ever if the only peer that can give its state away has an
// unreadable disk: no commit comes that would make it check again.
TEST(SimJoinTest, ADonorWithASpoiledDiskHelpsWhileTheRunStandsStill) {
  for (const bool for_good : {false, true}) {
    SimClusterSettings settings = Rounds(14);
    settings.dial_out = {"p1", "p2", "p3"};
    settings.aggregators = {"a1"};
    settings.snapshot_every = 1;
    settings.keep_snapshots = 1;
    SimCluster cluster(21, settings);
    ASSERT_TRUE(cluster.RunToVersion(3)) << cluster.world().LogText();
    cluster.world().Kill("p3");
    ASSERT_TRUE(cluster.RunToVersion(7)) << cluster.world().LogText();
    // It holds version 7 from here on, and two of the three that train are needed for the next.
    cluster.world().Kill("p2");
    SimDisk& disk = cluster.world().process("a1").disk();
    SimFiles files(disk);
    if (for_good) {
      const std::vector<uint64_t> versions = ListSnapshots(files, "/a1").value();
      for (const uint64_t version : versions) {
        ASSERT_TRUE(disk.FlipBit(SnapshotPath("/a1", version), 20, 4));
      }
    } else {
      disk.FlipBitOnRead(1);
    }
    ASSERT_TRUE(cluster.world().RunUntil(
        [&] { return cluster.world().LogCount("the disk can make no snapshot any more") > 0; },
        absl::Minutes(1)))
        << cluster.world().LogText();
    cluster.world().Restart("p3");
    cluster.world().RunFor(absl::Seconds(2));
    ASSERT_EQ(cluster.version(), 7u) << "the run does not stand still";
    disk.FlipBitOnRead(0);
    ASSERT_TRUE(cluster.RunToVersion(9, absl::Minutes(2))) << cluster.world().LogText();
    if (!for_good) continue;
    EXPECT_EQ(cluster.world().LogCount("the state in memory was saved"), 1u)
        << cluster.world().LogText();
  }
}

// If this failed, a restart would lose the residual although it was settled and saved.
TEST(SimJoinTest, TheResidualSurvivesARestart) {
  SimClusterSettings settings = Rounds(10);
  settings.error_feedback = true;
  SimCluster cluster(13, settings);
  ASSERT_TRUE(cluster.RunToVersion(3)) << cluster.world().LogText();
  cluster.world().RunFor(absl::Milliseconds(200));
  cluster.world().Kill("p2");
  cluster.world().RunFor(absl::Milliseconds(10));
  cluster.world().Restart("p2");
  ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 3, 10);
  EXPECT_EQ(cluster.world().LogCount("the residual was found on disk"), 1u)
      << cluster.world().LogText();
}

}  // namespace
}  // namespace atolld

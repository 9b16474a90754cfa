// Whole runs in mode "async" in a simulated world: no round waits for a peer, and no work counts
// twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "daemon/transport/wire.h"
#include "tests/sim/sealed.h"
#include "tests/sim/sim_cluster.h"

namespace atolld {
namespace {

// A step of the slow peer takes ten times as long.
SimClusterSettings UnevenPeers() {
  SimClusterSettings settings;
  settings.mode = "async";
  settings.quorum = 1;
  settings.rounds = 30;
  settings.codec = "fp32";
  settings.steps["p3"] = absl::Milliseconds(500);
  return settings;
}

size_t EntriesOf(const SimCluster& cluster, const std::string& peer) {
  size_t entries = 0;
  for (const v1::EntryHeader& header : cluster.stored().headers) {
    for (const v1::Contributor& one : header.contributors()) entries += one.peer() == peer ? 1 : 0;
  }
  return entries;
}

// If this failed, a slow peer would delay the others, or never contribute; or an update, or the
// samples of one, would be in two entries.
TEST(SimAsyncTest, ASlowPeerHoldsNobodyUpAndNoWorkCountsTwice) {
  std::map<std::string, std::set<uint64_t>> offered;  // of the slow one: ages, by update
  SimCluster cluster(1, UnevenPeers(), [&](const std::string& peer, const Frame& frame) {
    v1::PeerMessage message;
    if (peer != "p3" || !Unpack(frame, &message).ok() || !message.has_ready()) return;
    offered[message.ready().contribution_root()].insert(message.ready().age());
  });
  ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 3, 30);
  const size_t fast = EntriesOf(cluster, "p1");
  const size_t slow = EntriesOf(cluster, "p3");
  EXPECT_GE(slow, 1u);
  EXPECT_GE(fast, 4 * slow);
  std::map<uint64_t, uint64_t> spent;  // end, by first
  uint64_t oldest = 0;
  for (const v1::EntryHeader& header : cluster.stored().headers) {
    for (const v1::Contributor& one : header.contributors()) {
      uint64_t samples = 0;
      for (const v1::SampleRange& range : one.samples()) {
        EXPECT_TRUE(spent.emplace(range.first(), range.first() + range.count()).second);
        samples += range.count();
      }
      EXPECT_EQ(samples, 2 * one.steps());  // of a batch of 2
      oldest = std::max<uint64_t>(oldest, one.age());
    }
  }
  uint64_t end = 0;
  for (const auto& [first, after] : spent) {
    EXPECT_GE(first, end);
    end = after;
  }
  EXPECT_GE(oldest, 4u);
  // Rebased, its update stays what it learned, at whatever age it is offered: there are no more of
  // them than entries that took one, and one that the end of the run has left over.
  EXPECT_LE(offered.size(), slow + 1);
  for (const auto& [update, ages] : offered) EXPECT_GE(*ages.begin(), 1u);
  EXPECT_EQ(cluster.world().LogCount(" E "), 0u);
}

// If this failed, steps by speed would not work in a run in which no peer is waited for.
TEST(SimAsyncTest, StepsBySpeedMakeTheSlowOneAsFrequent) {
  SimClusterSettings settings = UnevenPeers();
  settings.auto_pace = true;
  SimCluster cluster(2, settings);
  ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 3, 30);
  EXPECT_GE(3 * EntriesOf(cluster, "p3"), EntriesOf(cluster, "p1"));
}

// If this failed, a peer whose updates are always too old would stop, or get one of them into an
// entry.
TEST(SimAsyncTest, WhatIsTooOldIsInNoEntry) {
  SimClusterSettings settings = UnevenPeers();
  settings.age_cutoff = 3;
  SimCluster cluster(3, settings);
  ASSERT_TRUE(cluster.RunToSeal()) << cluster.world().LogText();
  ExpectSealedEqual(cluster, 3, 30);
  for (const v1::EntryHeader& header : cluster.stored().headers) {
    for (const v1::Contributor& one : header.contributors()) EXPECT_LT(one.age(), 3u);
  }
}

}  // namespace
}  // namespace atolld

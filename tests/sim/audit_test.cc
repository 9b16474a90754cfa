// Lying peers among honest ones: which peers are evicted, and what is committed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "tests/sim/sim_cluster.h"

namespace atolld {
namespace {

// With a share of 1/16, a peer that lies in every round survives this many with less than 1 %
// probability.
constexpr uint64_t kRounds = 72;

// Set ATOLL_AUDIT_SEEDS=200 for the figure of docs/threat_model.md.
uint64_t Seeds() {
  const char* const told = std::getenv("ATOLL_AUDIT_SEEDS");
  return told == nullptr ? 10 : std::strtoull(told, nullptr, 10);
}

SimClusterSettings Settings(int peers, double share) {
  SimClusterSettings settings;
  settings.peers = peers;
  settings.rounds = kRounds + 1;
  settings.audit_share = share;
  settings.elements = 32768;  // 8 chunks: everybody has some to average
  return settings;
}

std::vector<std::string> HonestEvicted(const SimCluster& cluster, const std::string& liar) {
  std::vector<std::string> evicted;
  for (const std::string& peer : cluster.PeersStarted()) {
    if (peer != liar && cluster.Evicted(peer)) evicted.push_back(peer);
  }
  return evicted;
}

size_t LiesCommitted(SimCluster& cluster, const std::string& liar) {
  size_t lies = 0;
  for (const v1::EntryHeader& header : cluster.stored().headers) {
    lies += cluster.hostile(liar).lies().count(header.payload_digest());
  }
  return lies;
}

// If this failed, a reducer could lie for ever in a run that audits one chunk in sixteen.
TEST(SimAuditTest, AReducerThatLiesInEveryRoundIsCaught) {
  const uint64_t seeds = Seeds();
  uint64_t caught = 0;
  uint64_t rounds = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SimClusterSettings settings = Settings(4, 0.0625);
    settings.hostile = {{"p2", Hostility::kLyingReducer}};
    SimCluster cluster(seed, settings);
    ASSERT_TRUE(cluster.world().RunUntil(
        [&] { return cluster.Evicted("p2") || cluster.version() >= kRounds; }, absl::Minutes(60)))
        << seed << ": " << cluster.world().LogText();
    EXPECT_GT(cluster.hostile("p2").lies().size(), 0u) << seed;
    EXPECT_TRUE(HonestEvicted(cluster, "p2").empty()) << seed;
    caught += cluster.Evicted("p2") ? 1 : 0;
    rounds += cluster.version();
  }
  std::cout << caught << " of " << seeds << " caught within " << kRounds << " rounds, after "
            << static_cast<double>(rounds) / static_cast<double>(seeds) << " on average\n";
  EXPECT_GE(static_cast<double>(caught), 0.98 * static_cast<double>(seeds) - 1);
}

// If this failed, a lie that was drawn for an audit would still be committed, or the run would
// stop.
TEST(SimAuditTest, WhereAllIsAuditedNoLieIsCommitted) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SimClusterSettings settings = Settings(4, 1);
    settings.hostile = {{"p2", Hostility::kLyingReducer}};
    SimCluster cluster(seed, settings);
    ASSERT_TRUE(cluster.RunToVersion(8)) << cluster.world().LogText();
    EXPECT_TRUE(cluster.Evicted("p2")) << seed;
    EXPECT_TRUE(HonestEvicted(cluster, "p2").empty()) << seed;
    EXPECT_GT(cluster.hostile("p2").lies().size(), 0u);
    EXPECT_EQ(LiesCommitted(cluster, "p2"), 0u);
    EXPECT_EQ(cluster.world().LogCount("peer p2 has lied"), 1u);
  }
}

// If this failed, a peer could have another one evicted, or stop the run, by accusing it.
TEST(SimAuditTest, AFalseAccuserHarmsNobody) {
  for (const int peers : {2, 3, 4, 5}) {
    SCOPED_TRACE(peers);
    SimClusterSettings settings = Settings(peers, 1);
    settings.hostile = {{"p1", Hostility::kFalseAccuser}};
    SimCluster cluster(static_cast<uint64_t>(peers), settings);
    ASSERT_TRUE(cluster.RunToVersion(12)) << cluster.world().LogText();
    EXPECT_GT(cluster.hostile("p1").accusations(), 0u);
    EXPECT_TRUE(HonestEvicted(cluster, "").empty());
    EXPECT_EQ(cluster.world().LogCount("has lied"), 0u);
  }
}

// If this failed, a reducer that withholds its inputs could lie as it likes.
TEST(SimAuditTest, AReducerThatHidesItsInputsReducesInVain) {
  SimClusterSettings settings = Settings(4, 1);
  settings.hostile = {{"p2", Hostility::kHidingReducer}};
  SimCluster cluster(3, settings);
  ASSERT_TRUE(cluster.RunToVersion(8)) << cluster.world().LogText();
  EXPECT_GT(cluster.hostile("p2").lies().size(), 0u);
  EXPECT_EQ(LiesCommitted(cluster, "p2"), 0u);
  EXPECT_TRUE(HonestEvicted(cluster, "").empty());
  EXPECT_GE(cluster.world().LogCount("are redone elsewhere"), 1u);
}

// If this failed, a reducer that tells peers different things would split them.
TEST(SimAuditTest, AnEquivocatingReducerSplitsNobody) {
  SimClusterSettings settings = Settings(4, 1);
  settings.hostile = {{"p2", Hostility::kEquivocator}};
  SimCluster cluster(3, settings);
  ASSERT_TRUE(cluster.RunToVersion(4)) << cluster.world().LogText();
  EXPECT_TRUE(HonestEvicted(cluster, "p2").empty());
  EXPECT_GE(cluster.world().LogCount("different results"), 1u);
}

// If this failed, an honest run would suspect its own peers.
TEST(SimAuditTest, AnHonestRunSuspectsNobody) {
  for (const char* const codec : {"int8", "int4", "fp32+zstd", "topk"}) {
    SimClusterSettings settings = Settings(3, 1);
    settings.codec = codec;
    settings.rounds = 6;
    SimCluster cluster(7, settings);
    ASSERT_TRUE(cluster.RunToSeal()) << codec << ": " << cluster.world().LogText();
    EXPECT_EQ(cluster.world().LogCount(" E "), 0u) << codec << ": " << cluster.world().LogText();
    EXPECT_EQ(cluster.world().LogCount("could not be audited"), 0u) << codec;
    for (const v1::EntryHeader& header : cluster.stored().headers) {
      EXPECT_EQ(header.audit_nonce().size(), 32u);
    }
  }
}

}  // namespace
}  // namespace atolld

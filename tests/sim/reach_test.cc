// Peers that cannot reach each other, without an error: the run notices it, plans around it, and
// names the peers.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sim/sealed.h"
#include "tests/sim/sim_cluster.h"

namespace atolld {
namespace {

constexpr absl::Duration kFailureTimeout = absl::Seconds(2);

// A training takes half a second here, and an exchange some 10 ms.
constexpr absl::Duration kRound = absl::Milliseconds(700);

// Used if it is not known when a line failed in a round, or how long the first round takes to
// begin.
constexpr absl::Duration kFirstRound = absl::Milliseconds(700 + 2 * 2000);

constexpr uint64_t kReachRounds = 30;

// 4 x failure_timeout + 10 s, a little for the vector itself, and four rounds.
constexpr absl::Duration kSetAside = absl::Seconds(24);

using Spoil = std::function<void(SimNetwork& network)>;

// Four peers, of which two are enough, and a line that fails after a given number of committed
// rounds.
class GreyRun {
 public:
  GreyRun(uint64_t seed, uint64_t version, const Spoil& spoil) : cluster_(seed, Settings()) {
    if (version > 0) {
      EXPECT_TRUE(cluster_.RunToVersion(version, absl::Minutes(1)));
      // In mid-training, so that the next exchange finds it.
      cluster_.world().RunFor(absl::Milliseconds(200));
    }
    spoil(cluster_.world().network());
    first_ = cluster_.version() + 1;
  }

  SimCluster& cluster() { return cluster_; }

  // The first round after the failure takes one change of plan at most, the others what they
  // always take.
  void ExpectOnTime(uint64_t last) {
    for (uint64_t version = first_; version <= last; ++version) {
      const absl::Duration begun = cluster_.world().now();
      const bool first = version == first_;
      const absl::Duration limit = first ? kFirstRound : kRound;
      ASSERT_TRUE(cluster_.RunToVersion(version, absl::Minutes(5))) << "version " << version << "\n"
                                                                    << cluster_.world().LogText();
      const absl::Duration took = cluster_.world().now() - begun;
      EXPECT_LE(took, limit) << "version " << version;
      if (took > limit) ++late_;
      if (late_ > 5) break;
    }
    first_ = last + 1;
  }

  // What the coordinator shows names the pair, in either order.
  bool Named(const std::string& a, const std::string& b) {
    const auto& doubts = cluster_.status().doubts();
    return std::any_of(doubts.begin(), doubts.end(), [&](const v1::ReachDoubt& doubt) {
      return (doubt.from() == a && doubt.to() == b) || (doubt.from() == b && doubt.to() == a);
    });
  }
  const v1::PeerStatus& Shown(const std::string& peer) {
    const auto& peers = cluster_.status().peers();
    return *std::find_if(peers.begin(), peers.end(),
                         [&](const auto& one) { return one.member().peer() == peer; });
  }

  // Who has averaged anything since this version.
  std::set<std::string> ReducersSince(uint64_t version) {
    std::set<std::string> reducers;
    for (const v1::EntryHeader& header : cluster_.stored().headers) {
      if (header.version() < version) continue;
      for (const v1::ShardRecord& shard : header.records().shards()) {
        if (shard.runs_size() > 0) reducers.insert(shard.reducer());
      }
    }
    return reducers;
  }
  int FewestContributorsSince(uint64_t version) {
    int fewest = 1000;
    for (const v1::EntryHeader& header : cluster_.stored().headers) {
      if (header.version() >= version) fewest = std::min(fewest, header.contributors_size());
    }
    return fewest;
  }

 private:
  static SimClusterSettings Settings() {
    SimClusterSettings settings;
    settings.peers = 4;
    settings.quorum = 2;
    settings.rounds = kReachRounds;
    settings.failure_timeout = kFailureTimeout;
    settings.watched = true;
    return settings;
  }

  SimCluster cluster_;
  uint64_t first_ = 1;  // version that is not yet committed
  int late_ = 0;
};

// If this failed, one volunteer whose firewall drops what arrives at its port would stop all peers,
// round after round, without a report of the reason.
TEST(SimReachTest, APeerThatNobodyCanDialStopsNobody) {
  for (const uint64_t version : {uint64_t{0}, uint64_t{3}}) {
    SCOPED_TRACE(absl::StrCat("from version ", version));
    GreyRun run(20 + version, version, [](SimNetwork& network) { network.Hide("p3"); });
    run.ExpectOnTime(version + 1);
    run.ExpectOnTime(version + 5);
    EXPECT_TRUE(run.Named("p1", "p3") || run.Named("p2", "p3") || run.Named("p4", "p3"));
    run.ExpectOnTime(kReachRounds - 2);
    EXPECT_TRUE(run.Named("", "p3")) << "the coordinator has dialled it too";
    EXPECT_TRUE(run.Shown("p3").member().unreachable());
    EXPECT_NE(run.Shown("p3").why().find("others cannot dial p3:1"), std::string::npos);
    for (const char* peer : {"p1", "p2", "p4"}) EXPECT_EQ(run.Shown(peer).why(), "");
    EXPECT_EQ(run.ReducersSince(version + 6), (std::set<std::string>{"p1", "p2", "p4"}));
    EXPECT_EQ(run.FewestContributorsSince(version + 2), 4) << "it can dial all others";
    ASSERT_TRUE(run.cluster().RunToSeal()) << run.cluster().world().LogText();
    ExpectSealedEqual(run.cluster(), 4, kReachRounds);
  }
}

// If this failed, two peers that can reach all others but not each other would stop all peers.
TEST(SimReachTest, AThirdReducesForTwoThatCannotSeeEachOther) {
  const std::vector<std::pair<std::string, Spoil>> ways = {
      {"both ways", [](SimNetwork& network) { network.BlackHole("p2", "p3"); }},
      {"p3 to p2", [](SimNetwork& network) { network.CutOneWay("p3", "p2"); }},
      {"p2 to p3", [](SimNetwork& network) { network.CutOneWay("p2", "p3"); }}};
  for (const auto& [way, spoil] : ways) {
    for (const uint64_t version : {uint64_t{0}, uint64_t{3}}) {
      SCOPED_TRACE(absl::StrCat(way, " from version ", version));
      GreyRun run(30 + version, version, spoil);
      run.ExpectOnTime(version + 5);
      EXPECT_TRUE(run.Named("p2", "p3"));
      run.ExpectOnTime(kReachRounds - 2);
      EXPECT_TRUE(run.Named("p2", "p3"));
      for (const v1::ReachDoubt& doubt : run.cluster().status().doubts()) {
        EXPECT_TRUE(doubt.from() == "p2" || doubt.from() == "p3") << doubt.ShortDebugString();
      }
      EXPECT_EQ(run.ReducersSince(version + 6), (std::set<std::string>{"p1", "p4"}));
      EXPECT_EQ(run.FewestContributorsSince(version + 2), 4);
      ASSERT_TRUE(run.cluster().RunToSeal()) << run.cluster().world().LogText();
      ExpectSealedEqual(run.cluster(), 4, kReachRounds);
    }
  }
}

// If this failed, a line that passes pings but no chunks would stop all peers.
TEST(SimReachTest, ALineThatCarriesSmallPacketsAloneStopsNobody) {
  for (const uint64_t version : {uint64_t{0}, uint64_t{3}}) {
    SCOPED_TRACE(absl::StrCat("from version ", version));
    GreyRun run(40 + version, version, [](SimNetwork& network) {
      for (const char* other : {"p1", "p2", "p4"}) network.PassSmallAlone("p3", other);
    });
    // From the beginning p3 cannot get version 0, and is set aside after a state's time.
    if (version == 0) {
      ASSERT_TRUE(run.cluster().RunToVersion(4, kSetAside)) << "the others begin";
    } else {
      run.ExpectOnTime(kReachRounds - 2);
      EXPECT_TRUE(run.Named("p1", "p3") || run.Named("p2", "p3") || run.Named("p4", "p3"));
    }
    ASSERT_TRUE(run.cluster().RunToVersion(kReachRounds - 2, absl::Minutes(1)));
    const std::set<std::string> reducers = run.ReducersSince(version + 6);
    EXPECT_EQ(reducers.count("p3"), 0u);
    EXPECT_GE(reducers.size(), 2u);
    run.cluster().world().network().HealAll();
    ASSERT_TRUE(run.cluster().RunToSeal()) << run.cluster().world().LogText();
    ExpectSealedEqual(run.cluster(), 4, kReachRounds);
  }
}

// If this failed, two peers that once could not reach each other would never be planned together
// again.
TEST(SimReachTest, AMendedLineIsUsedAgain) {
  GreyRun run(50, 3, [](SimNetwork& network) { network.BlackHole("p2", "p3"); });
  run.ExpectOnTime(8);
  EXPECT_TRUE(run.Named("p2", "p3"));
  run.cluster().world().network().HealAll();
  const auto mended = [&] { return run.cluster().status().doubts().empty(); };
  ASSERT_TRUE(run.cluster().world().RunUntil(mended, absl::Seconds(8)));
  const uint64_t version = run.cluster().version();
  ASSERT_LT(version + 2, kReachRounds);
  ASSERT_TRUE(run.cluster().RunToSeal()) << run.cluster().world().LogText();
  const std::set<std::string> reducers = run.ReducersSince(version + 2);
  for (const char* peer : {"p2", "p3"}) EXPECT_EQ(reducers.count(peer), 1u) << peer;
}

}  // namespace
}  // namespace atolld

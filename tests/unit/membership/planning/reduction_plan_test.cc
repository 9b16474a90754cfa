#include "membership/planning/reduction_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "compression/base/bitmap.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

// The time of the slowest reachable contributor.
double Time(const std::vector<double>& bandwidths, const std::vector<double>& weights) {
  double most = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (bandwidths[i] <= 0) continue;
    const double n = static_cast<double>(weights.size());
    most = std::max(most, (1 + (n - 2) * weights[i]) / bandwidths[i]);
  }
  return most;
}

// The least time over all divisions into `steps` parts.
double BruteForceTime(const std::vector<double>& bandwidths, std::vector<double> weights, size_t i,
                      int left, int steps) {
  if (i + 1 == bandwidths.size()) {
    if (left > 0 && bandwidths[i] <= 0) return 1e300;
    weights.push_back(static_cast<double>(left) / steps);
    return Time(bandwidths, weights);
  }
  double best = 1e300;
  for (int part = 0; part <= (bandwidths[i] > 0 ? left : 0); ++part) {
    std::vector<double> next = weights;
    next.push_back(static_cast<double>(part) / steps);
    best = std::min(best, BruteForceTime(bandwidths, next, i + 1, left - part, steps));
  }
  return best;
}

// Would break: exchanges slower than they need be when links differ.
TEST(ShardWeights, ReachTheOptimumThatBruteForceFinds) {
  const std::vector<std::vector<double>> cases = {
      {1, 1, 1},    {1, 2, 3},      {1, 10, 10}, {0, 1, 1},    {0, 1, 4, 2},
      {5, 1, 1, 1}, {1, 1, 1, 100}, {0, 0, 3},   {2, 0, 2, 0},
  };
  for (const auto& bandwidths : cases) {
    const std::vector<double> weights = ShardWeights(bandwidths);
    EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1, 1e-12);
    const int steps = bandwidths.size() == 3 ? 400 : 60;
    const double brute = BruteForceTime(bandwidths, {}, 0, steps, steps);
    EXPECT_LE(Time(bandwidths, weights), brute * (1 + 1e-9));
    EXPECT_GE(Time(bandwidths, weights), brute * 0.93);  // the grid of the brute force is coarse
  }
}

// Would break: small runs, where the closed form does not hold.
TEST(ShardWeights, OneAndTwoContributorsShareEqually) {
  EXPECT_EQ(ShardWeights({3.0}), (std::vector<double>{1}));
  EXPECT_EQ(ShardWeights({1.0, 9.0}), (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(ShardWeights({0.0, 9.0}), (std::vector<double>{0, 1}));
}

// Would break: a plan whose shards do not tile the grid, which every replica refuses.
TEST(SplitChunks, GivesWholeChunksThatSum) {
  EXPECT_EQ(SplitChunks(10, {1, 1, 1}), (std::vector<uint32_t>{4, 3, 3}));
  EXPECT_EQ(SplitChunks(2, {1, 1, 1}), (std::vector<uint32_t>{1, 1, 0}));
  EXPECT_EQ(SplitChunks(7, {0, 0.5, 0.5}), (std::vector<uint32_t>{0, 4, 3}));
  EXPECT_EQ(SplitChunks(1, {0.2, 0.8}), (std::vector<uint32_t>{0, 1}));
  for (uint32_t chunks = 0; chunks < 200; ++chunks) {
    const std::vector<double> weights = {0.1, 0, 0.3, 1.0 / 3, 0.26666666666666666};
    const std::vector<uint32_t> counts = SplitChunks(chunks, weights);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0u), chunks);
    EXPECT_EQ(counts[1], 0u);
    for (size_t i = 0; i < counts.size(); ++i)
      EXPECT_LE(std::abs(counts[i] - chunks * weights[i]), 1.0 + 1e-9);
  }
}

// -----------------------------------------------------------------------------------------------

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// "eu-1" lies in region eu; "x" in none.
std::vector<ExchangeContributor> EqualContributors(const std::vector<std::string>& peers) {
  std::vector<ExchangeContributor> contributors;
  for (const std::string& peer : peers) {
    ExchangeContributor contributor;
    contributor.member.set_peer(peer);
    contributor.member.set_address(peer + ":1");
    const size_t dash = peer.find('-');
    if (dash != std::string::npos) contributor.region = peer.substr(0, dash);
    contributors.push_back(contributor);
  }
  return contributors;
}

ReductionPlan Make(const std::vector<std::string>& peers, bool by_region = false) {
  ExchangeTerms terms;
  terms.version = 5;
  terms.parameters = 12 * 4096;
  terms.chunk_elements = 4096;
  terms.by_region = by_region;
  return ReductionPlan(terms, EqualContributors(peers));
}

std::vector<std::string> MembersOf(const v1::Plan& plan, const v1::Relay& relay) {
  std::vector<std::string> members;
  for (int i = 0; i < plan.contributors_size(); ++i) {
    if (BitAt(relay.members(), static_cast<size_t>(i)))
      members.push_back(plan.contributors(i).peer());
  }
  return members;
}

// Would break: a shard that survivors hold whole is averaged anew by all, and its bytes cross the
// wire twice.
TEST(ReductionPlan, AWholeShardIsFetchedFromItsHolderUnderTheSameAttempt) {
  ReductionPlan plan = Make({"a", "b", "c"});
  plan.NoteHeld("c", 0, 1);
  std::vector<std::string> events;
  plan.Lose("a");
  ASSERT_TRUE(plan.MoveFrom({"a"}, &events));
  EXPECT_EQ(plan.proto().shards(0).holder(), "c");
  EXPECT_EQ(plan.proto().shards(0).reducer(), "a");
  EXPECT_EQ(plan.proto().shards(0).attempt(), 1u);
  EXPECT_THAT(events, ElementsAre(HasSubstr("fetched from there")));
  EXPECT_TRUE(plan.Serves("c"));
}

// Would break: the holder dies in its turn and the others wait for it for ever.
TEST(ReductionPlan, AHoldersDeathLeadsToTheNextHolderThenToANewAttempt) {
  ReductionPlan plan = Make({"a", "b", "c", "d"});
  plan.NoteHeld("c", 0, 1);
  plan.NoteHeld("d", 0, 1);
  std::vector<std::string> events;
  for (const char* peer : {"a", "c"}) {
    plan.Lose(peer);
    ASSERT_TRUE(plan.MoveFrom({peer}, &events));
  }
  EXPECT_EQ(plan.proto().shards(0).holder(), "d");
  EXPECT_EQ(plan.proto().shards(0).attempt(), 1u);
  plan.Lose("d");
  ASSERT_TRUE(plan.MoveFrom({"d"}, &events));
  EXPECT_EQ(plan.proto().shards(0).holder(), "");
  EXPECT_EQ(plan.proto().shards(0).reducer(), "b");
  EXPECT_EQ(plan.proto().shards(0).attempt(), 2u);
}

// Would break: what a dead peer was to average goes to whoever has the slowest line, since that
// one averages nothing.
TEST(ReductionPlan, WhoIsDoneFirstTakesOver) {
  std::vector<ExchangeContributor> contributors = EqualContributors({"a", "b", "c", "d"});
  contributors[0].bandwidth = contributors[1].bandwidth = 100;
  contributors[2].bandwidth = 20;
  contributors[3].bandwidth = 10;
  ExchangeTerms terms;
  terms.parameters = 12 * 4096;
  terms.chunk_elements = 4096;
  ReductionPlan plan(terms, contributors);
  ASSERT_FALSE(plan.Serves("d"));
  plan.Lose("a");
  std::vector<std::string> events;
  ASSERT_TRUE(plan.MoveFrom({"a"}, &events));
  EXPECT_THAT(events, ElementsAre("the shards of a go to b"));
  // The same for one that holds what is averaged already.
  ReductionPlan held(terms, contributors);
  for (const char* peer : {"b", "c", "d"}) held.NoteHeld(peer, 0, 1);
  held.Lose("a");
  ASSERT_TRUE(held.MoveFrom({"a"}, &events));
  EXPECT_EQ(held.proto().shards(0).holder(), "b");
  // And for what is redone.
  ReductionPlan doubted(terms, contributors);
  ASSERT_TRUE(doubted.Redo({"a"}));
  EXPECT_EQ(doubted.proto().shards(0).reducer(), "b");
  EXPECT_FALSE(doubted.Serves("d"));
}

// Would break: a peer that held the means of an attempt that is over is believed to hold the new.
TEST(ReductionPlan, OnlyTheCurrentAttemptCounts) {
  ReductionPlan plan = Make({"a", "b", "c"});
  plan.NoteHeld("c", 0, 1);
  ASSERT_TRUE(plan.RotateAll());
  std::vector<std::string> events;
  const std::string reducer = plan.proto().shards(0).reducer();
  plan.Lose(reducer);
  ASSERT_TRUE(plan.MoveFrom({reducer}, &events));
  EXPECT_EQ(plan.proto().shards(0).holder(), "");
  EXPECT_EQ(plan.proto().shards(0).attempt(), 3u);
}

// Would break: a peer that nobody can dial, or that is gone, is named as the holder.
TEST(ReductionPlan, AHolderMustBeReachable) {
  std::vector<ExchangeContributor> contributors = EqualContributors({"a", "b", "c", "d"});
  contributors[1].member.clear_address();
  ExchangeTerms terms;
  terms.parameters = 12 * 4096;
  terms.chunk_elements = 4096;
  ReductionPlan plan(terms, contributors);
  for (const char* peer : {"b", "c", "d"}) plan.NoteHeld(peer, 0, 1);
  ASSERT_TRUE(plan.MarkUnreachable("c"));
  plan.Lose("d");
  plan.Lose("a");
  std::vector<std::string> events;
  EXPECT_FALSE(plan.MoveFrom({"a", "d"}, &events));  // b dials out, c was not reached
}

// Would break: the whole region's updates cross the slow link instead of one partial mean.
TEST(ReductionPlan, EachOtherRegionHasOneRelayAShard) {
  const ReductionPlan plan = Make({"eu-1", "eu-2", "us-1", "us-2", "us-3", "x"}, true);
  std::set<std::string> relays;
  for (const v1::Shard& shard : plan.proto().shards()) {
    const std::string region = shard.reducer().substr(0, 2);
    if (region == "eu" || region == "us") {
      ASSERT_EQ(shard.relays_size(), 1) << shard.reducer();
      const v1::Relay& relay = shard.relays(0);
      relays.insert(relay.peer());
      if (region == "eu") {
        EXPECT_THAT(MembersOf(plan.proto(), relay), ElementsAre("us-1", "us-2", "us-3"));
      } else {
        EXPECT_THAT(MembersOf(plan.proto(), relay), ElementsAre("eu-1", "eu-2"));
      }
    } else {
      EXPECT_EQ(shard.relays_size(), 2);  // x is alone: both regions relay to it
    }
  }
  EXPECT_GE(relays.size(), 4u) << "a few do all the work of their regions";
}

// Would break: a region averages first at one whom its members cannot reach.
TEST(ReductionPlan, WhoMayNotReduceRelaysNothing) {
  ExchangeTerms terms;
  terms.version = 5;
  terms.parameters = 12 * 4096;
  terms.chunk_elements = 4096;
  terms.by_region = true;
  std::vector<ExchangeContributor> contributors =
      EqualContributors({"eu-1", "eu-2", "us-1", "us-2"});
  contributors[1].may_reduce = false;
  const ReductionPlan plan(terms, contributors);
  int relays = 0;
  for (const v1::Shard& shard : plan.proto().shards()) {
    EXPECT_NE(shard.reducer(), "eu-2");
    for (const v1::Relay& relay : shard.relays()) {
      EXPECT_NE(relay.peer(), "eu-2");
      ++relays;
    }
  }
  EXPECT_GT(relays, 0);
}

// Would break: a region's members go on sending to a relay that is dead, or a shard whose relay is
// alive loses what it has averaged.
TEST(ReductionPlan, ALostRelayIsReplacedWithinTheAttempt) {
  ReductionPlan plan = Make({"eu-1", "us-1", "us-2", "us-3"}, true);
  const v1::Plan before = plan.proto();
  ASSERT_EQ(before.shards(0).reducer(), "eu-1");
  const std::string relay = before.shards(0).relays(0).peer();
  plan.Lose(relay);
  std::vector<std::string> events;
  ASSERT_TRUE(plan.MoveFrom({relay}, &events));
  const v1::Shard& shard = plan.proto().shards(0);
  ASSERT_EQ(shard.relays_size(), 1);
  EXPECT_NE(shard.relays(0).peer(), relay);
  EXPECT_EQ(MembersOf(plan.proto(), shard.relays(0)).size(), 2u);
  EXPECT_EQ(shard.attempt(), 1u);
  // With one left of the region there is nothing to average: it sends itself.
  const std::string second = shard.relays(0).peer();
  plan.Lose(second);
  ASSERT_TRUE(plan.MoveFrom({second}, &events));
  EXPECT_THAT(plan.proto().shards(0).relays(), IsEmpty());
}

// Would break: after the reducer's death the relays of the former attempt are named again, among
// them perhaps the new reducer.
TEST(ReductionPlan, ANewReducerHasRelaysOfItsOwn) {
  ReductionPlan plan = Make({"eu-1", "eu-2", "us-1", "us-2"}, true);
  const std::string reducer = plan.proto().shards(0).reducer();
  ASSERT_EQ(reducer, "eu-1");
  for (const char* peer : {"eu-1", "eu-2"}) plan.Lose(peer);
  std::vector<std::string> events;
  ASSERT_TRUE(plan.MoveFrom({"eu-1", "eu-2"}, &events));
  for (const v1::Shard& shard : plan.proto().shards()) {
    for (const v1::Relay& relay : shard.relays()) EXPECT_NE(relay.peer(), shard.reducer());
    EXPECT_THAT(shard.relays(), IsEmpty());  // all that are left lie in one region
  }
}

// Would break: a revision that redoes a liar's shard still names a holder or a relay that has left
// meanwhile, and no peer believes it.
TEST(ReductionPlan, WhatIsRedoneLeansOnNobodyThatIsLost) {
  ReductionPlan plan = Make({"a", "b", "c", "d"});
  plan.NoteHeld("c", 0, 1);
  std::vector<std::string> events;
  plan.Lose("a");
  ASSERT_TRUE(plan.MoveFrom({"a"}, &events));
  ASSERT_EQ(plan.proto().shards(0).holder(), "c");
  plan.Lose("c");
  ASSERT_TRUE(plan.Redo({"b"}));
  for (const v1::Shard& shard : plan.proto().shards()) {
    EXPECT_EQ(shard.reducer(), "d");
    EXPECT_THAT(shard.holder(), IsEmpty());
  }
  EXPECT_EQ(plan.proto().shards(3).attempt(), 1u) << "its own nobody has doubted";

  ReductionPlan regions = Make({"eu-1", "us-1", "us-2", "us-3"}, true);
  const std::string relay = regions.proto().shards(0).relays(0).peer();
  const std::string doubted = relay == "us-1" ? "us-2" : "us-1";
  regions.Lose(relay);
  ASSERT_TRUE(regions.Redo({doubted}));
  for (const v1::Shard& shard : regions.proto().shards()) {
    EXPECT_NE(shard.reducer(), relay);
    for (const v1::Relay& left : shard.relays()) EXPECT_NE(left.peer(), relay);
  }
}

}  // namespace
}  // namespace atolld

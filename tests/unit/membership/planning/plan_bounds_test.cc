#include "membership/planning/plan_bounds.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/bitmap.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "membership/planning/plan_choice.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;

constexpr double kSmallBytes = 104e3;  // 102,400 values as int8
constexpr double kLargeBytes = 1e9;

// As a coordinator plans where nothing is known of any line.
ReductionPlan PlanFor(size_t peers, double bytes, PlanKind kind = PlanKind::kAuto) {
  ExchangeTerms terms;
  terms.version = 1;
  terms.parameters = static_cast<uint64_t>(bytes);
  terms.chunk_elements = bytes > 1e6 ? 65536 : 4096;
  const auto chunks = static_cast<uint32_t>(terms.parameters / terms.chunk_elements + 1);
  std::vector<ExchangeContributor> contributors(peers);
  const ChosenPlan chosen = PlanChoice(kind).Choose(nullptr, std::vector<bool>(peers, true),
                                                    {terms.parameters, bytes, bytes}, chunks);
  terms.grouping = chosen.grouping;
  for (size_t i = 0; i < peers; ++i) {
    contributors[i].member.set_peer(absl::StrCat("p", 1000 + i));
    contributors[i].member.set_address("here:1");
    contributors[i].has_shard = chosen.bandwidths[i] > 0;
  }
  return ReductionPlan(terms, contributors);
}

struct Streams {
  size_t all = 0;
  size_t most_of_a_peer = 0;
};

// Each pair of which one dials the other, by whom the shards' chunks go.
Streams StreamsOf(const v1::Plan& plan) {
  std::set<std::pair<std::string, std::string>> pairs;
  for (const v1::Shard& shard : plan.shards()) {
    for (int i = 0; i < plan.contributors_size(); ++i) {
      const std::string& peer = plan.contributors(i).peer();
      std::string target = shard.reducer();
      for (const v1::Relay& relay : shard.relays()) {
        const bool member = BitAt(relay.members(), static_cast<size_t>(i));
        if (member && relay.peer() != peer) target = relay.peer();
      }
      if (target != peer) pairs.emplace(peer, target);
    }
  }
  std::map<std::string, size_t> ends;
  for (const auto& [from, to] : pairs) {
    ++ends[from];
    ++ends[to];
  }
  Streams streams;
  streams.all = pairs.size();
  for (const auto& [peer, count] : ends) {
    streams.most_of_a_peer = std::max(streams.most_of_a_peer, count);
  }
  return streams;
}

std::set<std::string> ReducersOf(const v1::Plan& plan) {
  std::set<std::string> reducers;
  for (const v1::Shard& shard : plan.shards()) reducers.insert(shard.reducer());
  return reducers;
}

// Would break: streams that cost more than what they carry, as the square of the peers.
TEST(PlanBounds, SmallUpdatesOfManyPeersHaveFewReducers) {
  const ReductionPlan few = PlanFor(11, kSmallBytes);
  EXPECT_EQ(ReducersOf(few.proto()).size(), 11u);  // nobody notices 110 streams
  EXPECT_EQ(StreamsOf(few.proto()).all, 11u * 10);
  const ReductionPlan more = PlanFor(16, kSmallBytes);
  EXPECT_EQ(ReducersOf(more.proto()).size(), 8u);
  EXPECT_EQ(StreamsOf(more.proto()).all, 8u * 15);
  const ReductionPlan many = PlanFor(128, kSmallBytes);
  EXPECT_EQ(ReducersOf(many.proto()).size(), 6u);
  EXPECT_EQ(StreamsOf(many.proto()).all, 6u * 127);
  const ReductionPlan crowd = PlanFor(1000, kSmallBytes);
  EXPECT_EQ(ReducersOf(crowd.proto()).size(), 16u);
  EXPECT_LE(StreamsOf(crowd.proto()).all, 2000u);
  EXPECT_LE(StreamsOf(crowd.proto()).most_of_a_peer, 128u);
  // Without relays, as a robust rule has to have it.
  const ReductionPlan flat = PlanFor(1000, kSmallBytes, PlanKind::kFlat);
  EXPECT_EQ(StreamsOf(flat.proto()).all, 16u * 999);
}

// Would break: large updates that wait for the lines of a few, while all others' stand idle.
TEST(PlanBounds, LargeUpdatesUseEverybody) {
  for (const size_t peers : {16u, 128u}) {
    const ReductionPlan plan = PlanFor(peers, kLargeBytes);
    EXPECT_EQ(ReducersOf(plan.proto()).size(), peers);
    EXPECT_EQ(StreamsOf(plan.proto()).all, peers * (peers - 1));
  }
  // With two levels the relays carry it: all of a group share its shards.
  const ReductionPlan crowd = PlanFor(1000, kLargeBytes);
  std::set<std::string> relays;
  for (const v1::Shard& shard : crowd.proto().shards()) {
    for (const v1::Relay& relay : shard.relays()) relays.insert(relay.peer());
  }
  EXPECT_EQ(relays.size(), 1000u);
  EXPECT_LE(StreamsOf(crowd.proto()).most_of_a_peer, kMostStreams);
  EXPECT_LT(crowd.proto().ByteSizeLong(), 3u << 20);  // a message has at most 4 MiB
}

// Would break: a step in what is planned where one peer more or one byte more comes.
TEST(PlanBounds, GrowWithBytesAndAreNeverFewerThanThree) {
  const ModelAssumptions assumed;
  for (size_t peers = 1; peers <= 300; ++peers) {
    size_t before = 0;
    for (double bytes = 1e3; bytes < 1e9; bytes *= 2) {
      const PlanBounds bounds = BoundsOf(peers, bytes, true, assumed);
      EXPECT_GE(bounds.reducers, std::min<size_t>(peers, 3));
      EXPECT_GE(4 * bounds.reducers * bounds.reducers, peers);
      EXPECT_LE(bounds.reducers, peers);
      EXPECT_GE(bounds.reducers, before);
      EXPECT_EQ(bounds.grouping.any(), peers > kMostStreams);
      before = bounds.reducers;
    }
    EXPECT_EQ(BoundsOf(peers, 1e9, false, assumed).reducers, peers);
    EXPECT_FALSE(BoundsOf(peers, 1e9, false, assumed).grouping.any());
  }
}

// Would break: a dead reducer's shards that nobody takes, or that all go to the other few.
TEST(PlanBounds, ALostReducersShardGoesToAnother) {
  ReductionPlan plan = PlanFor(128, kSmallBytes);
  const std::string lost = plan.proto().shards(0).reducer();
  const std::set<std::string> before = ReducersOf(plan.proto());
  plan.Lose(lost);
  std::vector<std::string> events;
  ASSERT_TRUE(plan.MoveFrom({lost}, &events));
  const std::string heir = plan.proto().shards(0).reducer();
  EXPECT_EQ(before.count(heir), 0u);  // one that has nothing to do
  EXPECT_EQ(plan.proto().shards(0).attempt(), 2u);
  EXPECT_EQ(plan.proto().shards(1).attempt(), 1u);
}

// Would break: a group whose relay is lost would have no other, or begin anew.
TEST(PlanBounds, ALostRelaysGroupHasAnother) {
  ReductionPlan plan = PlanFor(1000, kSmallBytes);
  const std::string lost = plan.proto().shards(0).relays(3).peer();
  const std::string members = plan.proto().shards(0).relays(3).members();
  plan.Lose(lost);
  std::vector<std::string> events;
  ASSERT_TRUE(plan.MoveFrom({lost}, &events));
  EXPECT_EQ(plan.proto().shards(0).attempt(), 1u);
  bool found = false;
  for (const v1::Relay& relay : plan.proto().shards(0).relays()) {
    EXPECT_NE(relay.peer(), lost);
    found = found || Contains(members, relay.members());
  }
  EXPECT_TRUE(found);
}

// Would break: groups across regions, whose members are far from each other.
TEST(Grouping, DividesEachRegionEvenly) {
  EXPECT_THAT(GroupsOf({2, 1}, {"eu", "us", "eu", "eu", "", ""}),
              ElementsAre("eu/0", "us/0", "eu/0", "eu/1", "/0", "/0"));
  EXPECT_THAT(FirstOf({1, 0, 2, 1, 2}, 2, {1, 9, 2, 1, 2}), ElementsAre(0, 0, 2, 0, 2));
  EXPECT_THAT(FirstOf({1, 0, 2, 1}, 2, {1, 1, 1, 1}), ElementsAre(1, 0, 2, 0));
}

}  // namespace
}  // namespace atolld

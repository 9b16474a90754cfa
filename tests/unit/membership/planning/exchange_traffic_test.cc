#include "membership/planning/exchange_traffic.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "membership/history/bitmap.h"
#include "membership/planning/reduction_plan.h"

namespace atolld {
namespace {

// Three regions, of which one is behind NAT, one has three peers that can relay, and one is alone.
LinkModel Network() {
  LinkModel links;
  for (const char* name : {"a", "b", "c"}) links.AddRegion(name);
  const auto add = [&](size_t region, int count, bool reachable) {
    for (int i = 1; i <= count; ++i) {
      links.AddPeer({absl::StrCat(links.regions()[region], "-", i), region, 1e6, 1e6,
                     absl::Milliseconds(1), reachable});
    }
  };
  add(0, 3, true);
  add(1, 2, false);
  add(2, 1, true);
  links.AddLink(0, 1, 1e6, absl::Milliseconds(10));
  links.AddLink(0, 2, 1e6, absl::Milliseconds(20));
  EXPECT_TRUE(links.Connect().ok());
  return links;
}

struct Sent {
  std::vector<Share> up, down, link;
};

// What one chunk costs from one peer to another.
void Send(const LinkModel& links, size_t from, size_t to, const Share& share, Sent* sent) {
  if (from == to) return;
  sent->up[from] += share;
  sent->down[to] += share;
  for (const size_t link : links.Route(links.peers()[from].region, links.peers()[to].region)) {
    sent->link[link] += share;
  }
}

// Follows every shard of a real plan from each contributor to its reducer and back.
Sent BruteForce(const LinkModel& links, bool by_region, uint32_t chunks,
                const std::vector<double>& bandwidths) {
  std::vector<ExchangeContributor> contributors;
  for (const PeerLink& peer : links.peers()) {
    ExchangeContributor one;
    one.member.set_peer(peer.name);
    one.member.set_address(peer.name);
    one.may_reduce = peer.reachable;
    one.bandwidth = bandwidths[contributors.size()];
    one.region = links.regions()[peer.region];
    // A relay needs an address, and who is behind NAT has none that others reach.
    if (!peer.reachable) one.member.clear_address();
    contributors.push_back(one);
  }
  ExchangeTerms terms;
  terms.parameters = chunks;
  terms.by_region = by_region;
  const ReductionPlan plan(terms, contributors);
  const auto index = [&](const std::string& name) {
    for (size_t i = 0; i < contributors.size(); ++i) {
      if (contributors[i].member.peer() == name) return i;
    }
    ADD_FAILURE() << name;
    return size_t{0};
  };
  Sent sent{std::vector<Share>(contributors.size()), std::vector<Share>(contributors.size()),
            std::vector<Share>(links.links().size())};
  for (const v1::Shard& shard : plan.proto().shards()) {
    const double share = static_cast<double>(shard.chunks()) / chunks;
    const size_t reducer = index(shard.reducer());
    std::vector<size_t> to(contributors.size(), reducer);
    for (const v1::Relay& relay : shard.relays()) {
      for (size_t i = 0; i < contributors.size(); ++i) {
        if (BitAt(relay.members(), i) && i != index(relay.peer())) to[i] = index(relay.peer());
      }
    }
    for (size_t i = 0; i < contributors.size(); ++i) {
      // A relay is whom another of its region sends to; it sends on what is a mean by then.
      const bool relays = to[i] == reducer && std::count(to.begin(), to.end(), i) > 0;
      Send(links, i, to[i], relays ? Share{0, share} : Share{share, 0}, &sent);
      Send(links, to[i], i, {0, share}, &sent);
    }
  }
  return sent;
}

void ExpectEqual(const std::vector<Share>& expected, const std::vector<Share>& stages) {
  ASSERT_EQ(expected.size(), stages.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(expected[i].updates, stages[i].updates, 1e-12) << i;
    EXPECT_NEAR(expected[i].means, stages[i].means, 1e-12) << i;
  }
}

// Would break: predictions for another exchange than the one that is planned.
TEST(ExchangeTraffic, IsWhatARealPlanSends) {
  const LinkModel links = Network();
  for (const uint32_t chunks : {1u, 2u, 4u, 7u, 100u}) {
    for (const PlanShape shape : {PlanShape::kFlat, PlanShape::kRegions, PlanShape::kWeighted,
                                  PlanShape::kWeightedRegions}) {
      std::vector<double> bandwidths(6, 1);
      if (Weighted(shape)) bandwidths = {3, 1, 2, 0, 0, 5};
      const Sent expected = BruteForce(links, ByRegion(shape), chunks, bandwidths);
      const ExchangeTraffic traffic = Weighted(shape) ? TrafficOf(links, shape, chunks, bandwidths)
                                                      : TrafficOf(links, shape, chunks);
      Sent sum{std::vector<Share>(6), std::vector<Share>(6), std::vector<Share>(4)};
      for (const StageTraffic& stage : traffic.stages) {
        for (size_t i = 0; i < 6; ++i) sum.up[i] += stage.up[i];
        for (size_t i = 0; i < 6; ++i) sum.down[i] += stage.down[i];
        for (size_t i = 0; i < 4; ++i) sum.link[i] += stage.link[i];
      }
      ExpectEqual(expected.up, sum.up);
      ExpectEqual(expected.down, sum.down);
      ExpectEqual(expected.link, sum.link);
    }
  }
}

// Would break: a crowd behind NAT predicted as if its aggregator had an update of its own, or as if
// somebody else reduced. All pass their whole vector to it and get the whole mean back.
TEST(ExchangeTraffic, AnAggregatorReducesAndSendsNothingOfItsOwn) {
  LinkModel links;
  links.AddRegion("open");
  links.AddRegion("home");
  for (int i = 0; i < 3; ++i) {
    links.AddPeer({absl::StrCat("p", i), 1, 1e6, 1e6, absl::Milliseconds(5), false});
  }
  links.AddLink(0, 1, 1e9, absl::Milliseconds(20));
  links.SetCoordinator({"coordinator", 0, 2e6, 2e6, absl::Milliseconds(1)});
  ASSERT_TRUE(links.Connect().ok());
  const absl::Duration alone = links.CoordinatorRtt();
  links.AddAggregator();
  EXPECT_EQ(links.contributors(), 3u);
  EXPECT_EQ(links.CoordinatorRtt(), alone);
  for (const PlanShape shape : {PlanShape::kFlat, PlanShape::kRegions}) {
    const ExchangeTraffic traffic = TrafficOf(links, shape, 10);
    ASSERT_EQ(traffic.stages.size(), 2u);
    EXPECT_EQ(traffic.relays, 0u);
    EXPECT_EQ(traffic.longest_shard, 10u);
    const StageTraffic& forth = traffic.stages[0];
    const StageTraffic& back = traffic.stages[1];
    const std::vector<Share> updates = {{1, 0}, {1, 0}, {1, 0}, {0, 0}};
    const std::vector<Share> means = {{0, 1}, {0, 1}, {0, 1}, {0, 0}};
    ExpectEqual(updates, forth.up);
    ExpectEqual({{0, 0}, {0, 0}, {0, 0}, {3, 0}}, forth.down);
    ExpectEqual({{0, 0}, {0, 0}, {0, 0}, {0, 3}}, back.up);
    ExpectEqual(means, back.down);
    EXPECT_DOUBLE_EQ(traffic.decoded[3], 3);
    EXPECT_DOUBLE_EQ(traffic.encoded[3], 1);
    EXPECT_EQ(traffic.rtt, absl::Milliseconds(2 * (5 + 10 + 1)));
  }
}

// Would break: links that are said to carry more than one partial mean of a region.
TEST(ExchangeTraffic, ARelayedRegionSendsTheVectorOnce) {
  LinkModel links;
  links.AddRegion("a");
  links.AddRegion("b");
  for (int i = 0; i < 8; ++i) {
    links.AddPeer({absl::StrCat("p", i), i < 4 ? size_t{0} : size_t{1}, 1e6, 1e6,
                   absl::Milliseconds(1), true});
  }
  links.AddLink(0, 1, 1e6, absl::Milliseconds(10));
  ASSERT_TRUE(links.Connect().ok());
  // Half of the shards are reduced on either side: half of the vector up and half down, one way.
  const ExchangeTraffic regions = TrafficOf(links, PlanShape::kRegions, 8);
  EXPECT_DOUBLE_EQ(regions.between_regions.updates, 0);  // partial means alone
  EXPECT_DOUBLE_EQ(regions.between_regions.means, 2);
  EXPECT_EQ(regions.stages.size(), 4u);
  EXPECT_EQ(regions.rtt, absl::Milliseconds(4) + absl::Milliseconds(14));
  const ExchangeTraffic flat = TrafficOf(links, PlanShape::kFlat, 8);
  EXPECT_DOUBLE_EQ(flat.between_regions.updates, 4);
  EXPECT_DOUBLE_EQ(flat.between_regions.means, 4);
  EXPECT_EQ(flat.stages.size(), 2u);
  EXPECT_EQ(flat.rtt, absl::Milliseconds(14));
}

// Would break: routes over a slow detour, or a network in two parts taken for one.
TEST(LinkModel, TakesTheWayOfTheLeastDelay) {
  LinkModel links;
  for (const char* name : {"a", "b", "c", "d"}) links.AddRegion(name);
  links.AddLink(0, 2, 1, absl::Milliseconds(100));
  links.AddLink(0, 1, 1, absl::Milliseconds(30));
  links.AddLink(1, 2, 1, absl::Milliseconds(40));
  EXPECT_EQ(links.Connect().message(), "no link leads from region 'a' to region 'd'");
  links.AddLink(2, 3, 1, absl::Milliseconds(2));
  ASSERT_TRUE(links.Connect().ok());
  EXPECT_EQ(links.Route(0, 3), (std::vector<size_t>{2, 4, 6}));
  EXPECT_EQ(links.Route(3, 0), (std::vector<size_t>{7, 5, 3}));
  EXPECT_EQ(links.Delay(0, 3), absl::Milliseconds(36));
}

}  // namespace
}  // namespace atolld

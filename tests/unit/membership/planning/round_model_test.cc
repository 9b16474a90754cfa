#include "membership/planning/round_model.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/bitmap.h"
#include "gtest/gtest.h"
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
  std::set<std::pair<size_t, size_t>> streams;  // from whom to whom
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
Sent BruteForcePlan(const LinkModel& links, bool by_region, uint32_t chunks,
                    const std::vector<double>& bandwidths, const Grouping& grouping) {
  std::vector<ExchangeContributor> contributors;
  for (const PeerLink& peer : links.peers()) {
    ExchangeContributor one;
    one.member.set_peer(peer.name);
    one.member.set_address(peer.name);
    one.may_reduce = peer.reachable;
    one.bandwidth = bandwidths[contributors.size()];
    one.has_shard = one.bandwidth > 0;
    one.region = links.regions()[peer.region];
    // A relay needs an address, and who is behind NAT has none that others reach.
    if (!peer.reachable) one.member.clear_address();
    contributors.push_back(one);
  }
  ExchangeTerms terms;
  terms.parameters = chunks;
  terms.by_region = by_region;
  terms.grouping = grouping;
  const ReductionPlan plan(terms, contributors);
  const auto index = [&](const std::string& name) {
    for (size_t i = 0; i < contributors.size(); ++i) {
      if (contributors[i].member.peer() == name) return i;
    }
    ADD_FAILURE() << name;
    return size_t{0};
  };
  Sent sent{std::vector<Share>(contributors.size()),
            std::vector<Share>(contributors.size()),
            std::vector<Share>(links.links().size()),
            {}};
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
      const Share update = links.peers()[i].slow ? Share{0, 0, share} : Share{share, 0, 0};
      Send(links, i, to[i], relays ? Share{0, share, 0} : update, &sent);
      Send(links, to[i], i, {0, share, 0}, &sent);
      if (to[i] != i) sent.streams.emplace(i, to[i]);
    }
  }
  return sent;
}

void ExpectEqual(const std::vector<Share>& expected, const std::vector<Share>& stages) {
  ASSERT_EQ(expected.size(), stages.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(expected[i].updates, stages[i].updates, 1e-12) << i;
    EXPECT_NEAR(expected[i].means, stages[i].means, 1e-12) << i;
    EXPECT_NEAR(expected[i].slow_updates, stages[i].slow_updates, 1e-12) << i;
  }
}

// Would break: predictions for another exchange than the one that is planned.
TEST(ExchangeTraffic, IsWhatARealPlanSends) {
  LinkModel links = Network();
  for (const size_t slow : {1, 4, 5}) links.SetSlow(slow, true);  // a relay, a member, a reducer
  // By whole regions, by groups that one or two peers relay for, and with few reducers.
  for (const Grouping& grouping : {Grouping{}, Grouping{2, 1}, Grouping{3, 2}})
    for (const uint32_t chunks : {1u, 2u, 4u, 7u, 100u}) {
      for (const PlanShape shape : {PlanShape::kFlat, PlanShape::kRegions, PlanShape::kWeighted,
                                    PlanShape::kWeightedRegions}) {
        std::vector<double> bandwidths = {1, 1, 1, 0, 0, 1};
        if (Weighted(shape)) bandwidths = {3, 1, 0, 0, 0, 5};
        const Sent expected = BruteForcePlan(links, ByRegion(shape), chunks, bandwidths, grouping);
        const ExchangeTraffic traffic = TrafficOf(links, shape, chunks, bandwidths, grouping);
        std::vector<size_t> ends(6, 0);
        for (const auto& [from, to] : expected.streams) {
          ++ends[from];
          ++ends[to];
        }
        EXPECT_EQ(traffic.ends, ends);
        Sent sum{std::vector<Share>(6), std::vector<Share>(6), std::vector<Share>(4), {}};
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

// -----------------------------------------------------------------------------------------------

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Lines alone take time.
ModelAssumptions Ideal() { return {1, 1, kInfinite, kInfinite, kInfinite, kInfinite}; }

LinkModel Equal(int peers, double bytes_per_second, absl::Duration delay) {
  LinkModel links;
  links.AddRegion("one");
  for (int i = 0; i < peers; ++i) {
    links.AddPeer({absl::StrCat("p", i), 0, bytes_per_second, bytes_per_second, delay, true});
  }
  EXPECT_TRUE(links.Connect().ok());
  return links;
}

double Ideally(int peers, double bytes, double bytes_per_second) {
  const LinkModel links = Equal(peers, bytes_per_second, absl::ZeroDuration());
  const ExchangeTraffic traffic =
      TrafficOf(links, PlanShape::kFlat, static_cast<uint32_t>(1000 * peers));
  return PredictExchange(links, traffic, {1, bytes, bytes}, Ideal()).seconds;
}

// Would break: the model at odds with the bandwidth-optimal all-reduce that it is equal to, the
// scaling laws' 2 N bits / W (1 - 1 / R) (arXiv 2503.09799, appendix A).
TEST(RoundModel, EqualPeersTakeTheIdealisedWallClock) {
  for (const int replicas : {2, 3, 8, 64}) {
    const double expected = 2 * 4e9 / 1e8 * (1 - 1.0 / replicas);
    EXPECT_NEAR(Ideally(replicas, 4e9, 1e8), expected, 1e-9 * expected);
  }
}

// Would break: utilisation that is not the published one. Streaming DiLoCo (arXiv 2501.18512),
// table 4, plain DiLoCo: Gbit/s for a share of compute, H = 100, 16 bits a value, two replicas. Its
// rates stand on a grid of 20 % steps, so the shares are met to a few hundredths.
TEST(RoundModel, UtilisationIsThatOfThePublishedTable) {
  struct Row {
    double parameters, step_seconds;
    std::vector<double> gigabits;
  };
  const std::vector<double> shares = {0.5, 0.8, 0.9, 0.95, 0.99};
  for (const Row& row :
       {Row{1e9, 0.1, {1.4, 6.2, 13.3, 23.3, 86.8}}, Row{10e9, 0.8, {1.7, 7.5, 16.0, 33.9, 104.8}},
        Row{100e9, 4.9, {3.0, 11.0, 23.3, 49.4, 184.2}}}) {
    for (size_t i = 0; i < shares.size(); ++i) {
      const double exchange = Ideally(2, 2 * row.parameters, row.gigabits[i] * 1e9 / 8);
      EXPECT_NEAR(ComputeUtilisation(100 * row.step_seconds, exchange), shares[i], 0.045)
          << row.parameters << " at " << row.gigabits[i];
    }
  }
}

// Would break: a network that gets better said to get slower.
TEST(RoundModel, MoreBandwidthIsNeverSlower) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> rate(1e5, 1e7);
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<PeerLink> peers;
    for (size_t i = 0; i < 7; ++i) {
      peers.push_back({absl::StrCat("p", i), i / 3, rate(random), rate(random),
                       absl::Milliseconds(5), i % 3 != 1});
    }
    const auto predict = [&](double link_rate, PlanShape shape) {
      LinkModel links;
      for (const char* name : {"a", "b", "c"}) links.AddRegion(name);
      for (const PeerLink& peer : peers) links.AddPeer(peer);
      links.AddLink(0, 1, link_rate, absl::Milliseconds(30));
      links.AddLink(1, 2, link_rate, absl::Milliseconds(60));
      EXPECT_TRUE(links.Connect().ok());
      const ExchangeTraffic traffic = TrafficOf(links, shape, 100);
      return PredictExchange(links, traffic, {4000000, 4e6, 4e6}, ModelAssumptions()).seconds;
    };
    const double link_rate = rate(random);
    for (const PlanShape shape : {PlanShape::kFlat, PlanShape::kRegions}) {
      const double before = predict(link_rate, shape);
      EXPECT_GT(before, 0);
      EXPECT_LE(predict(2 * link_rate, shape), before);
      for (PeerLink& peer : peers) {
        const PeerLink was = peer;
        peer.up *= 3;
        EXPECT_LE(predict(link_rate, shape), before);
        peer.down *= 3;
        EXPECT_LE(predict(link_rate, shape), before);
        peer = was;
      }
    }
  }
}

// Would break: weighted shards slower than equal ones, which they exist to beat.
TEST(RoundModel, WeightedShardsMeetTheirClosedForm) {
  LinkModel links;
  links.AddRegion("one");
  for (const double rate : {1e6, 2e6, 4e6, 9e6}) {
    links.AddPeer({absl::StrCat("p", rate), 0, rate, rate, absl::ZeroDuration(), true});
  }
  ASSERT_TRUE(links.Connect().ok());
  const auto seconds = [&](PlanShape shape) {
    const ExchangeTraffic traffic = TrafficOf(links, shape, 100000);
    return PredictExchange(links, traffic, {1, 8e6, 8e6}, Ideal()).lines_seconds;
  };
  // xi = max(1 / b_min, (n - 2 + m) / sum b) = max(1, 6 / 16) s a megabyte.
  EXPECT_NEAR(seconds(PlanShape::kWeighted), 8, 1e-3);
  EXPECT_NEAR(seconds(PlanShape::kFlat), 8 * 1.5, 1e-3);
}

// Would break: each term of the sum, by a network small enough to reckon by hand.
TEST(RoundModel, TermsAreWhatTheyAreCalled) {
  const LinkModel links = Equal(4, 1e6, absl::Milliseconds(10));
  const ExchangeTraffic traffic = TrafficOf(links, PlanShape::kFlat, 4);
  ModelAssumptions assumed;
  assumed.line_share = 0.5;
  assumed.first_window_bytes = 250000.0 / 3;  // a shard is three windows
  assumed.encode_bytes_per_second = 4e6;
  assumed.decode_bytes_per_second = 8e6;
  assumed.hash_bytes_per_second = 1e6;
  assumed.stream_seconds = 0.01;
  const ExchangePrediction found = PredictExchange(links, traffic, {1000000, 1e6, 1e6}, assumed);
  EXPECT_NEAR(found.lines_seconds, 3, 1e-9);   // 3/4 up, 3 x 1/4 means, at half of the line
  EXPECT_NEAR(found.stages_seconds, 3, 1e-9);  // one chunk a shard: the stages wait for each other
  EXPECT_NEAR(found.streams_seconds, 0.04 * 2, 1e-9);  // log2(1 + 3) round trips
  // 4 x 1/4 decoded, 1/4 encoded; three streams from it and three to it.
  EXPECT_NEAR(found.processor_seconds, 0.5 + 0.25 + 6 * 0.01, 1e-9);
  EXPECT_NEAR(found.round_trips_seconds, 0.04 + 0.02, 1e-9);  // a reducer's, the coordinator's
  EXPECT_NEAR(found.before_and_after_seconds, 1 + 0.5 + 2, 1e-9);
  EXPECT_NEAR(found.seconds, 3 + 0.06 + 3.5, 1e-9);
  EXPECT_NEAR(found.mean_bytes_sent, 1.5e6, 1e-3);
  EXPECT_EQ(found.bottleneck, "p0 up");
}

// Would break: levels of which one is predicted in the codec of the other. Two regions of three,
// whose peers' lines cost nothing: over the link pass partial means and means, in a flat plan
// updates and means.
TEST(RoundModel, EachLevelHasItsSize) {
  LinkModel links;
  for (const char* region : {"a", "b"}) {
    const size_t number = links.AddRegion(region);
    for (int i = 1; i <= 3; ++i) {
      links.AddPeer({absl::StrCat(region, i), number, 1e12, 1e12, absl::ZeroDuration(), true});
    }
  }
  links.AddLink(0, 1, 1e6, absl::ZeroDuration());
  ASSERT_TRUE(links.Connect().ok());
  const auto predict = [&](PlanShape shape, double update_bytes, double mean_bytes) {
    return PredictExchange(links, TrafficOf(links, shape, 600), {1000, update_bytes, mean_bytes},
                           Ideal());
  };
  // Half of the shards on either side: half of three updates one way, half of three means.
  EXPECT_NEAR(predict(PlanShape::kFlat, 16e6, 4e6).lines_seconds, 1.5 * 16 + 1.5 * 4, 1e-6);
  // Half of one partial mean, half of one mean; updates stay in their regions.
  EXPECT_NEAR(predict(PlanShape::kRegions, 16e6, 4e6).lines_seconds, 4, 1e-6);
  EXPECT_NEAR(predict(PlanShape::kRegions, 99e6, 4e6).bytes_between_regions, 8e6, 1);
  // What a peer sends, of six: five of its own sixths and, as a reducer, five means of a sixth.
  EXPECT_NEAR(predict(PlanShape::kFlat, 16e6, 4e6).mean_bytes_sent, 5.0 / 6 * 20e6, 1);
  // A link that they share gives less; nobody's own line does.
  ModelAssumptions lossy = Ideal();
  lossy.link_share = 0.5;
  const ExchangeTraffic by_region = TrafficOf(links, PlanShape::kRegions, 600);
  EXPECT_NEAR(PredictExchange(links, by_region, {1, 16e6, 4e6}, lossy).lines_seconds, 8, 1e-6);
  EXPECT_NEAR(PredictExchange(Equal(4, 1e6, absl::ZeroDuration()),
                              TrafficOf(Equal(4, 1e6, absl::ZeroDuration()), PlanShape::kFlat, 4),
                              {1, 1e6, 1e6}, lossy)
                  .lines_seconds,
              1.5, 1e-9);
  // The own update is hashed before, the mean after.
  ModelAssumptions hashing = Ideal();
  hashing.hash_bytes_per_second = 1e6;
  const ExchangeTraffic traffic = TrafficOf(links, PlanShape::kFlat, 600);
  EXPECT_NEAR(PredictExchange(links, traffic, {1, 16e6, 4e6}, hashing).before_and_after_seconds, 20,
              1e-6);
}

// Would break: a lone peer that waits for a network it does not use.
TEST(RoundModel, OnePeerSendsNothing) {
  const LinkModel links = Equal(1, 1, absl::Seconds(1));
  const ExchangeTraffic traffic = TrafficOf(links, PlanShape::kFlat, 3);
  const ExchangePrediction found = PredictExchange(links, traffic, {1000, 1000, 1000}, Ideal());
  EXPECT_EQ(found.mean_bytes_sent, 0);
  EXPECT_EQ(found.lines_seconds, 0);
}

}  // namespace
}  // namespace atolld

// The planner's whole circle on simulated lines: an exchange, what its peers saw come in, the
// estimates, the next plan, and how long that one takes beside what was predicted.
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "membership/planning/link_estimates.h"
#include "membership/planning/plan_choice.h"
#include "membership/planning/reduction_plan.h"
#include "tests/unit/daemon/exchange/swarm.h"

namespace atolld {
namespace {

constexpr uint64_t kManyElements = 1000000;
constexpr uint32_t kChunkElements = 4096;
constexpr double kEncoded = 1.015625 * kManyElements;  // int8: a scale every 64 values

struct Line {
  std::string peer;
  std::string region;
  double rate;  // bytes a second, each way
};

// One exchange after the other between the same peers, each planned by those before.
class Circle {
 public:
  Circle(std::vector<Line> lines, PlanKind kind) : lines_(std::move(lines)), choice_(kind) {}

  // How long it takes; `predicted`: seconds, 0 where nothing was known.
  double Run(double* predicted) {
    SwarmSettings settings;
    settings.elements = kManyElements;
    settings.chunk_elements = kChunkElements;
    settings.failure_timeout = absl::Seconds(10);
    settings.sim.network.link.latency = absl::Milliseconds(10);
    Swarm swarm(settings);
    std::vector<ExchangeContributor> contributors;
    std::vector<KnownPeer> known;
    std::vector<std::string> names;
    for (const Line& line : lines_) {
      swarm.Add(line.peer);
      swarm.world.network().SetPeerRate(line.peer, line.rate);
      ExchangeContributor one;
      one.member = swarm.MakePlan({line.peer}, {line.peer}).contributors(0);
      one.region = line.region;
      contributors.push_back(one);
      known.push_back({line.peer, line.region});
      names.push_back(line.peer);
    }
    const auto chunks =
        static_cast<uint32_t>((kManyElements + kChunkElements - 1) / kChunkElements);
    const std::optional<LinkModel> links = estimates_.Model(known);
    chosen_ = choice_.Choose(links ? &*links : nullptr, WhoReduces({}, contributors),
                             {kManyElements, kEncoded, kEncoded}, chunks);
    *predicted = chosen_.prediction ? chosen_.prediction->seconds : 0;
    for (size_t i = 0; i < contributors.size(); ++i) {
      contributors[i].bandwidth = chosen_.bandwidths[i];
    }
    ExchangeTerms terms;
    terms.version = 7;
    terms.epoch = 3;
    terms.parameters = kManyElements;
    terms.chunk_elements = kChunkElements;
    terms.by_region = ByRegion(chosen_.shape);
    const ReductionPlan plan(terms, contributors);
    const absl::Duration began = swarm.world.now();
    for (const std::string& name : names) swarm.Give(name, plan.proto());
    EXPECT_TRUE(swarm.world.RunUntil([&] { return swarm.Complete(names, 1); }, absl::Minutes(5)));
    const double seconds = absl::ToDoubleSeconds(swarm.world.now() - began);
    swarm.CheckOutcomes(names, plan.proto(), names);
    std::vector<v1::Arrivals> told;
    std::vector<ExchangeWitness> witnesses;
    for (const Line& line : lines_) {
      Swarm::Peer& peer = swarm.peer(line.peer);
      told.push_back(*peer.arrivals.Report(peer.node->env.executor.Now()));
    }
    for (size_t i = 0; i < lines_.size(); ++i) {
      witnesses.push_back({lines_[i].peer, lines_[i].region, &told[i]});
    }
    EXPECT_TRUE(estimates_.Note(witnesses, least_bytes_, least_opening_));
    choice_.NoteArrived(estimates_.arrived_updates(), estimates_.arrived_means());
    choice_.NoteSeconds(seconds);
    return seconds;
  }

  // As where TCP begins slowly: no moment counts in which a line shows more than all together.
  void ShowNoMoments() {
    least_bytes_ = 1.4 * kEncoded;  // a line carries 1.5
    least_opening_ = std::numeric_limits<double>::infinity();
  }
  const LinkEstimates& estimates() const { return estimates_; }
  const ChosenPlan& chosen() const { return chosen_; }

 private:
  const std::vector<Line> lines_;
  double least_bytes_ = kEncoded / 8;
  double least_opening_ = 16 * kEncoded / kManyElements * kChunkElements;
  LinkEstimates estimates_;
  PlanChoice choice_;
  ChosenPlan chosen_;
};

// Would break: rates that are not the lines', shards that are not the closed form's, exchanges that
// take longer than they need to, and predictions that nobody can plan by.
TEST(ExchangeRates, TheSecondExchangeIsPlannedByWhatTheFirstHasShown) {
  const std::vector<Line> lines = {
      {"p1", "", 2e6}, {"p2", "", 2e6}, {"p3", "", 4e5}, {"p4", "", 2e5}};
  Circle circle(lines, PlanKind::kAuto);
  double predicted = 0;
  const double equal = circle.Run(&predicted);
  EXPECT_EQ(predicted, 0);
  EXPECT_NEAR(circle.estimates().Up("p4"), 2e5, 0.1 * 2e5);
  EXPECT_NEAR(circle.estimates().Down("p4"), 2e5, 0.1 * 2e5);
  const double second = circle.Run(&predicted);
  EXPECT_EQ(circle.chosen().shape, PlanShape::kWeighted);
  const double optimum = kEncoded / 2e5;  // p4's own update up, the mean down
  EXPECT_LT(second, 1.15 * optimum);
  EXPECT_LT(second, equal / 1.25);
  EXPECT_NEAR(predicted, second, 0.15 * second);
  // It stays so.
  const double third = circle.Run(&predicted);
  EXPECT_EQ(circle.chosen().change, "");
  EXPECT_NEAR(third, second, 0.02 * second);
  EXPECT_NEAR(predicted, third, 0.15 * third);
}

// Would break: equal shards for ever, where a fast line never shows what it can while all wait for
// a slow one.
TEST(ExchangeRates, WhoIsNeverWaitedForIsAskedForMore) {
  Circle circle({{"p1", "", 8e5}, {"p2", "", 8e5}, {"p3", "", 8e5}, {"p4", "", 2e5}},
                PlanKind::kAuto);
  circle.ShowNoMoments();
  double predicted = 0;
  const double equal = circle.Run(&predicted);
  EXPECT_LT(circle.estimates().Up("p1"), 1.1 * circle.estimates().Up("p4"));
  circle.Run(&predicted);
  EXPECT_EQ(predicted, 0);
  EXPECT_EQ(circle.chosen().change,
            "one exchange with less to reduce for p4, to see what other lines carry");
  const double third = circle.Run(&predicted);
  EXPECT_EQ(circle.chosen().shape, PlanShape::kWeighted);
  EXPECT_EQ(circle.chosen().change, "");
  EXPECT_LT(third, 1.15 * kEncoded / 2e5);  // p4's own update up, the mean down
  EXPECT_LT(third, equal / 1.25);
  EXPECT_NEAR(predicted, third, 0.15 * third);
}

// Would break: equal lines whose estimates differ enough to change the plan.
TEST(ExchangeRates, EqualLinesKeepEqualShards) {
  Circle circle({{"p1", "", 1e6}, {"p2", "", 1e6}, {"p3", "", 1e6}, {"p4", "", 1e6}},
                PlanKind::kAuto);
  double predicted = 0;
  for (int round = 0; round < 4; ++round) {
    const double seconds = circle.Run(&predicted);
    EXPECT_EQ(circle.chosen().shape, PlanShape::kFlat) << circle.chosen().change;
    if (round == 0) continue;
    EXPECT_NEAR(predicted, seconds, 0.15 * seconds);
  }
}

}  // namespace
}  // namespace atolld

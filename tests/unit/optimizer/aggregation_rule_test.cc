#include "optimizer/aggregation_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "optimizer/aggregation_kernels.h"
#include "optimizer/weighted_mean.h"
#include "tests/unit/optimizer/aggregation_oracle.h"

namespace atolld {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = UpdateProducts::Kind;

Vector Ones(size_t n) { return Vector(n, 1.0f); }

// Every rule in a form that takes n updates, as many as 5.
std::vector<AggregationRule> AllRules() {
  std::vector<AggregationRule> rules;
  for (const double clip : {0.0, 1.0}) {
    for (const std::string& name : AggregationRule::Names()) {
      const bool asks = name == "trimmed_mean" || name == "krum" || name == "multi_krum";
      rules.push_back(RuleOf(name, asks ? 1 : 0, clip));
    }
  }
  return rules;
}

TEST(AggregationRule, MeanIsTheWeightedMeansBits) {
  // Broken: a run's digests would change by naming the rule that it has always had.
  const Vectors updates = HonestUpdates(5, 1001, 0.5f, 1);
  const Vector weights = {3.5f, 0.1f, 1000.0f, 7.0f, 1.0f};
  Vector sum(1001);
  BeginMean(absl::MakeSpan(sum));
  for (size_t i = 0; i < updates.size(); ++i) {
    for (size_t k = 0; k < sum.size(); ++k) {
      const volatile float product = weights[i] * updates[i][k];
      sum[k] = sum[k] + product;
    }
  }
  ASSERT_TRUE(FinishMean(weights, absl::MakeSpan(sum)).ok());
  EXPECT_TRUE(SameBits(Aggregate(RuleOf("mean"), updates, weights).value(), sum));
}

TEST(AggregationRule, TrimmedMeanAndMedianAreThoseOfSortedColumns) {
  // Broken: a coordinate would keep what it should drop. Any floats, with ties.
  TestRandom random(5);
  for (const size_t n : {1, 2, 3, 4, 5, 8, 9, 16, 33, 64}) {
    Vectors updates;
    for (size_t i = 0; i < n; ++i) updates.push_back(AnyFiniteValues(300, i + 1));
    for (Vector& update : updates) {
      for (size_t k = 0; k < 100; ++k) update[k] = static_cast<float>(random.Next() % 3) - 1.0f;
      for (size_t k = 0; k < 50; ++k) update[k] *= 0.0f;  // zeros of both signs
    }
    const Vector median = OracleTrimmedMean(updates, Ones(n), (n - 1) / 2);
    EXPECT_TRUE(SameBits(Aggregate(RuleOf("median"), updates, Ones(n)).value(), median)) << n;
    for (uint32_t faulty = 1; faulty <= 31 && 2 * faulty < n; faulty += 3) {
      const Vector trimmed = OracleTrimmedMean(updates, Ones(n), faulty);
      EXPECT_TRUE(
          SameBits(Aggregate(RuleOf("trimmed_mean", faulty), updates, Ones(n)).value(), trimmed))
          << n << " " << faulty;
    }
  }
}

TEST(AggregationRule, MedianStaysBetweenTheMiddleValues) {
  // Broken: a median of two tiny or two huge values would be neither's neighbour.
  EXPECT_EQ(Aggregate(RuleOf("median"), {{1, -3}, {2, 5}}, Ones(2)).value(), (Vector{1.5f, 1.0f}));
  EXPECT_EQ(Aggregate(RuleOf("median"), {{1e-45f}, {1e-45f}}, Ones(2)).value(), Vector{1e-45f});
  EXPECT_EQ(Aggregate(RuleOf("median"), {{4}, {1}, {2}, {1e38f}}, Ones(4)).value(), Vector{3});
}

TEST(AggregationRule, TheOrderOfContributorsDoesNotMatter) {
  // Broken: what a peer counts would depend on when it joined. Rules by coordinates have the same
  // bits, the others sum in another order.
  Vectors updates = HonestUpdates(9, 400, 0.5f, 3);
  for (float& value : updates[4]) value *= -5;
  Vector weights(9, 1.0f);
  std::vector<size_t> order(9);
  std::iota(order.begin(), order.end(), size_t{0});
  for (const AggregationRule& rule : AllRules()) {
    const Vector centre = BellValues(400, 3);
    const Vector expected = Aggregate(rule, updates, weights, centre).value();
    TestRandom random(1);
    for (int draw = 0; draw < 10; ++draw) {
      for (size_t i = 8; i > 0; --i) std::swap(order[i], order[random.Next() % (i + 1)]);
      Vectors shuffled;
      for (const size_t i : order) shuffled.push_back(updates[i]);
      const Vector mean = Aggregate(rule, shuffled, weights, centre).value();
      if (rule.coordinatewise()) {
        EXPECT_TRUE(SameBits(mean, expected)) << rule.settings().rule;
      }
      EXPECT_LT(DistanceOf(RealsOf(mean), RealsOf(expected)), 1e-5L * NormOf(expected))
          << rule.settings().rule;
    }
  }
}

TEST(AggregationRule, EqualUpdatesGiveThemselves) {
  // Broken: a rule would divide by no distance, or choose nobody among equals.
  const Vector update = BellValues(777, 1);
  for (const AggregationRule& rule : AllRules()) {
    for (size_t n = rule.LeastContributors(); n <= 12; ++n) {
      const auto mean = Aggregate(rule, Vectors(n, update), Ones(n), update);
      ASSERT_TRUE(mean.ok()) << mean.status();
      EXPECT_LT(DistanceOf(RealsOf(*mean), RealsOf(update)), 1e-6L * NormOf(update))
          << rule.settings().rule << n;
    }
  }
}

TEST(AggregationRule, OneContributorsUpdateIsTheMean) {
  // Broken: a run of one peer could not name a rule. Centred clipping goes from the centre to it.
  const Vectors one = {BellValues(100, 1)};
  for (const AggregationRule& rule : AllRules()) {
    if (rule.LeastContributors() > 1) continue;
    EXPECT_EQ(Aggregate(rule, one, {3.0f}, BellValues(100, 2)).value(), one[0])
        << rule.settings().rule;
  }
}

TEST(AggregationRule, AllZeroUpdatesGiveZeros) {
  // Broken: norms of 0 would make NaNs.
  for (const AggregationRule& rule : AllRules()) {
    const auto mean = Aggregate(rule, Vectors(6, Vector(50, 0.0f)), Ones(6));
    EXPECT_THAT(mean.value(), Each(0.0f)) << rule.settings().rule;
  }
}

// What liars send instead of `honest`, the mean of what they know.
Vector Lie(int kind, const Vector& honest, size_t liar) {
  Vector lie = honest;
  for (size_t k = 0; k < lie.size(); ++k) {
    if (kind == 0) lie[k] = 1e30f;                                 // huge, all the same
    if (kind == 1) lie[k] *= -10;                                  // sign flip
    if (kind == 2) lie[k] = liar % 2 == 0 ? 3e38f : -3e38f;        // as huge as can be
    if (kind == 3) lie[k] = 0;                                     // nothing
    if (kind == 4) lie[k] *= 1e6f * static_cast<float>(1 + liar);  // exaggerated
  }
  return lie;
}

TEST(AggregationRule, BearsAsManyLiarsAsItSays) {
  // Broken: one liar among eight would ruin the model, as it does with the mean.
  struct Case {
    const char* rule;
    size_t contributors;
    uint32_t faulty;
  };
  for (const Case& test : std::vector<Case>{{"trimmed_mean", 8, 1},
                                            {"trimmed_mean", 8, 3},
                                            {"trimmed_mean", 3, 1},
                                            {"trimmed_mean", 63, 31},
                                            {"median", 8, 3},
                                            {"median", 9, 4},
                                            {"median", 3, 1},
                                            {"geometric_median", 8, 3},
                                            {"geometric_median", 9, 4},
                                            {"geometric_median", 3, 1},
                                            {"centred_clipping", 8, 1},
                                            {"centred_clipping", 9, 3},
                                            {"krum", 5, 1},
                                            {"krum", 9, 3},
                                            {"multi_krum", 5, 1},
                                            {"multi_krum", 9, 3}}) {
    for (const double clip : {0.0, 1.0}) {
      const AggregationRule rule = RuleOf(test.rule, test.faulty, clip);
      for (int kind = 0; kind < 5; ++kind) {
        Vectors updates = HonestUpdates(test.contributors, 200, 0.5f, 11);
        const Vectors honest(updates.begin() + test.faulty, updates.end());
        const Vector centre = Aggregate(RuleOf("mean"), honest, Ones(honest.size())).value();
        const Reals wanted = RealsOf(centre);
        long double spread = 0;
        for (const Vector& update : honest) {
          spread = std::max(spread, DistanceOf(RealsOf(update), wanted));
        }
        for (size_t i = 0; i < test.faulty; ++i) updates[i] = Lie(kind, centre, i);
        const auto mean = Aggregate(rule, updates, Ones(updates.size()), centre);
        ASSERT_TRUE(mean.ok()) << mean.status();
        // An honest update's distance from the honest mean, times what f near to n / 2 costs.
        EXPECT_LE(DistanceOf(RealsOf(*mean), wanted), 3 * spread)
            << test.rule << test.contributors << " lie " << kind << " clip " << clip;
      }
    }
  }
}

TEST(AggregationRule, TheMeanBearsNone) {
  // Broken: the test above would pass with lies that harm nobody.
  for (const int kind : {0, 1, 2, 4}) {
    Vectors updates = HonestUpdates(8, 200, 0.5f, 11);
    const Vector centre = Aggregate(RuleOf("mean"), updates, Ones(8)).value();
    updates[0] = Lie(kind, centre, 0);
    const Vector mean = Aggregate(RuleOf("mean"), updates, Ones(8)).value();
    EXPECT_GT(DistanceOf(RealsOf(mean), RealsOf(centre)), NormOf(centre)) << kind;
  }
}

TEST(AggregationRule, ClippingBoundsWhatOneUpdateCanDo) {
  // Broken: one update of norm 1e6 would be the mean. Norms, not directions, are bounded.
  Vectors updates = HonestUpdates(8, 200, 0.5f, 11);
  Reals norms;
  for (const Vector& update : updates) norms.push_back(NormOf(update));
  const long double median = OracleLowerMedian(norms);
  for (const int kind : {0, 1, 2, 4}) {
    Vectors lied = updates;
    lied[0] = Lie(kind, updates[0], 0);
    Vectors without(updates.begin() + 1, updates.end());
    for (const double clip : {0.5, 1.0, 3.0}) {
      const Vector mean = Aggregate(RuleOf("mean", 0, clip), lied, Ones(8)).value();
      EXPECT_LE(NormOf(mean), 1.05L * clip * *std::max_element(norms.begin(), norms.end()));
    }
    // By the norm of other rounds, where this round's cannot be trusted.
    const Vector mean = Aggregate(RuleOf("mean", 0, 1.0), lied, Ones(8), {}, 1e-3).value();
    EXPECT_LE(NormOf(mean), 1.0001e-3L);
  }
  const Vector two =
      Aggregate(RuleOf("mean", 0, 1.0), {updates[0], Vector(200, 1e20f)}, Ones(2)).value();
  EXPECT_LE(NormOf(two), 1.0001L * norms[0]);
  EXPECT_GT(median, 0);
}

TEST(AggregationRule, ClippingTouchesNoUpdateWithinTheMedian) {
  // Broken: honest updates would lose their last bits in every round.
  const Vectors updates = HonestUpdates(8, 200, 0.001f, 1);
  UpdateProducts products(Kind::kNorms, 8);
  ASSERT_TRUE(products.AddChunk(SpansOf(updates)).ok());
  const auto plan = RuleOf("mean", 0, 1.5).Plan(Ones(8), products);
  EXPECT_THAT(plan->scales, Each(1.0f));
  EXPECT_THAT(plan->weights, Each(1.0f));
}

TEST(AggregationRule, KrumKeepsOneAndMultiKrumAllButTheFaulty) {
  // Broken: a liar would be chosen, or honest work thrown away.
  Vectors updates = HonestUpdates(7, 100, 0.5f, 2);
  for (float& value : updates[3]) value *= -10;
  for (float& value : updates[5]) value *= -10;
  UpdateProducts products(Kind::kProducts, 7);
  ASSERT_TRUE(products.AddChunk(SpansOf(updates)).ok());
  const Vector weights = {1, 2, 3, 4, 5, 6, 7};
  const size_t best = OracleKrumOrder(updates, 2)[0];
  Vector expected(7, 0.0f);
  expected[best] = weights[best];
  EXPECT_EQ(RuleOf("krum", 2).Plan(weights, products)->weights, expected);
  EXPECT_EQ(Aggregate(RuleOf("krum", 2), updates, Ones(7)).value(), updates[best]);
  EXPECT_THAT(RuleOf("multi_krum", 2).Plan(weights, products)->weights,
              ElementsAre(1, 2, 3, 0, 5, 0, 7));
}

TEST(AggregationRule, CentredClippingStartsFromNothingBeforeTheFirstRound) {
  // Broken: the first round could not use it. From zero one step is clipping to the median norm.
  Vectors updates = HonestUpdates(5, 100, 0.5f, 2);
  for (float& value : updates[1]) value *= 1000;
  AggregationSettings settings;
  settings.rule = "centred_clipping";
  settings.clipping_steps = 1;
  const Vector mean = Aggregate(AggregationRule::Make(settings).value(), updates, Ones(5)).value();
  const Vector clipped = Aggregate(RuleOf("mean", 0, 1.0), updates, Ones(5)).value();
  EXPECT_LT(DistanceOf(RealsOf(mean), RealsOf(clipped)), 1e-6L * NormOf(clipped));
}

TEST(AggregationRule, AChunkIsCombinedOverWhomItHas) {
  // Broken: a contributor that died on the way would cost the round.
  const Vectors updates = HonestUpdates(4, 30, 0.5f, 2);
  const std::vector<absl::Span<const float>> rows = {updates[0], {}, updates[2], updates[3]};
  const Vectors there = {updates[0], updates[2], updates[3]};
  Vector mean(30);
  for (const char* name : {"mean", "median"}) {
    const AggregationRule rule = RuleOf(name);
    const auto plan = rule.Plan(Ones(4), UpdateProducts());
    ASSERT_TRUE(rule.Combine(*plan, rows, {}, absl::MakeSpan(mean)).ok());
    EXPECT_TRUE(SameBits(mean, Aggregate(rule, there, Ones(3)).value())) << name;
  }
  const AggregationRule careful = RuleOf("median", 1);
  EXPECT_TRUE(careful.Combine({Ones(4), Ones(4), 0}, rows, {}, absl::MakeSpan(mean)).ok());
  EXPECT_THAT(careful.Combine({{1, 1, 0, 1}, Ones(4), 0}, rows, {}, absl::MakeSpan(mean)).message(),
              HasSubstr("takes 3 updates of a chunk, 2 are here"));
}

TEST(AggregationRule, RefusesTooFewContributors) {
  // Broken: a rule would promise what so few updates cannot give, or read beyond its arrays.
  for (const auto& [name, least] :
       std::vector<std::pair<std::string, size_t>>{{"trimmed_mean", 5},
                                                   {"median", 5},
                                                   {"geometric_median", 5},
                                                   {"krum", 7},
                                                   {"multi_krum", 7},
                                                   {"centred_clipping", 5}}) {
    const AggregationRule rule = RuleOf(name, 2);
    EXPECT_EQ(rule.LeastContributors(), least);
    EXPECT_TRUE(Aggregate(rule, HonestUpdates(least, 9, 0.5f, 1), Ones(least)).ok()) << name;
    const auto few = Aggregate(rule, HonestUpdates(least - 1, 9, 0.5f, 1), Ones(least - 1));
    EXPECT_EQ(few.status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
  EXPECT_FALSE(Aggregate(RuleOf("mean"), Vectors(65, Vector(3)), Ones(65)).ok());
  EXPECT_FALSE(RuleOf("mean").Plan({}, UpdateProducts()).ok());
}

TEST(AggregationRule, RefusesWhatIsNoRound) {
  // Broken: a NaN that a peer or a reducer sends would reach every replica.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Vectors updates = HonestUpdates(5, 40, 0.5f, 1);
  updates[3][7] = nan;
  for (const AggregationRule& rule : AllRules()) {
    if (rule.needs() == Kind::kNone) continue;
    const absl::Status status = Aggregate(rule, updates, Ones(5)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << rule.settings().rule;
    EXPECT_THAT(status.message(), HasSubstr("update 3 is nan")) << rule.settings().rule;
  }
  const AggregationRule rule = RuleOf("geometric_median");
  EXPECT_FALSE(rule.Plan(Ones(3), UpdateProducts(Kind::kProducts, 4)).ok());
  EXPECT_FALSE(rule.Plan(Ones(3), UpdateProducts(Kind::kNorms, 3)).ok());
  EXPECT_FALSE(rule.Plan({1, nan, 1}, UpdateProducts(Kind::kProducts, 3)).ok());
  EXPECT_FALSE(rule.Plan({1, 0, 1}, UpdateProducts(Kind::kProducts, 3)).ok());
  EXPECT_FALSE(rule.Plan(Ones(3), UpdateProducts(Kind::kProducts, 3), -1).ok());
}

TEST(AggregationRule, CombineChangesNothingWhenItRefuses) {
  // Broken: memory would be read beyond a chunk's end, or a wrong mean be half written.
  const Vector four(4, 1.0f), five(5, 1.0f);
  for (const char* name : {"mean", "median"}) {
    const AggregationRule rule = RuleOf(name);
    Vector mean(4, 9.0f);
    const absl::Span<float> out = absl::MakeSpan(mean);
    EXPECT_FALSE(rule.Combine({Ones(2), Ones(2), 0}, {four}, {}, out).ok());
    EXPECT_FALSE(rule.Combine({Ones(2), Ones(1), 0}, {four, four}, {}, out).ok());
    EXPECT_FALSE(rule.Combine({Ones(2), Ones(2), 0}, {four, five}, {}, out).ok());
    EXPECT_FALSE(rule.Combine({Ones(2), Ones(2), 0}, {four, four}, five, out).ok());
    EXPECT_FALSE(rule.Combine({{0, 0}, Ones(2), 0}, {four, four}, {}, out).ok());
    EXPECT_EQ(mean, Vector(4, 9.0f));
  }
}

TEST(AggregationRule, RefusesSettingsThatMakeNoSense) {
  // Broken: a config would promise more than its rule can keep.
  EXPECT_EQ(AggregationRule::Make({"medain", 0, 0, 3}).status().message(),
            "unknown aggregation rule \"medain\": did you mean \"median\"? Known: "
            "centred_clipping, geometric_median, krum, mean, median, multi_krum, trimmed_mean");
  EXPECT_EQ(AggregationRule::Make({"mean", 1, 0, 3}).status().message(),
            "the rule mean takes faulty from 0 to 0, not 1");
  EXPECT_FALSE(AggregationRule::Make({"trimmed_mean", 0, 0, 3}).ok());
  EXPECT_FALSE(AggregationRule::Make({"trimmed_mean", 32, 0, 3}).ok());
  EXPECT_FALSE(AggregationRule::Make({"krum", 31, 0, 3}).ok());
  EXPECT_TRUE(AggregationRule::Make({"krum", 30, 0, 3}).ok());
  for (const double clip : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_FALSE(AggregationRule::Make({"mean", 0, clip, 3}).ok());
  }
  for (const uint32_t steps : {0, 17}) {
    EXPECT_FALSE(AggregationRule::Make({"centred_clipping", 0, 0, steps}).ok());
  }
}

}  // namespace
}  // namespace atolld

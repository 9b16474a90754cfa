// What liars can do to each rule: as little as docs/aggregation.md says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "optimizer/aggregation_rule.h"
#include "optimizer/outer_rule.h"
#include "tests/unit/optimizer/aggregation_oracle.h"

namespace atolld {
namespace {

using testing::Each;

Vector EqualWeights(size_t n) { return Vector(n, 1.0f); }

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

TEST(AggregationLiars, BearsAsManyLiarsAsItSays) {
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
        const Vector centre =
            Aggregate(RuleOf("mean"), honest, EqualWeights(honest.size())).value();
        const Reals wanted = RealsOf(centre);
        long double spread = 0;
        for (const Vector& update : honest) {
          spread = std::max(spread, DistanceOf(RealsOf(update), wanted));
        }
        for (size_t i = 0; i < test.faulty; ++i) updates[i] = Lie(kind, centre, i);
        const auto mean = Aggregate(rule, updates, EqualWeights(updates.size()), centre);
        ASSERT_TRUE(mean.ok()) << mean.status();
        // An honest update's distance from the honest mean, times what f near to n / 2 costs.
        EXPECT_LE(DistanceOf(RealsOf(*mean), wanted), 3 * spread)
            << test.rule << test.contributors << " lie " << kind << " clip " << clip;
      }
    }
  }
}

TEST(AggregationLiars, TheMeanBearsNone) {
  // Broken: the test above would pass with lies that harm nobody.
  for (const int kind : {0, 1, 2, 4}) {
    Vectors updates = HonestUpdates(8, 200, 0.5f, 11);
    const Vector centre = Aggregate(RuleOf("mean"), updates, EqualWeights(8)).value();
    updates[0] = Lie(kind, centre, 0);
    const Vector mean = Aggregate(RuleOf("mean"), updates, EqualWeights(8)).value();
    EXPECT_GT(DistanceOf(RealsOf(mean), RealsOf(centre)), NormOf(centre)) << kind;
  }
}

TEST(AggregationLiars, ClippingBoundsWhatOneUpdateCanDo) {
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
      const Vector mean = Aggregate(RuleOf("mean", 0, clip), lied, EqualWeights(8)).value();
      EXPECT_LE(NormOf(mean), 1.05L * clip * *std::max_element(norms.begin(), norms.end()));
    }
    // By the norm of other rounds, where this round's cannot be trusted.
    const Vector mean = Aggregate(RuleOf("mean", 0, 1.0), lied, EqualWeights(8), {}, 1e-3).value();
    EXPECT_LE(NormOf(mean), 1.0001e-3L);
  }
  const Vector two =
      Aggregate(RuleOf("mean", 0, 1.0), {updates[0], Vector(200, 1e20f)}, EqualWeights(2)).value();
  EXPECT_LE(NormOf(two), 1.0001L * norms[0]);
  EXPECT_GT(median, 0);
}

TEST(AggregationLiars, ClippingTouchesNoUpdateWithinTheMedian) {
  // Broken: honest updates would lose their last bits in every round.
  const Vectors updates = HonestUpdates(8, 200, 0.001f, 1);
  UpdateProducts products(UpdateProducts::Kind::kNorms, 8);
  ASSERT_TRUE(products.AddChunk(SpansOf(updates)).ok());
  const auto plan = RuleOf("mean", 0, 1.5).Plan(EqualWeights(8), products);
  EXPECT_THAT(plan->scales, Each(1.0f));
  EXPECT_THAT(plan->weights, Each(1.0f));
}

TEST(AggregationLiars, AGeometricMedianBearsLessThanHalfOfTheWeight) {
  // Broken: what the weights buy would be another thing than is written down.
  Vectors updates = HonestUpdates(5, 100, 0.5f, 4);
  const Reals honest = RealsOf(Aggregate(RuleOf("mean"), updates, EqualWeights(5)).value());
  const long double norm = NormOf(updates[0]);
  for (float& value : updates[4]) value = 1000;
  const AggregationRule rule = RuleOf("geometric_median");
  const Vector most = Aggregate(rule, updates, {1, 1, 1, 1, 3.5f}).value();
  EXPECT_LT(DistanceOf(RealsOf(most), honest), 10 * norm);
  const Vector over = Aggregate(rule, updates, {1, 1, 1, 1, 12}).value();
  EXPECT_GT(DistanceOf(RealsOf(over), honest), 1000 * norm);
}

// How far a small run ends from its goal, in units of how far it began: 8 peers go a third of the
// way each round, give or take noise; Nesterov momentum as DiLoCo has it; one peer sends its update
// tenfold and backwards, as in RoDiLoCo's runs.
long double EndOfRun(const AggregationRule& rule) {
  constexpr size_t kElements = 150;
  const OuterRule& nesterov = **FindOuterRule("nesterov");
  const OuterScalars scalars = nesterov.Scalars({0.7f, 0.9f}).value();
  const Vector goal = BellValues(kElements, 5);
  Vector theta(kElements, 0.0f), momentum(kElements, 0.0f), last;
  for (int round = 0; round < 60; ++round) {
    // The goal and a noise for each; the same in every round, so that it does not average out.
    Vectors updates = HonestUpdates(8, kElements, 1.0f, 5);
    for (size_t i = 0; i < updates.size(); ++i) {
      for (size_t k = 0; k < kElements; ++k) {
        updates[i][k] = 0.3f * (theta[k] - goal[k]) + 0.01f * (updates[i][k] - goal[k]);
        if (i == 3) updates[i][k] *= -10;
      }
    }
    last = Aggregate(rule, updates, EqualWeights(8), last).value();
    const absl::Span<float> buffers[] = {absl::MakeSpan(momentum)};
    EXPECT_TRUE(nesterov.Step(scalars, last, absl::MakeSpan(theta), buffers).ok());
  }
  return DistanceOf(RealsOf(theta), RealsOf(goal)) / NormOf(goal);
}

TEST(AggregationLiars, ARunOfEightBearsOneThatGoesBackwards) {
  // Broken: rules would hold for single rounds, and a run drift away over many.
  EXPECT_GT(EndOfRun(RuleOf("mean")), 10);
  EXPECT_LT(EndOfRun(RuleOf("mean", 0, 1.0)), 0.1);
  for (const char* name :
       {"trimmed_mean", "median", "geometric_median", "centred_clipping", "krum", "multi_krum"}) {
    EXPECT_LT(EndOfRun(RuleOf(name, 1)), 0.1) << name;
    EXPECT_LT(EndOfRun(RuleOf(name, 1, 1.0)), 0.1) << name;
  }
}

}  // namespace
}  // namespace atolld

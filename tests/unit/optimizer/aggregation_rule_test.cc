#include "optimizer/aggregation_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "compression/codec.h"
#include "compression/simd.h"
#include "optimizer/aggregation_kernels.h"
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
  std::fill(sum.begin(), sum.end(), 0.0f);
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

// Sparse updates as top-k codecs decode them: one value of eight is sent.
Vectors SparseUpdates(size_t contributors, size_t elements) {
  TestRandom random(7);
  Vectors updates = HonestUpdates(contributors, elements, 0.5f, 3);
  for (Vector& update : updates) {
    for (float& value : update) value = random.Next() % 8 == 0 ? value : value * 0.0f;
  }
  return updates;
}

TEST(AggregationRule, SentMeanIsTheMeanOfWhoSentAValue) {
  // Broken: what one of eight peers sends would move the parameters by an eighth of it.
  const Vectors updates = SparseUpdates(8, 1003);
  const Vector weights = {1, 2, 0.3f, 1, 17, 5, 1, 0.7f};
  Vector expected(1003);
  size_t alone = 0;
  for (size_t k = 0; k < expected.size(); ++k) {
    float sum = 0, total = 0;
    size_t senders = 0;
    for (size_t i = 0; i < updates.size(); ++i) {
      if (updates[i][k] == 0) continue;
      const volatile float product = weights[i] * updates[i][k];
      sum = sum + product;
      total = total + weights[i];
      ++senders;
    }
    if (senders > 0) expected[k] = sum / total;
    alone += senders == 1 ? 1 : 0;
  }
  ASSERT_GT(alone, 200u);
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget pinned(target);
    EXPECT_TRUE(SameBits(Aggregate(RuleOf("sent_mean"), updates, weights).value(), expected))
        << target;
  }
}

TEST(AggregationRule, MedianStaysBetweenTheMiddleValues) {
  // Broken: a median of two tiny or two huge values would be neither's neighbour.
  EXPECT_EQ(Aggregate(RuleOf("median"), {{1, -3}, {2, 5}}, Ones(2)).value(), (Vector{1.5f, 1.0f}));
  EXPECT_EQ(Aggregate(RuleOf("median"), {{1e-45f}, {1e-45f}}, Ones(2)).value(), Vector{1e-45f});
  EXPECT_EQ(Aggregate(RuleOf("median"), {{4}, {1}, {2}, {1e38f}}, Ones(4)).value(), Vector{3});
}

TEST(AggregationRule, TheOrderOfContributorsDoesNotMatter) {
  // Broken: what a peer counts would depend on when it joined. Rules by ranks have the same bits,
  // the others sum in another order.
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
      if (rule.coordinatewise() && rule.settings().rule != "sent_mean") {
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

TEST(AggregationRule, KrumKeepsOneAndMultiKrumAsManyAsItsProofIsFor) {
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
  Vector kept(7, 0.0f);
  for (size_t k = 0; k < 7 - 2 - 2; ++k) {
    const size_t i = OracleKrumOrder(updates, 2)[k];
    ASSERT_TRUE(i != 3 && i != 5);
    kept[i] = weights[i];
  }
  EXPECT_EQ(RuleOf("multi_krum", 2).Plan(weights, products)->weights, kept);
}

TEST(AggregationRule, CentredClippingStartsFromNothingBeforeTheFirstRound) {
  // Broken: the first round could not use it. From zero one step is clipping to the median norm.
  Vectors updates = HonestUpdates(5, 100, 0.5f, 2);
  for (float& value : updates[1]) value *= 1000;
  AggregationSettings settings;
  settings.rule = "centred_clipping";
  const Vector mean = Aggregate(AggregationRule::Make(settings).value(), updates, Ones(5)).value();
  const Vector clipped = Aggregate(RuleOf("mean", 0, 1.0), updates, Ones(5)).value();
  EXPECT_LT(DistanceOf(RealsOf(mean), RealsOf(clipped)), 1e-6L * NormOf(clipped));
}

TEST(AggregationRule, ClippingComesBeforeTheRule) {
  // Broken: a rule would judge, or combine, other updates than the clipped ones.
  Vectors updates = HonestUpdates(7, 200, 0.5f, 6);
  for (size_t i = 0; i < 7; ++i) {
    for (float& value : updates[i]) value *= 0.4f + 0.3f * static_cast<float>(i);
  }
  const Vector centre = BellValues(200, 6);
  Reals norms;
  for (const Vector& update : updates) norms.push_back(NormOf(update));
  const long double limit = 0.9L * OracleLowerMedian(norms);
  Vectors clipped = updates;
  for (size_t i = 0; i < 7; ++i) {
    const float scale = static_cast<float>(std::min(1.0L, limit / norms[i]));
    for (float& value : clipped[i]) value *= scale;
  }
  for (const AggregationRule& rule : AllRules()) {
    AggregationSettings settings = rule.settings();
    settings.clip = 0.9;
    const AggregationRule both = AggregationRule::Make(settings).value();
    settings.clip = 0;
    const AggregationRule alone = AggregationRule::Make(settings).value();
    const Vector mean = Aggregate(both, updates, Ones(7), centre).value();
    const Vector expected = Aggregate(alone, clipped, Ones(7), centre).value();
    EXPECT_LT(DistanceOf(RealsOf(mean), RealsOf(expected)), 1e-5L * NormOf(expected))
        << settings.rule;
    if (settings.rule == "krum") continue;  // the one that it chooses is short enough either way
    const Vector other = Aggregate(alone, updates, Ones(7), centre).value();
    EXPECT_GT(DistanceOf(RealsOf(other), RealsOf(expected)), 1e-3L * NormOf(expected))
        << settings.rule;
  }
}

TEST(AggregationRule, WhatAReducerStreamsIsWhatCombineMakes) {
  // Broken: a reducer that takes encoded updates one after another would make another mean than an
  // auditor who holds them all.
  const Codec& codec = **FindCodec("fp32");
  Vectors updates = HonestUpdates(7, 333, 0.5f, 4);
  for (float& value : updates[2]) value *= -30;
  for (float& value : updates[5]) value *= 1e35f;  // its scale is 0
  const Vector weights = {1, 2, 3, 0.1f, 5, 6, 7};
  const Vector centre = BellValues(333, 9);
  for (const AggregationRule& rule : AllRules()) {
    if (rule.coordinatewise()) continue;
    std::vector<absl::Span<const float>> rows = SpansOf(updates);
    if (rule.has_centre()) rows.push_back(centre);
    UpdateProducts products(rule.needs(), rows.size());
    ASSERT_TRUE(products.AddChunk(rows).ok());
    const AggregationPlan plan = rule.Plan(weights, products).value();
    Vector sum(333), used;
    std::vector<uint8_t> bytes(codec.MaxEncodedBytes(333));
    const auto add = [&](const Vector& values, float weight, float coefficient) {
      if (weight > 0) used.push_back(weight);
      if (coefficient == 0) return;
      ASSERT_TRUE(codec.Encode(values, absl::MakeSpan(bytes)).ok());
      ASSERT_TRUE(codec.DecodeAccumulate(bytes, coefficient, absl::MakeSpan(sum)).ok());
    };
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (size_t i = 0; i < 7; ++i) add(updates[i], plan.weights[i], plan.Coefficient(i));
    if (rule.has_centre()) add(centre, plan.centre_weight, plan.centre_weight);
    ASSERT_TRUE(FinishMean(used, absl::MakeSpan(sum)).ok());
    EXPECT_TRUE(SameBits(sum, Aggregate(rule, updates, weights, centre).value()))
        << rule.settings().rule << rule.settings().clip;
  }
}

TEST(AggregationRule, AChunkIsCombinedOverWhomItHas) {
  // Broken: a contributor that died on the way would cost the round.
  const Vectors updates = HonestUpdates(4, 30, 0.5f, 2);
  const std::vector<absl::Span<const float>> rows = {updates[0], {}, updates[2], updates[3]};
  const Vectors there = {updates[0], updates[2], updates[3]};
  Vector mean(30);
  for (const char* name : {"mean", "median", "sent_mean"}) {
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
  for (const char* name : {"mean", "median", "sent_mean"}) {
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
  EXPECT_EQ(AggregationRule::Make({"medain", 0, 0}).status().message(),
            "unknown aggregation rule \"medain\": did you mean \"median\"? Known: "
            "centred_clipping, geometric_median, krum, mean, median, multi_krum, sent_mean, "
            "trimmed_mean");
  EXPECT_EQ(AggregationRule::Make({"mean", 1, 0}).status().message(),
            "the rule mean takes faulty from 0 to 0, not 1");
  EXPECT_FALSE(AggregationRule::Make({"trimmed_mean", 0, 0}).ok());
  EXPECT_FALSE(AggregationRule::Make({"trimmed_mean", 32, 0}).ok());
  EXPECT_FALSE(AggregationRule::Make({"krum", 31, 0}).ok());
  EXPECT_TRUE(AggregationRule::Make({"krum", 30, 0}).ok());
  for (const double clip : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_FALSE(AggregationRule::Make({"mean", 0, clip}).ok());
  }
}

}  // namespace
}  // namespace atolld

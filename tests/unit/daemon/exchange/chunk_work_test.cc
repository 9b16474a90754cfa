#include "daemon/exchange/chunk_work.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "compression/base/bitmap.h"
#include "daemon/exchange/exchange_plan.h"
#include "gtest/gtest.h"
#include "membership/history/agreement.h"
#include "tests/unit/compression/test_values.h"
#include "tests/unit/daemon/exchange/swarm.h"

namespace atolld {
namespace {

using Names = std::vector<std::string>;
using Rows = std::vector<std::vector<float>>;

constexpr size_t kElements = 50;

// Chunks in fp32, so that what goes in is what is averaged.
struct Chunk {
  explicit Chunk(size_t contributors) {
    for (size_t i = 0; i < contributors; ++i) {
      rows.push_back(BellValues(kElements, i + 1));
      terms.weights.push_back(static_cast<float>(i + 1));
      terms.scales.push_back(1.0f);
    }
  }

  SharedBytes Encoded(const std::vector<float>& values) const {
    std::vector<uint8_t> bytes(codec->MaxEncodedBytes(values.size()));
    bytes.resize(codec->Encode(values, absl::MakeSpan(bytes)).value());
    return SharedBytes(std::move(bytes));
  }

  Piece Single(uint32_t i) const {
    std::string own(BitmapBytes(rows.size()), '\0');
    SetBit(&own, i);
    return {i, own, false, Encoded(rows[i]), false};
  }

  void Rule(const std::string& name, uint32_t faulty) {
    AggregationSettings settings;
    settings.rule = name;
    settings.faulty = faulty;
    terms.rule = AggregationRule::Make(settings).value();
  }

  absl::Status Reduce(const std::vector<Piece>& pieces) {
    reduced = Reduced();
    const ChunkForm form{codec, false};
    const absl::Status status = atolld::Reduce(form, form, {1, 0, false, {}}, kElements, terms,
                                               pieces, std::nullopt, &reduced);
    mean.assign(kElements, 0.0f);
    if (!status.ok()) return status;
    EXPECT_TRUE(codec->Decode(reduced.encoded.span(), absl::MakeSpan(mean)).ok());
    return status;
  }
  absl::Status ReduceAll() {
    std::vector<Piece> pieces;
    for (uint32_t i = 0; i < rows.size(); ++i) pieces.push_back(Single(i));
    return Reduce(pieces);
  }

  const Codec* codec = FindCodec("fp32").value();
  Rows rows;
  MeanTerms terms;
  Reduced reduced;
  std::vector<float> mean;
};

// Would break: an update that is too long would be averaged at its full length, or its scale would
// count in the weights too.
TEST(RobustMean, TheWeightedMeanTakesScaledValues) {
  Chunk chunk(3);
  ASSERT_TRUE(chunk.ReduceAll().ok());
  const std::vector<float> plain = chunk.mean;
  chunk.terms.scales[1] = 0.25f;
  ASSERT_TRUE(chunk.ReduceAll().ok());
  for (size_t k = 0; k < kElements; ++k) {
    float sum = 0.0f;
    sum = sum + 1.0f * chunk.rows[0][k];
    sum = sum + 0.5f * chunk.rows[1][k];
    sum = sum + 3.0f * chunk.rows[2][k];
    EXPECT_EQ(chunk.mean[k], sum * (1.0f / 6.0f));
  }
  EXPECT_NE(chunk.mean, plain);
}

// Would break: what a relay has scaled would be scaled again.
TEST(RobustMean, APartialMeanIsScaledAlready) {
  Chunk chunk(3);
  chunk.terms.scales = {0.5f, 0.5f, 0.5f};
  Piece partial = chunk.Single(1);
  partial.partial = true;
  SetBit(&partial.contributors, 0);
  ASSERT_TRUE(chunk.Reduce({partial, chunk.Single(2)}).ok());
  for (size_t k = 0; k < kElements; ++k) {
    float sum = 0.0f;
    sum = sum + 3.0f * chunk.rows[1][k];
    sum = sum + 1.5f * chunk.rows[2][k];
    EXPECT_EQ(chunk.mean[k], sum * (1.0f / 6.0f));
  }
}

// Would break: centred clipping would pull to zeros instead of the last mean, or not at all.
TEST(RobustMean, CentredClippingStepsFromTheLastMean) {
  Chunk chunk(3);
  chunk.Rule("centred_clipping", 0);
  const std::vector<float> centre = BellValues(kElements, 9);
  auto held = std::make_shared<Centre>();
  held->codec = chunk.codec;
  held->chunks = {chunk.Encoded(centre)};
  chunk.terms.centre = held;
  chunk.terms.scales = {1.0f, 0.5f, 0.25f};
  ASSERT_TRUE(chunk.ReduceAll().ok());
  for (size_t k = 0; k < kElements; ++k) {
    float sum = 0.0f;
    sum = sum + 1.0f * chunk.rows[0][k];
    sum = sum + 1.0f * chunk.rows[1][k];
    sum = sum + 0.75f * chunk.rows[2][k];
    sum = sum + 3.25f * centre[k];  // 6 - 2.75
    EXPECT_EQ(chunk.mean[k], sum * (1.0f / 6.0f));
  }
  // Nobody is too far: the mean's very bits.
  chunk.terms.scales = {1.0f, 1.0f, 1.0f};
  ASSERT_TRUE(chunk.ReduceAll().ok());
  const std::vector<float> centred = chunk.mean;
  chunk.terms.rule.reset();
  ASSERT_TRUE(chunk.ReduceAll().ok());
  EXPECT_EQ(centred, chunk.mean);
}

// Would break: the rules by coordinates would follow a liar.
TEST(RobustMean, RanksAreCutInEachCoordinate) {
  for (const bool median : {false, true}) {
    Chunk chunk(5);
    chunk.Rule(median ? "median" : "trimmed_mean", 1);
    std::fill(chunk.rows[2].begin(), chunk.rows[2].end(), 1e30f);
    chunk.terms.scales[4] = 0.5f;
    ASSERT_TRUE(chunk.ReduceAll().ok());
    for (size_t k = 0; k < kElements; ++k) {
      std::vector<float> column;
      for (size_t i = 0; i < 5; ++i) column.push_back(chunk.terms.scales[i] * chunk.rows[i][k]);
      std::sort(column.begin(), column.end());
      const float middle = column[1] + column[2];
      EXPECT_EQ(chunk.mean[k], median ? column[2] : (middle + column[3]) * (1.0f / 3.0f));
    }
  }
}

// Would break: a choice among whole chunks would fall on the liar, or on its scale.
TEST(RobustMean, KrumAndTheGeometricMedianLeaveTheLiarsOut) {
  for (const char* rule : {"krum", "multi_krum", "geometric_median"}) {
    Chunk chunk(7);
    for (size_t i = 1; i < 7; ++i) {
      for (size_t k = 0; k < kElements; ++k) {
        chunk.rows[i][k] = chunk.rows[0][k] + 0.01f * chunk.rows[i][k];
      }
    }
    for (const size_t liar : {size_t{2}, size_t{5}}) {
      for (float& value : chunk.rows[liar]) value = value * -10;
    }
    chunk.Rule(rule, 2);
    ASSERT_TRUE(chunk.ReduceAll().ok()) << rule;
    for (size_t k = 0; k < kElements; ++k) {
      EXPECT_NEAR(chunk.mean[k], chunk.rows[0][k], 0.1) << rule;
    }
  }
}

// Would break: with too few updates the liars that the rule is made for would be the majority of
// what it keeps, silently.
TEST(RobustMean, TooFewUpdatesAreNoMean) {
  Chunk chunk(3);
  chunk.Rule("trimmed_mean", 1);
  EXPECT_TRUE(chunk.ReduceAll().ok());
  const absl::Status status = chunk.Reduce({chunk.Single(0), chunk.Single(2)});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("takes 3 updates, 2 are here"), std::string::npos) << status;
  // One that cannot be decoded is none, and its sender is told of.
  Piece torn = chunk.Single(1);
  torn.bytes = torn.bytes.Part(0, torn.bytes.size() - 1);
  EXPECT_FALSE(chunk.Reduce({chunk.Single(0), torn, chunk.Single(2)}).ok());
  ASSERT_EQ(chunk.reduced.refused.size(), 1u);
  EXPECT_EQ(chunk.reduced.refused[0].first, 1u);
}

uint32_t ScaleBits(float scale) { return absl::bit_cast<uint32_t>(scale); }

// Would break: reducers or relays would forget the plan's scales, or apply them twice.
TEST(RobustMean, ScalesOfThePlanAreInEveryMean) {
  for (const bool relayed : {false, true}) {
    Swarm swarm((SwarmSettings()));
    const Names names = {"p1", "p2", "p3", "p4"};
    for (const std::string& name : names) swarm.Add(name);
    v1::Plan plan = swarm.MakePlan(names, {"p1", "p4"});
    plan.mutable_contributors(1)->set_scale_bits(ScaleBits(0.125f));
    plan.mutable_contributors(3)->set_scale_bits(ScaleBits(0.5f));
    if (relayed) Swarm::AddRelay(&plan, 0, "p2", {"p2", "p3"});
    for (const std::string& name : names) swarm.Give(name, plan);
    ASSERT_TRUE(swarm.world.RunUntil([&] { return swarm.Complete(names, 1); }, absl::Seconds(60)))
        << swarm.world.LogText();
    swarm.CheckOutcomes(names, plan, names);
  }
}

// Would break: a plan whose scales say nothing, or change while it is carried out, would be
// followed, and peers would not average alike.
TEST(RobustMean, SenselessScalesAreNoPlan) {
  Swarm swarm((SwarmSettings()));
  swarm.Add("p1");
  swarm.Add("p2");
  const v1::Plan good = swarm.MakePlan({"p1", "p2"}, {"p1"});
  for (const float scale :
       {-0.5f, 2 * kLargestUpdateScale, std::numeric_limits<float>::quiet_NaN()}) {
    v1::Plan plan = good;
    plan.mutable_contributors(0)->set_scale_bits(ScaleBits(scale));
    EXPECT_FALSE(ExchangePlan::Make(plan, swarm.grid).ok()) << scale;
  }
  v1::Plan next = good;
  next.set_revision(2);
  const ExchangePlan made = ExchangePlan::Make(good, swarm.grid).value();
  EXPECT_TRUE(made.CheckSuccessor(ExchangePlan::Make(next, swarm.grid).value()).ok());
  next.mutable_contributors(0)->set_scale_bits(ScaleBits(0.5f));
  EXPECT_FALSE(made.CheckSuccessor(ExchangePlan::Make(next, swarm.grid).value()).ok());
}

// Would break: the exchange of a robust rule would go on with the mean of whoever is left.
TEST(RobustMean, AnExchangeWithTooFewFails) {
  AggregationSettings rule;
  rule.rule = "trimmed_mean";
  rule.faulty = 1;
  SwarmSettings settings;
  settings.rule = AggregationRule::Make(rule).value();
  Swarm swarm(settings);
  const Names names = {"p1", "p2", "p3"};
  for (const std::string& name : names) swarm.Add(name);
  v1::Plan plan = swarm.MakePlan(names, {"p1"});
  plan.add_lost("p3");
  swarm.Kill("p3");
  swarm.Give("p1", plan);
  swarm.Give("p2", plan);
  ASSERT_TRUE(
      swarm.world.RunUntil([&] { return !swarm.peer("p1").failed.empty(); }, absl::Seconds(60)))
      << swarm.world.LogText();
  EXPECT_NE(swarm.peer("p1").failed[0].message().find("takes 3 updates"), std::string::npos);
  EXPECT_TRUE(swarm.peer("p2").outcomes.empty());
}

}  // namespace
}  // namespace atolld

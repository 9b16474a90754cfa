#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include "compression/codec.h"
#include "compression/simd.h"
#include "optimizer/aggregation_rule.h"
#include "tests/unit/compression/test_values.h"

namespace atolld {
namespace {

TEST(WeightedMean, IsTheStatedArithmeticOnEveryTarget) {
  // Broken: an independent program could not recompute the mean from the header.
  const Codec& codec = **FindCodec("int8");
  constexpr size_t kElements = 777;
  const std::vector<float> weights = {3.5f, 0.1f, 1000.0f, 7.0f};
  std::vector<std::vector<uint8_t>> chunks;
  std::vector<float> expected(kElements, 0.0f);
  float total = 0;
  for (size_t peer = 0; peer < weights.size(); ++peer) {
    chunks.emplace_back(codec.MaxEncodedBytes(kElements));
    ASSERT_TRUE(codec.Encode(BellValues(kElements, peer), absl::MakeSpan(chunks.back())).ok());
    std::vector<float> values(kElements);
    ASSERT_TRUE(codec.Decode(chunks.back(), absl::MakeSpan(values)).ok());
    for (size_t i = 0; i < kElements; ++i) {
      const volatile float product = weights[peer] * values[i];
      expected[i] = expected[i] + product;
    }
    total = total + weights[peer];
  }
  const float factor = 1.0f / total;
  for (float& value : expected) value = value * factor;
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget pinned(target);
    std::vector<float> sum(kElements, 99.0f);
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (size_t peer = 0; peer < weights.size(); ++peer) {
      ASSERT_TRUE(codec.DecodeAccumulate(chunks[peer], weights[peer], absl::MakeSpan(sum)).ok());
    }
    ASSERT_TRUE(FinishMean(weights, absl::MakeSpan(sum)).ok());
    EXPECT_TRUE(SameBits(sum, expected)) << target;
  }
}

TEST(WeightedMean, IsTheMean) {
  // Broken: weights would not be shares.
  std::vector<float> sum = {1.0f * 2 + 3.0f * 6, 1.0f * -4 + 3.0f * 4};
  ASSERT_TRUE(FinishMean({1.0f, 3.0f}, absl::MakeSpan(sum)).ok());
  EXPECT_EQ(sum, (std::vector<float>{5.0f, 2.0f}));
}

TEST(WeightedMean, RefusesWeightsThatAreNoShares) {
  // Broken: a plan with zero, negative or infinite weights would turn every replica non-finite.
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> sum = {1.0f};
  for (const std::vector<float>& weights : std::vector<std::vector<float>>{{},
                                                                           {0.0f},
                                                                           {1.0f, 0.0f},
                                                                           {1.0f, -1.0f},
                                                                           {infinity},
                                                                           {std::nanf("")},
                                                                           {FLT_MAX, FLT_MAX},
                                                                           {FLT_MAX},
                                                                           {1e-45f}}) {
    const absl::Status status = FinishMean(weights, absl::MakeSpan(sum));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
  EXPECT_EQ(sum, std::vector<float>{1.0f});
}

}  // namespace
}  // namespace atolld

#include "membership/privacy/update_noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace atolld {
namespace {

constexpr size_t kDraws = 200000;

std::string KeyOf(char byte) { return std::string(kNoiseKeyBytes, byte); }

TEST(UpdateNoise, HasTheDeviationThatWasAskedFor) {
  // Broken: every party would be hidden less than its epsilon says. The mean of 200,000 draws is
  // within 0.01 deviations, and their deviation within 1 %, for all but one key in 10^5.
  NoiseStream noise(KeyOf('k'));
  const double deviation = 0.03;
  std::vector<float> values(kDraws, 1.0f);
  AddNoise(noise, deviation, absl::MakeSpan(values));
  double sum = 0, squares = 0;
  size_t beyond_one = 0, beyond_two = 0;
  for (const float value : values) {
    const double draw = (double{value} - 1) / deviation;
    sum += draw;
    squares += draw * draw;
    if (std::fabs(draw) > 1) ++beyond_one;
    if (std::fabs(draw) > 2) ++beyond_two;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.01);
  EXPECT_NEAR(std::sqrt(squares / kDraws), 1, 0.01);
  // The tails are those of a normal distribution.
  EXPECT_NEAR(static_cast<double>(beyond_one) / kDraws, 0.31731, 0.005);
  EXPECT_NEAR(static_cast<double>(beyond_two) / kDraws, 0.04550, 0.003);
}

TEST(UpdateNoise, NeighboursAreIndependent) {
  // Broken: half of the noise could be computed from the other half.
  NoiseStream noise(KeyOf('i'));
  double last = noise.Next(), products = 0, square_products = 0;
  for (size_t i = 0; i < kDraws; ++i) {
    const double next = noise.Next();
    products += last * next;
    square_products += (last * last - 1) * (next * next - 1);
    last = next;
  }
  EXPECT_NEAR(products / kDraws, 0, 0.012);
  EXPECT_NEAR(square_products / kDraws, 0, 0.025);
}

TEST(UpdateNoise, AKeyGivesOneStream) {
  // Broken: two parties, or two rounds, would have the same noise, and the difference none.
  NoiseStream one(KeyOf('a')), same(KeyOf('a')), other(KeyOf('b'));
  for (int i = 0; i < 2000; ++i) {  // beyond the first bytes that are made at a time
    const double draw = one.Next();
    EXPECT_EQ(draw, same.Next());
    EXPECT_NE(draw, other.Next());
  }
}

TEST(ClipUpdate, LongerOnesGetTheLengthAndNoMore) {
  // Broken: one party could move the mean by more than its noise covers.
  NoiseStream noise(KeyOf('c'));
  for (const double length : {1e-6, 0.1, 1.0, 12345.0}) {
    std::vector<float> update(1003, 0.0f);
    AddNoise(noise, length, absl::MakeSpan(update));
    const std::vector<float> before = update;
    ASSERT_GT(LengthOf(update), length);
    EXPECT_TRUE(ClipUpdate(absl::MakeSpan(update), length));
    EXPECT_LE(LengthOf(update), length);
    EXPECT_NEAR(LengthOf(update), length, 1e-6 * length);
    // The direction stays.
    const double factor = LengthOf(update) / LengthOf(before);
    for (size_t i = 0; i < update.size(); ++i)
      EXPECT_NEAR(update[i], factor * before[i], 1e-6 * std::fabs(factor * before[i]));
    EXPECT_FALSE(ClipUpdate(absl::MakeSpan(update), length)) << "twice";
  }
}

TEST(ClipUpdate, ShorterOnesAndNonesStay) {
  // Broken: updates would be scaled up to the clip, or one that is none would become one.
  std::vector<float> update = {3, 4};
  EXPECT_FALSE(ClipUpdate(absl::MakeSpan(update), 5));
  EXPECT_EQ(update, (std::vector<float>{3, 4}));
  std::vector<float> zeros(3, 0.0f);
  EXPECT_FALSE(ClipUpdate(absl::MakeSpan(zeros), 5));
  EXPECT_EQ(zeros, std::vector<float>(3, 0.0f));
  std::vector<float> none = {1, std::numeric_limits<float>::infinity()};
  EXPECT_FALSE(ClipUpdate(absl::MakeSpan(none), 5));
  EXPECT_EQ(none[0], 1);
}

}  // namespace
}  // namespace atolld

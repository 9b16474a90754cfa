#include "worker/stub/stub_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace atolld {
namespace {

constexpr size_t kSize = 10001;  // blocks, and a rest that fills no vector

// Broken: a run of stubs would not get better, and a wrong mean or a lost round would not be seen
// in its loss.
TEST(StubModel, UpdatesLeadToTheTarget) {
  std::vector<float> theta(kSize), update(kSize);
  FillStubParameters(7, absl::MakeSpan(theta));
  const double before = StubSquaredDistance(theta, 0);
  for (uint64_t round = 0; round < 30; ++round) {
    FillStubUpdate(theta, round, absl::MakeSpan(update));
    for (size_t i = 0; i < kSize; ++i) theta[i] -= update[i];
  }
  const double after = StubSquaredDistance(theta, 0);
  EXPECT_GT(before / kSize, 1.0);  // of independent values in [-0.5, 0.5) and [-2, 2): 17/12
  EXPECT_LT(before / kSize, 1.8);
  EXPECT_LT(after, before / 1000);
}

// Broken: an update would not be what the header says, 0.3 x (theta - target) and small noise.
TEST(StubModel, AnUpdateIsTheStepAndSmallNoise) {
  std::vector<float> theta(kSize), one(kSize), other(kSize), again(kSize);
  FillStubParameters(7, absl::MakeSpan(theta));
  FillStubUpdate(theta, 1, absl::MakeSpan(one));
  FillStubUpdate(theta, 2, absl::MakeSpan(other));
  FillStubUpdate(theta, 1, absl::MakeSpan(again));
  EXPECT_EQ(one, again);
  size_t differing = 0;
  for (size_t i = 0; i < kSize; ++i) {
    ASSERT_NEAR(one[i], 0.3f * (theta[i] - StubTarget(i)), 0.0051f) << i;
    differing += one[i] != other[i] ? 1 : 0;
  }
  EXPECT_GT(differing, kSize * 9 / 10);
}

// Broken: shares of an evaluation would not add up to the whole.
TEST(StubModel, DistancesOfPartsAddUp) {
  std::vector<float> theta(kSize);
  FillStubParameters(3, absl::MakeSpan(theta));
  double whole = 0;
  for (size_t i = 0; i < kSize; ++i) {
    const double distance = static_cast<double>(theta[i]) - static_cast<double>(StubTarget(i));
    whole += distance * distance;
  }
  const absl::Span<const float> all(theta);
  EXPECT_NEAR(StubSquaredDistance(all, 0), whole, whole * 1e-6);
  const double parts =
      StubSquaredDistance(all.subspan(0, 4099), 0) + StubSquaredDistance(all.subspan(4099), 4099);
  EXPECT_NEAR(parts, whole, whole * 1e-6);
}

// Broken: the vectors of two seeds, or the values of one, would be the same.
TEST(StubModel, ValuesDiffer) {
  std::vector<float> one(kSize), other(kSize);
  FillStubParameters(1, absl::MakeSpan(one));
  FillStubParameters(2, absl::MakeSpan(other));
  EXPECT_NE(one, other);
  for (const float value : one) ASSERT_LE(std::abs(value), 0.5f);
  std::sort(one.begin(), one.end());
  const auto distinct = std::unique(one.begin(), one.end()) - one.begin();
  EXPECT_GT(static_cast<size_t>(distinct), kSize * 99 / 100);
}

}  // namespace
}  // namespace atolld

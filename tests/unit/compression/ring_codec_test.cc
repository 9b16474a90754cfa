// Weighted updates as integers of a ring: exact sums, public scales, bounded errors.
#include "compression/ring_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace atolld {
namespace {

constexpr Rounding kToNearest;

// Sums of twelve uniform numbers: near enough to a Gaussian, and the same with every library.
std::vector<float> BellShaped(size_t count, double deviation, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<uint32_t>(random()) * 0x1p-32;
    value = static_cast<float>(deviation * sum);
  }
  return values;
}

std::vector<uint32_t> RingCodesOf(const RingForm& ring, const RingSteps& steps,
                                  const std::vector<float>& values, float weight,
                                  const Rounding& rounding = kToNearest) {
  std::vector<uint32_t> codes(values.size());
  EXPECT_TRUE(EncodeRing(ring, steps, values, weight, rounding, absl::MakeSpan(codes)).ok());
  return codes;
}

// Broken: the sum would wrap, or be another than the plain sum of integers.
TEST(RingCodecTest, SumIsThatOfTheIntegersThoughEachIsAtItsLimit) {
  for (const uint32_t bytes : {2U, 3U, 4U}) {
    const RingForm ring{bytes, 8};
    const RingSteps steps = FirstRingSteps(ring, 600, 1.0F);
    std::vector<uint32_t> sum(600);
    std::vector<int64_t> plain(600);
    for (uint32_t party = 0; party < ring.most; ++party) {
      std::vector<float> values = BellShaped(600, 0.3, party);
      for (size_t i = 0; i < 200; ++i) values[i] = i % 2 == 0 ? 1e6F : -1e6F;  // all are cut
      const std::vector<uint32_t> codes = RingCodesOf(ring, steps, values, 1.0F);
      AddRing(ring, codes, absl::MakeSpan(sum));
      for (size_t i = 0; i < codes.size(); ++i) {
        const int64_t bound = int64_t{1} << (8 * bytes);
        const auto code = static_cast<int64_t>(codes[i]);
        plain[i] += code < bound / 2 ? code : code - bound;
      }
    }
    std::vector<float> mean(600);
    ASSERT_TRUE(DecodeRing(ring, steps, sum, 1.0, absl::MakeSpan(mean)).ok());
    for (size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(mean[i], static_cast<float>(static_cast<double>(plain[i]) *
                                            std::ldexp(1.0, steps[i / kRingBlockElements])));
    }
    EXPECT_EQ(plain[0], int64_t{8} * ring.greatest());
  }
}

// Broken: the mean would be further off than the stated bound.
TEST(RingCodecTest, MeanIsWithinItsBound) {
  const RingForm ring{2, 8};
  const std::vector<float> weights = {1.0F, 0.25F, 0.7F, 0.01F};
  const RingSteps steps = FirstRingSteps(ring, 1000, 4.0F);
  std::vector<uint32_t> sum(1000);
  std::vector<double> exact(1000);
  double total = 0;
  for (size_t party = 0; party < weights.size(); ++party) {
    const std::vector<float> values = BellShaped(1000, 0.5, 7 + static_cast<uint32_t>(party));
    AddRing(ring, RingCodesOf(ring, steps, values, weights[party]), absl::MakeSpan(sum));
    for (size_t i = 0; i < 1000; ++i) exact[i] += static_cast<double>(values[i]) * weights[party];
    total += weights[party];
  }
  std::vector<float> mean(1000);
  ASSERT_TRUE(DecodeRing(ring, steps, sum, total, absl::MakeSpan(mean)).ok());
  const double bound = 4 * std::ldexp(1.0, steps[0]) / 2 / total;
  double worst = 0;
  for (size_t i = 0; i < 1000; ++i) worst = std::max(worst, std::abs(mean[i] - exact[i] / total));
  EXPECT_LE(worst, bound * 1.000001);
  EXPECT_GT(worst, bound / 100);  // it is no other number that is compared
}

// Broken: values that do not fit would go unnoticed, or others would be called cut.
TEST(RingCodecTest, CutValuesAreCounted) {
  const RingForm ring{2, 4};
  const RingSteps steps = FirstRingSteps(ring, 4, 1.0F);
  const double most = ring.greatest() * std::ldexp(1.0, steps[0]);
  const std::vector<float> values = {static_cast<float>(most), static_cast<float>(2 * most),
                                     static_cast<float>(-3 * most), 0.5F};
  std::vector<uint32_t> codes(4);
  const auto cut = EncodeRing(ring, steps, values, 1.0F, kToNearest, absl::MakeSpan(codes));
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(*cut, 2U);
}

// Broken: stochastic rounding would pull sums to one side, or not repeat.
TEST(RingCodecTest, StochasticRoundingHasTheValueAsItsExpectation) {
  const RingForm ring{2, 2};
  const RingSteps steps = FirstRingSteps(ring, 65536, 1.0F);
  const double step = std::ldexp(1.0, steps[0]);
  const std::vector<float> values(65536, static_cast<float>(100.25 * step));
  const Rounding rounding{true, 42};
  const std::vector<uint32_t> codes = RingCodesOf(ring, steps, values, 1.0F, rounding);
  EXPECT_EQ(codes, RingCodesOf(ring, steps, values, 1.0F, rounding));
  EXPECT_NE(codes, RingCodesOf(ring, steps, values, 1.0F, Rounding{true, 43}));
  double above = 0;
  for (const uint32_t code : codes) {
    ASSERT_TRUE(code == 100 || code == 101);
    above += code == 101 ? 1 : 0;
  }
  // Five standard deviations of a share of a quarter among so many.
  EXPECT_NEAR(above / 65536, 0.25, 5 * std::sqrt(0.25 * 0.75 / 65536));
}

// Broken: a quiet tensor would be rounded with the steps of a loud one, or a silent one would have
// no room to begin to move.
TEST(RingCodecTest, ScalesFollowTheMeanBefore) {
  const RingForm ring{3, 8};
  std::vector<float> mean = BellShaped(4 * kRingBlockElements, 1e-3, 3);
  for (size_t i = 0; i < kRingBlockElements; ++i) mean[i] = 0;
  for (size_t i = 1; i < 2 * kRingBlockElements; ++i) mean[kRingBlockElements + i] *= 100;
  const RingSteps steps = RingStepsAfter(ring, mean, 1.0F);
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_EQ(steps[1], steps[2]);
  EXPECT_LT(steps[3], steps[2]);
  EXPECT_EQ(steps[0], steps[3]);  // both by the floor that the whole mean sets
  // Updates eight times as long as the mean are not cut.
  std::vector<float> longer(mean.begin() + kRingBlockElements, mean.begin() + 512);
  for (float& value : longer) value *= 8;
  std::vector<uint32_t> codes(longer.size());
  const auto cut = EncodeRing(ring, absl::MakeConstSpan(steps).subspan(1, 1), longer, 1.0F,
                              kToNearest, absl::MakeSpan(codes));
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(*cut, 0U);
  EXPECT_EQ(RingStepsAfter(ring, std::vector<float>(1000), 0.5F), FirstRingSteps(ring, 1000, 0.5F));
}

// Broken: a step would be twice as coarse as needed, or too fine for its range.
TEST(RingCodecTest, StepIsTheLeastPowerOfTwoThatHoldsTheRange) {
  const RingForm ring{2, 1};  // greatest 32767
  EXPECT_EQ(FirstRingSteps(ring, 1, 32767.0F)[0], 0);
  EXPECT_EQ(FirstRingSteps(ring, 1, 32768.0F)[0], 1);
  EXPECT_EQ(FirstRingSteps(ring, 1, 16383.5F)[0], -1);
}

// Broken: elements would not survive the wire, or other lengths would be read.
TEST(RingCodecTest, PackedElementsComeBack) {
  for (const uint32_t bytes : {2U, 3U, 4U}) {
    const RingForm ring{bytes, 1};
    std::mt19937 random(bytes);
    std::vector<uint32_t> elements(777);
    for (uint32_t& element : elements) {
      element = static_cast<uint32_t>(random()) & ring.element_mask();
    }
    std::vector<uint8_t> packed(elements.size() * bytes);
    PackRing(ring, elements, absl::MakeSpan(packed));
    std::vector<uint32_t> back(elements.size());
    ASSERT_TRUE(UnpackRing(ring, packed, absl::MakeSpan(back)).ok());
    EXPECT_EQ(back, elements);
    packed.pop_back();
    EXPECT_EQ(UnpackRing(ring, packed, absl::MakeSpan(back)).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

// Broken: what cannot be a code, a weight or a ring would be taken.
TEST(RingCodecTest, RefusesWhatIsNoNumberNoWeightAndNoRing) {
  const RingForm ring{4, 8};
  const RingSteps steps = FirstRingSteps(ring, 2, 1.0F);
  std::vector<uint32_t> codes(2);
  const std::vector<float> bad = {1.0F, std::nanf("")};
  EXPECT_FALSE(EncodeRing(ring, steps, bad, 1.0F, kToNearest, absl::MakeSpan(codes)).ok());
  const std::vector<float> good = {1.0F, 2.0F};
  for (const float weight : {0.0F, -1.0F, 1.5F, std::nanf("")}) {
    EXPECT_FALSE(EncodeRing(ring, steps, good, weight, kToNearest, absl::MakeSpan(codes)).ok());
  }
  std::vector<float> mean(2);
  EXPECT_FALSE(DecodeRing(ring, steps, codes, 0.0, absl::MakeSpan(mean)).ok());
}

}  // namespace
}  // namespace atolld

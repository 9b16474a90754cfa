#include "compression/error_feedback.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "compression/scaled_codecs.h"
#include "compression/simd.h"
#include "tests/unit/compression/test_values.h"

namespace atolld {
namespace {

TEST(ErrorFeedback, FollowsTheRuleToTheBit) {
  // Broken: a residual could not be recomputed from the committed headers.
  const Int8Codec codec;
  const std::vector<float> delta = BellValues(1111, 1);
  const std::vector<float> residual = BellValues(1111, 2);
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget pinned(target);
    std::vector<float> update = delta;
    ASSERT_TRUE(AddResidual(0.95f, residual, absl::MakeSpan(update)).ok());
    for (size_t i = 0; i < delta.size(); ++i) {
      const volatile float carried = 0.95f * residual[i];
      ASSERT_EQ(update[i], delta[i] + carried) << i;
    }
    std::vector<uint8_t> sent(codec.MaxEncodedBytes(update.size()));
    ASSERT_TRUE(codec.Encode(update, absl::MakeSpan(sent)).ok());
    std::vector<float> decoded(update.size());
    ASSERT_TRUE(codec.Decode(sent, absl::MakeSpan(decoded)).ok());
    std::vector<float> next = update;
    ASSERT_TRUE(SubtractSent(codec, sent, absl::MakeSpan(next)).ok());
    std::vector<float> expected(update.size());
    for (size_t i = 0; i < update.size(); ++i) expected[i] = update[i] - decoded[i];
    EXPECT_TRUE(SameBits(next, expected)) << target;
  }
}

TEST(ErrorFeedback, NothingIsLostOverManyRounds) {
  // Broken: what quantisation drops would be gone; with feedback the sum of what is sent follows
  // the sum of the updates.
  const Int8Codec codec;
  constexpr size_t kElements = 300;
  std::vector<float> residual(kElements);
  std::vector<double> wanted(kElements), arrived(kElements);
  for (uint64_t round = 0; round < 50; ++round) {
    std::vector<float> update = BellValues(kElements, round);
    for (size_t i = 0; i < kElements; ++i) wanted[i] += update[i];
    ASSERT_TRUE(AddResidual(1.0f, residual, absl::MakeSpan(update)).ok());
    residual = update;
    if (round % 3 == 1) continue;  // left out: the whole update stays unsent
    std::vector<uint8_t> sent(codec.MaxEncodedBytes(kElements));
    ASSERT_TRUE(codec.Encode(update, absl::MakeSpan(sent)).ok());
    ASSERT_TRUE(SubtractSent(codec, sent, absl::MakeSpan(residual)).ok());
    std::vector<float> decoded(kElements);
    ASSERT_TRUE(codec.Decode(sent, absl::MakeSpan(decoded)).ok());
    for (size_t i = 0; i < kElements; ++i) arrived[i] += decoded[i];
  }
  for (size_t i = 0; i < kElements; ++i)
    ASSERT_NEAR(arrived[i] + residual[i], wanted[i], 1e-4) << i;
}

TEST(ErrorFeedback, AShareIsCarriedToTheBit) {
  // Broken: a residual could not be recomputed from the log, or would change where nothing was cut.
  const float huge = 1.5e30f, small = 0x1p-149f;
  std::vector<float> residual = {huge, -3.0f, small};
  CarryShare(1.0f, absl::MakeSpan(residual));
  EXPECT_EQ(residual, (std::vector<float>{huge, -3.0f, small}));
  CarryShare(0.25f, absl::MakeSpan(residual));
  EXPECT_EQ(residual, (std::vector<float>{huge / 4, -0.75f, 0.0f}));
}

TEST(ErrorFeedback, RefusesWhatDoesNotFit) {
  // Broken: a residual of another grid or a corrupt chunk would be mixed in silently.
  std::vector<float> update(4, 1.0f);
  const std::vector<float> residual(3, 1.0f);
  EXPECT_FALSE(AddResidual(1.0f, residual, absl::MakeSpan(update)).ok());
  const std::vector<float> fitting(4, 1.0f);
  for (const float beta : {-0.1f, 1.1f, std::nanf("")}) {
    EXPECT_FALSE(AddResidual(beta, fitting, absl::MakeSpan(update)).ok()) << beta;
  }
  EXPECT_FALSE(SubtractSent(Int8Codec(), std::vector<uint8_t>(7), absl::MakeSpan(update)).ok());
  EXPECT_EQ(update, std::vector<float>(4, 1.0f));
}

}  // namespace
}  // namespace atolld

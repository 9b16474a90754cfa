#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "compression/float_codecs.h"
#include "compression/simd.h"
#include "tests/unit/compression/test_values.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

TEST(Fp32Codec, KeepsEveryBitOnEveryTarget) {
  // Broken: the exact codec would change values, or change them differently by CPU.
  const Fp32Codec codec;
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget pinned(target);
    for (const size_t elements : {0, 1, 3, 17, 1024, 1025, 5000}) {
      const std::vector<float> values = AnyFiniteValues(elements, elements);
      std::vector<uint8_t> bytes(codec.MaxEncodedBytes(elements) + 1);
      const auto used = codec.Encode(values, absl::MakeSpan(bytes).subspan(1));
      ASSERT_TRUE(used.ok()) << used.status();
      ASSERT_EQ(*used, elements * 4);
      std::vector<float> decoded(elements);
      ASSERT_TRUE(codec.Decode(absl::MakeSpan(bytes).subspan(1), absl::MakeSpan(decoded)).ok());
      EXPECT_TRUE(SameBits(values, decoded)) << target << " " << elements;
    }
  }
}

TEST(Fp32Codec, IsLittleEndian) {
  // Broken: peers of another make would read other values.
  const Fp32Codec codec;
  std::vector<uint8_t> bytes(4);
  ASSERT_TRUE(codec.Encode({1.5f}, absl::MakeSpan(bytes)).ok());
  EXPECT_EQ(bytes, (std::vector<uint8_t>{0x00, 0x00, 0xc0, 0x3f}));
}

TEST(Fp32Codec, NamesTheValueThatIsNotFinite) {
  // Broken: a NaN of one peer would enter every replica.
  const Fp32Codec codec;
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget pinned(target);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()}) {
      for (const size_t at : {0, 7, 1023, 1024, 1299}) {
        std::vector<float> values = BellValues(1300, 1);
        values[at] = bad;
        std::vector<uint8_t> bytes(1300 * 4);
        const std::string named = "value " + std::to_string(at) + " is not finite";
        const auto encoded = codec.Encode(values, absl::MakeSpan(bytes));
        EXPECT_EQ(encoded.status().code(), absl::StatusCode::kInvalidArgument);
        EXPECT_THAT(encoded.status().message(), HasSubstr(named));
        std::memcpy(bytes.data(), values.data(), bytes.size());
        std::vector<float> sum(1300, 2.0f);
        EXPECT_THAT(codec.Decode(bytes, absl::MakeSpan(values)).message(), HasSubstr(named));
        EXPECT_THAT(codec.Check(bytes, values.size()).message(), HasSubstr(named));
        EXPECT_THAT(codec.DecodeAccumulate(bytes, 1.0f, absl::MakeSpan(sum)).message(),
                    HasSubstr(named));
        EXPECT_TRUE(SameBits(sum, std::vector<float>(1300, 2.0f)));
      }
    }
  }
}

TEST(Fp32Codec, RefusesWrongShapes) {
  // Broken: a lying length would read or write past a buffer.
  const Fp32Codec codec;
  std::vector<float> values(5);
  std::vector<uint8_t> bytes(20);
  EXPECT_FALSE(codec.Encode(values, absl::MakeSpan(bytes).first(19)).ok());
  EXPECT_FALSE(codec.Decode(absl::MakeSpan(bytes).first(19), absl::MakeSpan(values)).ok());
  EXPECT_FALSE(codec.Decode(bytes, absl::MakeSpan(values).first(4)).ok());
  EXPECT_FALSE(codec.DecodeAccumulate(bytes, 1.0f, absl::MakeSpan(values).first(4)).ok());
  EXPECT_FALSE(
      codec.DecodeAccumulate(bytes, std::numeric_limits<float>::infinity(), absl::MakeSpan(values))
          .ok());
}

TEST(Fp32Codec, AccumulatesWithSeparateRoundingsOnEveryTarget) {
  // Broken: reducers on CPUs with and without fused multiply-add would give different means.
  const Fp32Codec codec;
  const std::vector<float> values = BellValues(1500, 2);
  const std::vector<float> start = BellValues(1500, 3);
  std::vector<float> expected = start;
  for (size_t i = 0; i < values.size(); ++i) {
    const volatile float product = 0.3f * values[i];
    expected[i] = expected[i] + product;
  }
  std::vector<uint8_t> bytes(6001);
  std::memcpy(bytes.data() + 1, values.data(), 6000);
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget pinned(target);
    std::vector<float> sum = start;
    ASSERT_TRUE(
        codec.DecodeAccumulate(absl::MakeSpan(bytes).subspan(1), 0.3f, absl::MakeSpan(sum)).ok());
    EXPECT_TRUE(SameBits(sum, expected)) << target;
  }
}

}  // namespace
}  // namespace atolld

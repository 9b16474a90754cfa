// Every SIMD target that this build and CPU have gives the oracle's bits.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <string>
#include <vector>

#include "compression/scaled_codecs.h"
#include "compression/scaled_kernels.h"
#include "compression/simd.h"
#include "tests/unit/compression/codec_reference.h"
#include "tests/unit/compression/test_values.h"

namespace atolld {
namespace {

// A block whose values are all k + 1/2 times its scale: each is a tie.
std::vector<float> Int8TieValues(size_t elements) {
  std::vector<float> values(elements);
  for (size_t i = 0; i < elements; ++i) {
    values[i] = i % 256 == 0 ? 127.0f : static_cast<float>(static_cast<int>(i % 254) - 127) + 0.5f;
  }
  return values;
}

std::vector<float> Int8DenormalValues(size_t elements, uint64_t seed) {
  TestRandom random(seed);
  std::vector<float> values(elements);
  for (float& value : values) value = FloatFromBits(random.Next() & 0x807fffff);
  if (elements > 300)
    values[300] = 1e-30f;  // a block whose scale is near the limit, the rest far below a code
  return values;
}

// Blocks whose largest magnitude walks through the floats around a bound.
std::vector<float> Int8AroundBound(float bound, size_t elements) {
  std::vector<float> values(elements, bound * 0.25f);
  float edge = bound;
  for (int i = 0; i < 4; ++i) edge = std::nextafter(edge, 0.0f);
  for (size_t i = 0; i < elements; i += 256) {
    values[i] = -edge;
    edge = std::nextafter(edge, FLT_MAX);
  }
  return values;
}

std::vector<std::vector<float>> Int8Inputs(size_t elements) {
  return {AnyFiniteValues(elements, 1),
          BellValues(elements, 2),
          Int8TieValues(elements),
          Int8DenormalValues(elements, 3),
          std::vector<float>(elements, 0.0f),
          std::vector<float>(elements, -0.0f),
          Int8AroundBound(127.0f * 0x1p-100f, elements),
          Int8AroundBound(FLT_MAX, elements)};
}

class Int8Targets : public ::testing::TestWithParam<std::string> {
 protected:
  const ScopedSimdTarget pinned_{GetParam()};
  const Int8Codec codec_{};
};

INSTANTIATE_TEST_SUITE_P(All, Int8Targets, ::testing::ValuesIn(SimdTargetNames()),
                         [](const auto& test) { return test.param; });

TEST_P(Int8Targets, GivesTheOraclesBits) {
  // Broken: replicas on different CPUs would hold different floats after the same entry.
  for (const size_t elements :
       {1, 2, 3, 15, 16, 17, 31, 63, 64, 65, 255, 256, 257, 300, 511, 512, 513, 1000, 2307}) {
    size_t input = 0;
    for (const std::vector<float>& values : Int8Inputs(elements)) {
      // Odd addresses: chunks start anywhere in the flat vector and in a message.
      for (const size_t shift : {0, 1, 3}) {
        SCOPED_TRACE(::testing::Message()
                     << elements << " values, input " << input << ", shift " << shift);
        std::vector<float> shifted(shift);
        shifted.insert(shifted.end(), values.begin(), values.end());
        std::vector<uint8_t> out(shift + codec_.MaxEncodedBytes(elements) + 1, 0xee);
        const auto used = codec_.Encode(absl::MakeSpan(shifted).subspan(shift),
                                        absl::MakeSpan(out).subspan(shift));
        ASSERT_TRUE(used.ok()) << used.status();
        ASSERT_EQ(out.back(), 0xee) << "wrote past its bytes";
        const auto bytes = absl::MakeConstSpan(out).subspan(shift, *used);
        const std::vector<uint8_t> expected = ReferenceEncode("int8", values);
        ASSERT_TRUE(bytes == absl::MakeConstSpan(expected));

        const std::vector<float> expected_values = ReferenceDecode("int8", expected, elements);
        std::vector<float> decoded(shift + elements + 1, 42.0f);
        ASSERT_TRUE(codec_.Decode(bytes, absl::MakeSpan(decoded).subspan(shift, elements)).ok());
        ASSERT_TRUE(SameBits(absl::MakeSpan(decoded).subspan(shift, elements), expected_values));
        ASSERT_EQ(decoded.back(), 42.0f) << "wrote past its values";

        const auto norm = codec_.SquaredNorm(bytes, elements);
        ASSERT_TRUE(norm.ok()) << norm.status();
        ASSERT_EQ(*norm, ReferenceSquaredNorm("int8", expected, elements));

        const std::vector<float> start = BellValues(elements, 4);
        std::vector<float> sum(shift);
        sum.insert(sum.end(), start.begin(), start.end());
        sum.push_back(42.0f);
        ASSERT_TRUE(
            codec_.DecodeAccumulate(bytes, 0.7f, absl::MakeSpan(sum).subspan(shift, elements))
                .ok());
        ASSERT_EQ(sum.back(), 42.0f) << "wrote past its sum";
        for (size_t i = 0; i < elements; ++i) {
          const volatile float product = 0.7f * expected_values[i];
          const float expected_sum = start[i] + product;
          ASSERT_TRUE(SameBits({&sum[shift + i], 1}, {&expected_sum, 1})) << i;
        }
      }
      ++input;
    }
  }
}

TEST_P(Int8Targets, GivesTheSameBitsPastTheCaches) {
  // Broken: a whole vector decoded at once would differ from its chunks, and nobody would see it.
  const size_t elements = 100300;
  const std::vector<float> values = BellValues(elements, 6);
  std::vector<uint8_t> bytes(codec_.MaxEncodedBytes(elements));
  ASSERT_TRUE(codec_.Encode(values, absl::MakeSpan(bytes)).ok());
  std::vector<float> expected(elements);
  ASSERT_TRUE(codec_.Decode(bytes, absl::MakeSpan(expected)).ok());
  for (const size_t shift : {0, 1}) {  // an odd address is written through the caches
    std::vector<float> decoded(shift + elements + 1, 42.0f);
    ASSERT_TRUE(
        codec_.DecodeToMemory(bytes, absl::MakeSpan(decoded).subspan(shift, elements)).ok());
    EXPECT_TRUE(SameBits(absl::MakeSpan(decoded).subspan(shift, elements), expected));
    EXPECT_EQ(decoded.back(), 42.0f);
  }
  std::vector<float> decoded(elements);
  bytes[ScaleBytes(ScaledForm::kInt8, elements) + 5] = 0x80;
  EXPECT_FALSE(codec_.DecodeToMemory(bytes, absl::MakeSpan(decoded)).ok());
}

TEST_P(Int8Targets, KeepsTheGoldenDigests) {
  // Broken: a release or another CPU would no longer replay yesterday's logs to the same bits.
  const std::vector<float> values = BellValues(100001, 2024);
  std::vector<uint8_t> bytes(codec_.MaxEncodedBytes(values.size()));
  ASSERT_TRUE(codec_.Encode(values, absl::MakeSpan(bytes)).ok());
  std::vector<float> decoded(values.size());
  ASSERT_TRUE(codec_.Decode(bytes, absl::MakeSpan(decoded)).ok());
  std::vector<float> sum = values;
  ASSERT_TRUE(codec_.DecodeAccumulate(bytes, 0.3f, absl::MakeSpan(sum)).ok());
  EXPECT_EQ(Sha256Hex(values.data(), values.size() * 4),
            "8ed64a66dd4cfafc13906e9f68a93e23c29bbe24bb59b2eebfa451ae85f1fb29");
  EXPECT_EQ(Sha256Hex(bytes.data(), bytes.size()),
            "353eb58e16a78bf149a26759ac20ca7cae533eb00dce629ffa546a83ae74ed58");
  EXPECT_EQ(Sha256Hex(decoded.data(), decoded.size() * 4),
            "727fbfb1117337def2aba0d61ddc21dbb80ec1abc4aea89eac4be110c0fce274");
  EXPECT_EQ(Sha256Hex(sum.data(), sum.size() * 4),
            "68706e2ded75f5f67c292801f3ea63cc6fe3eb381fdbb097d7cd1aeef986493d");
}

TEST_P(Int8Targets, RefusesWhatTheOthersRefuse) {
  // Broken: a hostile chunk would be taken on one CPU and refused on another, and the replicas
  // would split.
  const std::vector<float> values = BellValues(900, 5);
  std::vector<uint8_t> good(codec_.MaxEncodedBytes(900));
  ASSERT_TRUE(codec_.Encode(values, absl::MakeSpan(good)).ok());
  std::vector<float> out(900);
  for (size_t at = 16; at < good.size(); ++at) {
    std::vector<uint8_t> bytes = good;
    bytes[at] = 0x80;
    ASSERT_FALSE(codec_.Decode(bytes, absl::MakeSpan(out)).ok()) << at;
    ASSERT_FALSE(codec_.DecodeAccumulate(bytes, 1.0f, absl::MakeSpan(out)).ok()) << at;
    ASSERT_FALSE(codec_.Check(bytes, out.size()).ok()) << at;
  }
  for (size_t at = 0; at < values.size(); ++at) {
    std::vector<float> bad = values;
    bad[at] = FloatFromBits(0x7f800001);
    ASSERT_FALSE(codec_.Encode(bad, absl::MakeSpan(good)).ok()) << at;
  }
}

TEST(ScopedSimdTarget, RestoresTheChoiceThatStood) {
  // Broken: one test would leave all later ones, or a benchmark, on a slow target.
  const std::vector<std::string> before = SimdTargetNames();
  ASSERT_FALSE(before.empty());
  {
    const ScopedSimdTarget outer(before.back());
    EXPECT_EQ(SimdTargetNames(), std::vector<std::string>{before.back()});
    {
      const ScopedSimdTarget inner(before.back());
      EXPECT_EQ(SimdTargetNames(), std::vector<std::string>{before.back()});
    }
    EXPECT_EQ(SimdTargetNames(), std::vector<std::string>{before.back()});
  }
  EXPECT_EQ(SimdTargetNames(), before);
}

TEST(ScopedSimdTargetDeathTest, DiesOnAnUnknownName) {
  // Broken: a test would believe that it runs on a target that it does not.
  EXPECT_DEATH(ScopedSimdTarget("AVX9000"), "no SIMD target");
}

}  // namespace
}  // namespace atolld

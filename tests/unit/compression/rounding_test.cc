// Stochastic rounding: unbiased, a function of key and place alone, the same bits on every target.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "compression/codec.h"
#include "compression/codec_benchmark.h"
#include "compression/simd.h"
#include "tests/unit/compression/codec_reference.h"
#include "tests/unit/compression/test_values.h"

namespace atolld {
namespace {

const Codec& CodecNamed(const std::string& name) { return **FindCodec(name); }

std::vector<uint8_t> EncodedWith(const std::string& codec, absl::Span<const float> values,
                                 uint64_t key) {
  std::vector<uint8_t> bytes(CodecNamed(codec).MaxEncodedBytes(values.size()));
  const auto used = CodecNamed(codec).EncodeStochastic(values, key, absl::MakeSpan(bytes));
  EXPECT_TRUE(used.ok()) << used.status();
  return bytes;
}

std::vector<float> RoundTrip(const std::string& codec, absl::Span<const float> values,
                             uint64_t key) {
  std::vector<float> decoded(values.size());
  const absl::Status status =
      CodecNamed(codec).Decode(EncodedWith(codec, values, key), absl::MakeSpan(decoded));
  EXPECT_TRUE(status.ok()) << status;
  return decoded;
}

class StochasticRounding : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(All, StochasticRounding, ::testing::Values("int4", "int8"),
                         [](const auto& test) { return test.param; });

TEST_P(StochasticRounding, IsUnbiased) {
  // Broken: errors would add up in one direction over the rounds, which is what it is there to
  // prevent. Each value, over many keys: its mean error is within five standard errors of 0.
  constexpr size_t kElements = 64;
  constexpr int kKeys = 4000;
  std::vector<float> values = GaussianValues(kElements, 1);
  const double largest = GetParam() == "int8" ? 127 : 7;
  double absmax = 0;
  for (const float value : values) absmax = std::max(absmax, std::fabs(double{value}));
  std::vector<double> sum(kElements);
  for (int key = 0; key < kKeys; ++key) {
    const std::vector<float> decoded = RoundTrip(GetParam(), values, RoundingKey(7, key, 0));
    for (size_t i = 0; i < kElements; ++i) sum[i] += decoded[i];
  }
  const double scale = absmax / largest;
  for (size_t i = 0; i < kElements; ++i) {
    // Of a value between two codes, at share p, the variance is p (1 - p) scale^2: at most 1/4.
    EXPECT_NEAR(sum[i] / kKeys, values[i], 5 * 0.5 * scale / std::sqrt(kKeys)) << i;
  }
}

TEST_P(StochasticRounding, NeighboursAreIndependent) {
  // Broken: errors of a chunk would not average out. The mean error over a chunk of equal values
  // is as small as that of independent ones, and so is the correlation of neighbours.
  constexpr size_t kElements = 1 << 16;
  const double largest = GetParam() == "int8" ? 127 : 7;
  std::vector<float> values(kElements, 0.5f / static_cast<float>(largest));
  for (size_t i = 0; i < kElements; i += 32) values[i] = 1.0f;  // sets the scale
  const std::vector<float> decoded = RoundTrip(GetParam(), values, 12345);
  double sum = 0;
  double product = 0;
  size_t count = 0;
  double previous = 0;
  for (size_t i = 0; i < kElements; ++i) {
    if (i % 32 == 0) continue;
    const double error = decoded[i] * largest - 0.5;  // -1/2 or 1/2
    EXPECT_NEAR(std::fabs(error), 0.5, 1e-4);
    sum += error;
    product += error * previous;
    previous = error;
    ++count;
  }
  EXPECT_LT(std::fabs(sum / static_cast<double>(count)), 5 * 0.5 / std::sqrt(count));
  EXPECT_LT(std::fabs(product / static_cast<double>(count)), 5 * 0.25 / std::sqrt(count));
}

TEST_P(StochasticRounding, CodesStayThemselves) {
  // Broken: a mean of one update, or zeros, would change at every hop.
  const std::vector<float> values = RoundTrip(GetParam(), BellValues(5001, 3), 1);
  for (uint64_t key = 2; key < 12; ++key) {
    const std::vector<float> again = RoundTrip(GetParam(), values, key);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(again[i], values[i], std::fabs(values[i]) * 1e-6f) << i;
    }
  }
}

TEST_P(StochasticRounding, HostileMagnitudesStayCodes) {
  // Broken: the dither would carry the largest value of a block to a code that decoders refuse.
  for (uint64_t key = 0; key < 50; ++key) {
    std::vector<float> values = AnyFiniteValues(3000, key);
    values[1] = FLT_MAX;
    values[2] = -FLT_MAX;
    for (const float value : RoundTrip(GetParam(), values, key)) {
      ASSERT_TRUE(std::isfinite(value));
    }
    std::vector<float> equal(256, -1.0f - static_cast<float>(key) * 0.01f);
    for (const float value : RoundTrip(GetParam(), equal, key)) {
      ASSERT_NEAR(value, equal[0], 1e-5f);
    }
  }
}

TEST_P(StochasticRounding, KeepsTheGoldenDigestsOnEveryTarget) {
  // Broken: another CPU, or a later release, would encode a mean to other bytes than the log holds.
  const std::vector<float> values = BellValues(100001, 2024);
  const uint64_t key = ChunkKey(RoundingKey(1337, 12, 3), 4);
  const std::string golden =
      GetParam() == "int8" ? "8c942e888513b554c215b14d080070f471217a09f9c28758732176d50b15ff4d"
                           : "c3ef0c27e8d11cdd9b5391016e95f2a8d7955d328bb7f41f2492dcb941f6e164";
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget pinned(target);
    const std::vector<uint8_t> bytes = EncodedWith(GetParam(), values, key);
    EXPECT_EQ(Sha256Hex(bytes.data(), bytes.size()), golden) << target;
    for (const size_t elements : {1, 2, 63, 64, 65, 255, 257, 1000}) {
      const absl::Span<const float> part = absl::MakeSpan(values).first(elements);
      const std::vector<uint8_t> here = EncodedWith(GetParam(), part, key);
      const ScopedSimdTarget lowest(SimdTargetNames().back());
      EXPECT_EQ(here, EncodedWith(GetParam(), part, key)) << target << " " << elements;
    }
  }
}

TEST_P(StochasticRounding, GivesTheOraclesBits) {
  // Broken: nobody could recompute an entry from what docs/codecs.md says.
  for (const size_t elements : {1, 2, 63, 64, 65, 255, 256, 257, 1000}) {
    for (uint64_t key = 0; key < 5; ++key) {
      const uint64_t mixed = ChunkKey(RoundingKey(key, 2, 3), 4);
      ASSERT_EQ(mixed, ReferenceKey(key, 2, 3, 4));
      for (const std::vector<float>& values :
           {AnyFiniteValues(elements, key), BellValues(elements, key)}) {
        ASSERT_EQ(EncodedWith(GetParam(), values, mixed),
                  ReferenceEncodeStochastic(GetParam(), values, mixed));
      }
    }
  }
}

TEST(RoundingKey, TellsEverythingApart) {
  // Broken: two chunks, rounds or peers would be rounded alike, and their errors add up.
  EXPECT_EQ(ChunkKey(RoundingKey(1, 2, 3), 4), 15374388949593934587u);
  std::set<uint64_t> keys;
  for (uint64_t a = 0; a < 8; ++a) {
    for (uint64_t b = 0; b < 8; ++b) {
      for (uint64_t c = 0; c < 8; ++c) {
        for (uint64_t d = 0; d < 8; ++d) keys.insert(ChunkKey(RoundingKey(a, b, c), d));
      }
    }
  }
  EXPECT_EQ(keys.size(), 8u * 8 * 8 * 8);
}

TEST(StochasticRoundingTest, IsRefusedWhereThereIsNone) {
  // Broken: a config would ask for it and silently not get it.
  std::vector<uint8_t> bytes(100);
  for (const std::string& name : CodecNames()) {
    const Codec& codec = CodecNamed(name);
    EXPECT_EQ(codec.has_stochastic_rounding(), name == "int4" || name == "int8");
    EXPECT_EQ(codec.EncodeStochastic({1.0f}, 1, absl::MakeSpan(bytes)).ok(),
              codec.has_stochastic_rounding());
  }
}

}  // namespace
}  // namespace atolld

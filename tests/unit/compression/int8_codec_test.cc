#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include "compression/scaled_codecs.h"
#include "tests/unit/compression/test_values.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

std::vector<uint8_t> EncodedInt8(absl::Span<const float> values) {
  const Int8Codec codec;
  std::vector<uint8_t> bytes(codec.MaxEncodedBytes(values.size()));
  const auto used = codec.Encode(values, absl::MakeSpan(bytes));
  EXPECT_TRUE(used.ok()) << used.status();
  EXPECT_EQ(used.value_or(0), bytes.size());
  return bytes;
}

std::vector<float> DecodedInt8(absl::Span<const uint8_t> bytes, size_t elements) {
  std::vector<float> values(elements);
  const absl::Status status = Int8Codec().Decode(bytes, absl::MakeSpan(values));
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

void PutScale(float scale, uint8_t* at) { std::memcpy(at, &scale, sizeof(scale)); }

TEST(Int8Codec, MatchesAWorkedExample) {
  // Broken: the format would not be the documented one: scales first, then codes, ties to even,
  // absmax at 127.
  const std::vector<uint8_t> bytes =
      EncodedInt8({127.0f, -127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -0.0f, 0.49f, 3.51f});
  EXPECT_EQ(bytes,
            (std::vector<uint8_t>{0x00, 0x00, 0x80, 0x3f, 127, 0x81, 0, 2, 2, 0, 0xfe, 0, 0, 4}));
  EXPECT_EQ(DecodedInt8(bytes, 10), (std::vector<float>{127, -127, 0, 2, 2, 0, -2, 0, 0, 4}));
}

TEST(Int8Codec, EveryBlockHasItsOwnScaleAndTheLastMayBeShort) {
  // Broken: a large value would cost precision beyond its block, or a tail would be lost.
  std::vector<float> values(257, 1.0f);
  values[256] = 1000.0f;
  const std::vector<uint8_t> bytes = EncodedInt8(values);
  ASSERT_EQ(bytes.size(), 2 * 4 + 257);
  const std::vector<float> decoded = DecodedInt8(bytes, 257);
  EXPECT_NEAR(decoded[0], 1.0f, 1e-6f);
  EXPECT_NEAR(decoded[256], 1000.0f, 1e-3f);
}

TEST(Int8Codec, NoErrorExceedsHalfAScale) {
  // Broken: quantisation would lose more than it must.
  const std::vector<float> values = BellValues(3000, 5);
  const std::vector<float> decoded = DecodedInt8(EncodedInt8(values), values.size());
  for (size_t block = 0; block < values.size(); block += 256) {
    float absmax = 0;
    const size_t end = std::min<size_t>(block + 256, values.size());
    for (size_t i = block; i < end; ++i) absmax = std::max(absmax, std::fabs(values[i]));
    for (size_t i = block; i < end; ++i) {
      EXPECT_LE(std::fabs(decoded[i] - values[i]), absmax / 127 * 0.50001f) << i;
    }
  }
}

TEST(Int8Codec, TinyBlocksAreZero) {
  // Broken: scales so small that products become denormals, which some CPUs flush, would reach
  // replicas.
  const float limit = 127.0f * 0x1p-100f;
  EXPECT_EQ(EncodedInt8({limit}), (std::vector<uint8_t>{0x00, 0x00, 0x80, 0x0d, 127}));
  EXPECT_EQ(EncodedInt8({std::nextafter(limit, 0.0f) * 0.999f, -1e-40f}),
            (std::vector<uint8_t>{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(EncodedInt8({0.0f, -0.0f}), (std::vector<uint8_t>{0, 0, 0, 0, 0, 0}));
}

TEST(Int8Codec, TheLargestFloatsStayFinite) {
  // Broken: a finite update would decode to infinity, and replicas would be lost for ever.
  const std::vector<float> decoded = DecodedInt8(EncodedInt8({FLT_MAX, -FLT_MAX, 1.0f}), 3);
  EXPECT_TRUE(std::isfinite(decoded[0]));
  EXPECT_GT(decoded[0], FLT_MAX * 0.999f);
  EXPECT_EQ(decoded[1], -decoded[0]);
  EXPECT_EQ(decoded[2], 0.0f);
  EXPECT_TRUE(std::isfinite(127.0f * kInt8MaxScale));
  EXPECT_TRUE(std::isinf(127.0f * std::nextafter(kInt8MaxScale, FLT_MAX)));
}

TEST(Int8Codec, EncodingWhatWasDecodedIsStable) {
  // Broken: a reducer that passes a mean on would add an error at every hop without need.
  const std::vector<uint8_t> bytes = EncodedInt8(BellValues(1000, 6));
  const std::vector<float> decoded = DecodedInt8(bytes, 1000);
  const std::vector<float> again = DecodedInt8(EncodedInt8(decoded), 1000);
  for (size_t i = 0; i < decoded.size(); ++i) {
    EXPECT_NEAR(again[i], decoded[i], std::fabs(decoded[i]) * 1e-6f);
  }
}

TEST(Int8Codec, EncodeNamesTheValueThatIsNotFinite) {
  // Broken: a worker that diverged would send garbage, and nobody would know which tensor.
  const Int8Codec codec;
  std::vector<uint8_t> bytes(codec.MaxEncodedBytes(600));
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(), FloatFromBits(0xffc00001)}) {
    for (const size_t at : {0, 255, 256, 599}) {
      std::vector<float> values = BellValues(600, 7);
      values[at] = bad;
      const absl::Status status = codec.Encode(values, absl::MakeSpan(bytes)).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(status.message(), HasSubstr("value " + std::to_string(at) + " is not finite"));
    }
  }
}

void ExpectInt8Refused(absl::Span<const uint8_t> bytes, size_t elements, const std::string& why) {
  const Int8Codec codec;
  std::vector<float> values(elements);
  const absl::Status decoded = codec.Decode(bytes, absl::MakeSpan(values));
  EXPECT_EQ(decoded.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(decoded.message(), HasSubstr(why));
  std::vector<float> sum(elements, 3.0f);
  const absl::Status accumulated = codec.DecodeAccumulate(bytes, 0.5f, absl::MakeSpan(sum));
  EXPECT_EQ(accumulated.message(), decoded.message());
  EXPECT_EQ(sum, std::vector<float>(elements, 3.0f)) << "the sum changed on error";
}

TEST(Int8Codec, RefusesBadScales) {
  // Broken: a hostile contributor could make every replica non-finite, or split them by denormal
  // modes.
  const std::vector<uint8_t> good = EncodedInt8(BellValues(700, 8));
  for (const float scale :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -1.0f,
        -0.0f, -std::numeric_limits<float>::infinity(), 1e-40f, 0x1.fffffep-101f,
        std::nextafter(kInt8MaxScale, FLT_MAX), FLT_MAX, FloatFromBits(0xffffffff)}) {
    std::vector<uint8_t> bytes = good;
    PutScale(scale, bytes.data() + 8);
    ExpectInt8Refused(bytes, 700, "the scale of block 2");
  }
}

TEST(Int8Codec, RefusesTheCodeThatNoEncoderWrites) {
  // Broken: two byte strings would stand for one update, and |value| could exceed the declared
  // scale.
  const std::vector<uint8_t> good = EncodedInt8(BellValues(700, 9));
  for (const size_t at : {0, 1, 255, 256, 511, 512, 698, 699}) {
    std::vector<uint8_t> bytes = good;
    bytes[12 + at] = 0x80;
    ExpectInt8Refused(bytes, 700, "code " + std::to_string(at) + " is -128");
  }
}

TEST(Int8Codec, RefusesWrongLengths) {
  // Broken: truncated or padded chunks would be read past their end or taken for others.
  const std::vector<uint8_t> bytes = EncodedInt8(BellValues(700, 10));
  for (size_t size = 0; size < bytes.size(); size += 37)
    ExpectInt8Refused(absl::MakeSpan(bytes).first(size), 700, "bytes");
  ExpectInt8Refused(bytes, 699, "bytes");
  ExpectInt8Refused(bytes, 701, "bytes");
  ExpectInt8Refused({}, 1, "bytes");
  std::vector<uint8_t> small(10);
  EXPECT_FALSE(Int8Codec().Encode(BellValues(700, 1), absl::MakeSpan(small)).ok());
}

TEST(Int8Codec, RefusesAWeightThatIsNotFinite) {
  // Broken: a rogue plan could make sums non-finite.
  const std::vector<uint8_t> bytes = EncodedInt8({1.0f});
  std::vector<float> sum(1);
  EXPECT_FALSE(
      Int8Codec()
          .DecodeAccumulate(bytes, std::numeric_limits<float>::quiet_NaN(), absl::MakeSpan(sum))
          .ok());
}

TEST(Int8Codec, NothingIsAChunkToo) {
  // Broken: an empty range would crash instead of costing nothing.
  const Int8Codec codec;
  EXPECT_EQ(codec.MaxEncodedBytes(0), 0u);
  EXPECT_EQ(codec.Encode({}, {}).value(), 0u);
  EXPECT_TRUE(codec.Decode({}, {}).ok());
  EXPECT_TRUE(codec.DecodeAccumulate({}, 1.0f, {}).ok());
}

}  // namespace
}  // namespace atolld

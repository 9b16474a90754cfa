// What the formats of fp16, bf16, int4 and int2 promise: their bytes, their errors, their refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "compression/codec.h"
#include "compression/codec_benchmark.h"
#include "compression/scaled_kernels.h"
#include "compression/zstd_frame.h"
#include "tests/unit/compression/test_values.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

const Codec& Named(const std::string& name) { return **FindCodec(name); }

std::vector<uint8_t> Encoded(const std::string& codec, absl::Span<const float> values) {
  std::vector<uint8_t> bytes(Named(codec).MaxEncodedBytes(values.size()));
  const auto used = Named(codec).Encode(values, absl::MakeSpan(bytes));
  EXPECT_TRUE(used.ok()) << used.status();
  bytes.resize(used.value_or(0));
  return bytes;
}

std::vector<float> Decoded(const std::string& codec, absl::Span<const uint8_t> bytes,
                           size_t elements) {
  std::vector<float> values(elements);
  const absl::Status status = Named(codec).Decode(bytes, absl::MakeSpan(values));
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

void ExpectRefused(const std::string& codec, absl::Span<const uint8_t> bytes, size_t elements,
                   const std::string& why) {
  std::vector<float> values(elements);
  const absl::Status decoded = Named(codec).Decode(bytes, absl::MakeSpan(values));
  EXPECT_EQ(decoded.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(decoded.message(), HasSubstr(why));
  std::vector<float> sum(elements, 3.0f);
  const absl::Status accumulated = Named(codec).DecodeAccumulate(bytes, 0.5f, absl::MakeSpan(sum));
  EXPECT_EQ(accumulated.message(), decoded.message());
  EXPECT_EQ(sum, std::vector<float>(elements, 3.0f)) << "the sum changed on error";
}

double RelativeError(const std::string& codec, const std::vector<float>& values) {
  const std::vector<float> decoded = Decoded(codec, Encoded(codec, values), values.size());
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    error += std::pow(static_cast<double>(decoded[i]) - values[i], 2);
    norm += std::pow(static_cast<double>(values[i]), 2);
  }
  return std::sqrt(error / norm);
}

TEST(HalfCodecs, KeepEveryHalfToTheBit) {
  // Broken: what one peer decoded and another encodes again would change, or a half have two
  // values.
  for (const std::string codec : {"fp16", "bf16"}) {
    const int infinity = codec == "fp16" ? 0x7c00 : 0x7f80;
    std::vector<uint8_t> bytes;
    for (int half = 0; half < 65536; ++half) {
      if ((half & 0x7fff) >= infinity) continue;
      bytes.push_back(static_cast<uint8_t>(half));
      bytes.push_back(static_cast<uint8_t>(half >> 8));
    }
    const std::vector<float> values = Decoded(codec, bytes, bytes.size() / 2);
    EXPECT_EQ(Encoded(codec, values), bytes) << codec;
  }
}

TEST(HalfCodecs, MatchWorkedExamples) {
  // Broken: the halves would not be IEEE's, little-endian.
  EXPECT_EQ(Encoded("fp16", {1.0f, -2.5f, 65504.0f, 0x1p-24f, 1e-9f}),
            (std::vector<uint8_t>{0x00, 0x3c, 0x00, 0xc1, 0xff, 0x7b, 0x01, 0x00, 0x00, 0x00}));
  EXPECT_EQ(Encoded("bf16", {1.0f, -2.5f, 0x1.01p0f, 0x1.03p0f}),
            (std::vector<uint8_t>{0x80, 0x3f, 0x20, 0xc0, 0x80, 0x3f, 0x82, 0x3f}));
}

TEST(HalfCodecs, WhatIsTooLargeBecomesTheLargest) {
  // Broken: a finite update would decode to infinity, and be refused or lost for ever.
  EXPECT_EQ(Decoded("fp16", Encoded("fp16", {65520.0f, -1e30f, FLT_MAX}), 3),
            (std::vector<float>{65504.0f, -65504.0f, 65504.0f}));
  EXPECT_EQ(Decoded("bf16", Encoded("bf16", {FLT_MAX, -FLT_MAX}), 2),
            (std::vector<float>{0x1.fep127f, -0x1.fep127f}));
}

TEST(HalfCodecs, RefuseHalvesThatAreNotFinite) {
  // Broken: a hostile contributor could make every replica non-finite.
  for (const std::string codec : {"fp16", "bf16"}) {
    const int infinity = codec == "fp16" ? 0x7c00 : 0x7f80;
    const std::vector<uint8_t> good = Encoded(codec, BellValues(100, 1));
    for (const int half : {infinity, infinity | 1, infinity | 0x8000, 0x7fff, 0xffff}) {
      for (const size_t at : {0, 1, 31, 63, 98, 99}) {
        std::vector<uint8_t> bytes = good;
        bytes[2 * at] = static_cast<uint8_t>(half);
        bytes[2 * at + 1] = static_cast<uint8_t>(half >> 8);
        ExpectRefused(codec, bytes, 100, "value " + std::to_string(at) + " is not finite");
      }
    }
  }
}

TEST(Int4Codec, MatchesAWorkedExample) {
  // Broken: the format would not be the documented one: low halves first, then high ones; ties to
  // even; absmax at 7; an odd block's last half unused.
  const std::vector<uint8_t> bytes = Encoded("int4", {7.0f, -7.0f, 0.5f, 1.5f, -2.5f});
  EXPECT_EQ(bytes, (std::vector<uint8_t>{0x00, 0x00, 0x80, 0x3f, 0x27, 0xe9, 0x00}));
  EXPECT_EQ(Decoded("int4", bytes, 5), (std::vector<float>{7, -7, 0, 2, -2}));
}

TEST(Int4Codec, NoErrorExceedsHalfAScale) {
  // Broken: quantisation would lose more than it must.
  const std::vector<float> values = BellValues(3001, 5);
  const std::vector<float> decoded = Decoded("int4", Encoded("int4", values), values.size());
  for (size_t block = 0; block < values.size(); block += 64) {
    float absmax = 0;
    const size_t end = std::min<size_t>(block + 64, values.size());
    for (size_t i = block; i < end; ++i) absmax = std::max(absmax, std::fabs(values[i]));
    for (size_t i = block; i < end; ++i) {
      EXPECT_LE(std::fabs(decoded[i] - values[i]), absmax / 7 * 0.50001f) << i;
    }
  }
}

TEST(Int4Codec, TheLargestFloatsStayFinite) {
  // Broken: a finite update would decode to infinity.
  const std::vector<float> decoded = Decoded("int4", Encoded("int4", {FLT_MAX, -FLT_MAX}), 2);
  EXPECT_GT(decoded[0], FLT_MAX * 0.999f);
  EXPECT_TRUE(std::isfinite(decoded[0]));
  EXPECT_TRUE(std::isfinite(7.0f * kInt4MaxScale));
  EXPECT_TRUE(std::isinf(7.0f * std::nextafter(kInt4MaxScale, FLT_MAX)));
}

TEST(Int4Codec, RefusesWhatNoEncoderWrites) {
  // Broken: two byte strings would stand for one update, or a scale make replicas non-finite.
  const std::vector<uint8_t> good = Encoded("int4", BellValues(131, 8));
  const size_t codes = 3 * sizeof(float);
  for (const size_t at : {0, 1, 31, 32, 63, 64}) {
    std::vector<uint8_t> bytes = good;
    bytes[codes + at] = static_cast<uint8_t>((bytes[codes + at] & 0xf0) | 0x08);
    ExpectRefused("int4", bytes, 131, "byte " + std::to_string(at) + " of the codes holds a -8");
    bytes[codes + at] = 0x81;
    ExpectRefused("int4", bytes, 131, "byte " + std::to_string(at) + " of the codes holds a -8");
  }
  std::vector<uint8_t> bytes = good;
  bytes.at(bytes.size() - 1) |= 0x10;
  ExpectRefused("int4", bytes, 131, "the unused half of the last byte is not 0");
  for (const float scale : {std::numeric_limits<float>::quiet_NaN(), FLT_MAX, -1.0f, -0.0f, 1e-40f,
                            std::nextafter(kInt4MaxScale, FLT_MAX)}) {
    bytes = good;
    std::memcpy(bytes.data() + 4, &scale, sizeof(scale));
    ExpectRefused("int4", bytes, 131, "the scale of block 1");
  }
}

TEST(Int2Codec, FourLevelsAreKeptAsTheyAre) {
  // Broken: a codebook entry would not be the mean of its bin, or codes would be packed otherwise.
  // Mean -0.8, sigma 3.76: the edges are -9.27, -3.62 and 2.02.
  const std::vector<float> values = {-12, -4, 0, 0, 4, 0, 0, -4, 4, 0, 0, 0, 0, 0, 0};
  const std::vector<uint8_t> bytes = Encoded("int2", values);
  ASSERT_EQ(bytes.size(), 16 + 4);
  // Codes 0 1 2 2 3 2 2 1 3 2 2 2 2 2 2; byte j holds codes j, j+4, j+8, j+12.
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin() + 16, bytes.end()),
            (std::vector<uint8_t>{0xbc, 0xa9, 0xaa, 0x26}));
  EXPECT_EQ(Decoded("int2", bytes, values.size()), values);
}

TEST(Int2Codec, RefusesWhatNoEncoderWrites) {
  // Broken: two byte strings would stand for one update, or replicas become non-finite.
  const std::vector<uint8_t> good = Encoded("int2", BellValues(4099, 8));
  for (const float entry : {std::numeric_limits<float>::quiet_NaN(), -0.0f, 1e-40f,
                            -std::numeric_limits<float>::infinity(), 0x1.fffffep-101f}) {
    std::vector<uint8_t> bytes = good;
    std::memcpy(bytes.data() + 16 + 8, &entry, sizeof(entry));
    ExpectRefused("int2", bytes, 4099, "block 1: entry 2 of the codebook");
  }
  std::vector<uint8_t> bytes = good;
  bytes.at(bytes.size() - 1) |= 0x40;
  ExpectRefused("int2", bytes, 4099, "the unused bits of the codes are not 0");
}

TEST(LossyCodecs, ErrorsAreThoseOfTheory) {
  // Broken: an encoder would lose more than its format must. Gaussian values; the second figure is
  // what is known of the format: for halves 2^-11 and 2^-8 at most, int4 10.76 % and int2 42.3 %
  // from the integrals over the bins.
  const std::vector<float> values = GaussianValues(1 << 18, 1);
  EXPECT_NEAR(RelativeError("fp16", values), 0.00021, 0.00001);
  EXPECT_NEAR(RelativeError("bf16", values), 0.00166, 0.00002);
  EXPECT_NEAR(RelativeError("int8", values), 0.0070, 0.0005);
  EXPECT_NEAR(RelativeError("int4", values), 0.1076, 0.002);
  EXPECT_NEAR(RelativeError("int2", values), 0.423, 0.003);
}

TEST(LossyCodecs, RefuseWrongLengths) {
  // Broken: truncated or padded chunks would be read past their end or taken for others.
  for (const std::string codec : {"fp16", "bf16", "int4", "int2"}) {
    const std::vector<uint8_t> bytes = Encoded(codec, BellValues(700, 10));
    for (size_t size = 0; size < bytes.size(); size += 37) {
      ExpectRefused(codec, absl::MakeSpan(bytes).first(size), 700, "bytes");
    }
    ExpectRefused(codec, bytes, 693, "bytes");
    ExpectRefused(codec, bytes, 707, "bytes");
    std::vector<uint8_t> small(10);
    EXPECT_FALSE(Named(codec).Encode(BellValues(700, 1), absl::MakeSpan(small)).ok());
    std::vector<float> sum(700);
    EXPECT_FALSE(
        Named(codec)
            .DecodeAccumulate(bytes, std::numeric_limits<float>::quiet_NaN(), absl::MakeSpan(sum))
            .ok());
    EXPECT_EQ(Named(codec).MaxEncodedBytes(0), 0u);
    EXPECT_EQ(Named(codec).Encode({}, {}).value(), 0u);
    EXPECT_TRUE(Named(codec).Decode({}, {}).ok());
    EXPECT_TRUE(Named(codec).DecodeAccumulate({}, 1.0f, {}).ok());
  }
}

TEST(LossyCodecs, ZstdReachesTheCodesEntropy) {
  // Broken: int4's and int2's packing would hide from zstd that small codes are frequent. By
  // order-0 entropy of Gaussian codes: int4 3.50 of 4 bits, int2 1.52 of 2; scales and codebooks
  // beside.
  const std::vector<float> values = GaussianValues(1 << 18, 2);
  const auto bits = [&values](const std::string& codec) {
    return 8.0 * static_cast<double>(ZstdCompress(Encoded(codec, values))->size()) /
           static_cast<double>(values.size());
  };
  EXPECT_LT(bits("int4"), 4.05);
  EXPECT_LT(bits("int2"), 1.60);
}

}  // namespace
}  // namespace atolld

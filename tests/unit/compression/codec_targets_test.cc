// Every SIMD target that this build and CPU have gives the oracles' bits, for the codecs of
// codec_reference.h; int8_targets_test.cc is the same for int8.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "compression/codec.h"
#include "compression/simd.h"
#include "tests/unit/compression/codec_reference.h"
#include "tests/unit/compression/test_values.h"

namespace atolld {
namespace {

// Between two neighbouring halves of either form: each is a tie for one of them.
std::vector<float> TieValues(size_t elements, uint64_t seed) {
  TestRandom random(seed);
  std::vector<float> values(elements);
  for (size_t i = 0; i < elements; ++i) {
    const uint32_t bits = random.Next();
    // Exponents from 2^-27 to 2^17, so fp16's subnormal numbers and its end are among them.
    const uint32_t exponent = (100 + bits % 45) << 23;
    const uint32_t mantissa =
        i % 2 == 0 ? (random.Next() & 0x7fe000) | 0x1000 : (random.Next() & 0x7f0000) | 0x8000;
    values[i] = FloatFromBits((bits & 0x80000000) | exponent | mantissa);
  }
  return values;
}

// int4's ties: all values of a block are k + 1/2 times its scale.
std::vector<float> CodeTies(size_t elements) {
  std::vector<float> values(elements);
  for (size_t i = 0; i < elements; ++i) {
    values[i] = i % 64 == 0 ? 7.0f : static_cast<float>(static_cast<int>(i % 14) - 7) + 0.5f;
  }
  return values;
}

std::vector<float> DenormalValues(size_t elements, uint64_t seed) {
  TestRandom random(seed);
  std::vector<float> values(elements);
  for (float& value : values) value = FloatFromBits(random.Next() & 0x807fffff);
  if (elements > 300) values[300] = 1e-30f;  // the only value of its block above the limit
  return values;
}

// Blocks of 64 whose largest magnitude walks through the floats around a bound.
std::vector<float> AroundBound(float bound, size_t elements) {
  std::vector<float> values(elements, bound * 0.25f);
  float edge = bound;
  for (int i = 0; i < 4; ++i) edge = std::nextafter(edge, 0.0f);
  for (size_t i = 0; i < elements; i += 64) {
    values[i] = -edge;
    edge = std::min(std::nextafter(edge, FLT_MAX), FLT_MAX);
  }
  return values;
}

std::vector<std::vector<float>> Inputs(size_t elements) {
  return {AnyFiniteValues(elements, 1),
          BellValues(elements, 2),
          TieValues(elements, 3),
          CodeTies(elements),
          DenormalValues(elements, 3),
          std::vector<float>(elements, 0.0f),
          std::vector<float>(elements, -0.0f),
          std::vector<float>(elements, -FLT_MAX),
          AroundBound(65520.0f, elements),
          AroundBound(7.0f * 0x1p-100f, elements),
          AroundBound(0x1p-100f, elements),
          AroundBound(FLT_MAX, elements)};
}

using TargetAndCodec = std::tuple<std::string, std::string>;

class CodecTargets : public ::testing::TestWithParam<TargetAndCodec> {
 protected:
  const ScopedSimdTarget pinned_{std::get<0>(GetParam())};
  const std::string name_ = std::get<1>(GetParam());
  const Codec& codec_ = **FindCodec(name_);
};

INSTANTIATE_TEST_SUITE_P(All, CodecTargets,
                         ::testing::Combine(::testing::ValuesIn(SimdTargetNames()),
                                            ::testing::Values("bf16", "fp16", "int2", "int4")),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::get<1>(test.param);
                         });

// Encodes, decodes and accumulates at an odd address: chunks start anywhere in the flat vector and
// in a message.
void ExpectOraclesBits(const Codec& codec, const std::vector<float>& values, size_t shift) {
  const size_t elements = values.size();
  const std::string name(codec.name());
  std::vector<float> shifted(shift);
  shifted.insert(shifted.end(), values.begin(), values.end());
  std::vector<uint8_t> out(shift + codec.MaxEncodedBytes(elements) + 1, 0xee);
  const auto used =
      codec.Encode(absl::MakeSpan(shifted).subspan(shift), absl::MakeSpan(out).subspan(shift));
  ASSERT_TRUE(used.ok()) << used.status();
  ASSERT_EQ(*used, codec.MaxEncodedBytes(elements));
  ASSERT_EQ(out.back(), 0xee) << "wrote past its bytes";
  const auto bytes = absl::MakeConstSpan(out).subspan(shift, *used);
  const std::vector<uint8_t> expected = ReferenceEncode(name, values);
  ASSERT_TRUE(bytes == absl::MakeConstSpan(expected));

  const std::vector<float> expected_values = ReferenceDecode(name, expected, elements);
  std::vector<float> decoded(shift + elements + 1, 42.0f);
  ASSERT_TRUE(codec.Decode(bytes, absl::MakeSpan(decoded).subspan(shift, elements)).ok());
  ASSERT_TRUE(SameBits(absl::MakeSpan(decoded).subspan(shift, elements), expected_values));
  ASSERT_EQ(decoded.back(), 42.0f) << "wrote past its values";

  if (codec.has_squared_norm()) {
    const auto norm = codec.SquaredNorm(bytes, elements);
    ASSERT_TRUE(norm.ok()) << norm.status();
    ASSERT_EQ(*norm, ReferenceSquaredNorm(name, expected, elements));
  }

  const std::vector<float> start = BellValues(elements, 4);
  std::vector<float> sum(shift);
  sum.insert(sum.end(), start.begin(), start.end());
  sum.push_back(42.0f);
  const auto middle = absl::MakeSpan(sum).subspan(shift, elements);
  ASSERT_TRUE(codec.DecodeAccumulate(bytes, 0.7f, middle).ok());
  ASSERT_EQ(sum.back(), 42.0f) << "wrote past its sum";
  for (size_t i = 0; i < elements; ++i) {
    const volatile float product = 0.7f * expected_values[i];
    const float expected_sum = start[i] + product;
    ASSERT_TRUE(SameBits({&sum[shift + i], 1}, {&expected_sum, 1})) << i;
  }
}

TEST_P(CodecTargets, GivesTheOraclesBits) {
  // Broken: replicas on different CPUs would hold different floats after the same entry.
  for (const size_t elements :
       {1, 2, 3, 4, 5, 7, 15, 16, 17, 31, 33, 63, 64, 65, 67, 127, 129, 1000, 4095, 4097, 9001}) {
    size_t input = 0;
    for (const std::vector<float>& values : Inputs(elements)) {
      for (const size_t shift : {0, 1, 3}) {
        SCOPED_TRACE(::testing::Message()
                     << elements << " values, input " << input << ", shift " << shift);
        ExpectOraclesBits(codec_, values, shift);
        if (HasFatalFailure()) return;
      }
      ++input;
    }
  }
}

struct Golden {
  const char* codec;
  const char* bytes;
  const char* decoded;
  const char* sum;
};

constexpr Golden kGolden[] = {
    {"bf16", "bd0d554bb712db290b851f512536d8f106c5b3820c88bf216844b1d4786ad63e",
     "2ded0e40a34314f1f320c33168f05d33160ff053ae3d9ab651e3654713c051b6",
     "bcdc978330a02f06d36db57a8eb0c01f319d50c37b443d72b15aa696d1df9f94"},
    {"fp16", "4906b46dd6f16da455a009325d977a9703e571b449b4e3502b557d430cf29463",
     "1df41fd8625a1b18655d2e9de313d1a0a7bc8a57c3ed710cc981f42f5d159bcd",
     "d83eb63369b45f84e11077e895e0433e3e4086c3851805a1bfe1c8a8c54ecf59"},
    {"int2", "74af3664a9a06444d5cefd177527e4d90096cb6c03ee4c718625fb5dee4750cd",
     "6ee994a1a5e76f76319deb29e1428717620debed7126db8823df85f042bf7080",
     "e744c6423dcbf46d5326e41ea254db55e9b181689164ff100491af5f58e25d07"},
    {"int4", "ae2ce3febd87c8dbe95edec2f080a1a3a50b0d4485f6f6da8a1ab254dd3e2492",
     "32cd68b6c292b5d4066e6bd7faf36ca17f10c2bd2c8cf8ea2b9a872f69558a02",
     "9f3f6c6e9ec5f7e33d69d504b8f333feced631ec16b5d91bb5f7c1adccd51c3e"},
};

TEST_P(CodecTargets, KeepsTheGoldenDigests) {
  // Broken: a release or another CPU would no longer replay yesterday's logs to the same bits.
  const std::vector<float> values = BellValues(100001, 2024);
  std::vector<uint8_t> bytes(codec_.MaxEncodedBytes(values.size()));
  ASSERT_TRUE(codec_.Encode(values, absl::MakeSpan(bytes)).ok());
  std::vector<float> decoded(values.size());
  ASSERT_TRUE(codec_.Decode(bytes, absl::MakeSpan(decoded)).ok());
  std::vector<float> sum = values;
  ASSERT_TRUE(codec_.DecodeAccumulate(bytes, 0.3f, absl::MakeSpan(sum)).ok());
  int found = 0;
  for (const Golden& golden : kGolden) {
    if (name_ != golden.codec) continue;
    ++found;
    EXPECT_EQ(Sha256Hex(bytes.data(), bytes.size()), golden.bytes);
    EXPECT_EQ(Sha256Hex(decoded.data(), decoded.size() * 4), golden.decoded);
    EXPECT_EQ(Sha256Hex(sum.data(), sum.size() * 4), golden.sum);
  }
  EXPECT_EQ(found, 1);
}

TEST_P(CodecTargets, RefusesWhatIsNotFinite) {
  // Broken: NaN would be encoded on one CPU and refused on another, and the replicas would split.
  const std::vector<float> values = BellValues(5000, 5);
  std::vector<uint8_t> bytes(codec_.MaxEncodedBytes(values.size()));
  for (const uint32_t bits : {0x7f800001u, 0xffc00000u, 0x7f800000u, 0xff800000u}) {
    for (size_t at = 0; at < values.size(); at += 97) {
      std::vector<float> bad = values;
      bad[at] = FloatFromBits(bits);
      const absl::Status status = codec_.Encode(bad, absl::MakeSpan(bytes)).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(status.message(), "value " + std::to_string(at) + " is not finite");
    }
  }
}

TEST_P(CodecTargets, TakesOrRefusesAnyBytesAsTheFirstTargetDoes) {
  // Broken: a hostile chunk would be read past its end, taken on one CPU and refused on another, or
  // half added to a sum.
  TestRandom random(6);
  for (int trial = 0; trial < 2000; ++trial) {
    const size_t elements = 1 + random.Next() % 200;
    std::vector<uint8_t> bytes = ReferenceEncode(name_, BellValues(elements, random.Next()));
    for (uint32_t change = random.Next() % 4; change > 0; --change) {
      uint8_t& byte = bytes[random.Next() % bytes.size()];
      byte = static_cast<uint8_t>(random.Next());
    }
    if (random.Next() % 8 == 0) bytes.resize(random.Next() % (2 * bytes.size()));
    std::vector<float> values(elements);
    std::vector<float> sum(elements, 3.0f);
    const bool taken = codec_.Decode(bytes, absl::MakeSpan(values)).ok();
    ASSERT_EQ(taken, codec_.DecodeAccumulate(bytes, 0.5f, absl::MakeSpan(sum)).ok()) << trial;
    ASSERT_EQ(taken, codec_.Check(bytes, elements).ok()) << trial;
    std::vector<float> again(elements);
    {
      const ScopedSimdTarget lowest(SimdTargetNames().back());
      ASSERT_EQ(taken, codec_.Decode(bytes, absl::MakeSpan(again)).ok()) << trial;
    }
    if (taken) {
      ASSERT_TRUE(SameBits(values, again)) << trial;
      for (const float value : values) ASSERT_TRUE(std::isfinite(value)) << trial;
    } else {
      ASSERT_EQ(sum, std::vector<float>(elements, 3.0f)) << "the sum changed on error";
    }
  }
}

}  // namespace
}  // namespace atolld

#include "compression/either_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compression/wire_codec.h"
#include "tests/unit/compression/test_values.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

const Codec& CodecOf(const std::string& name) { return **FindCodec(name); }

std::vector<uint8_t> EncodedBy(const Codec& codec, const std::vector<float>& values) {
  std::vector<uint8_t> bytes(codec.MaxEncodedBytes(values.size()));
  const absl::StatusOr<size_t> size = codec.Encode(values, absl::MakeSpan(bytes));
  EXPECT_TRUE(size.ok()) << size.status();
  bytes.resize(size.value_or(0));
  return bytes;
}

std::vector<float> DecodedBy(const Codec& codec, const std::vector<uint8_t>& bytes,
                             size_t elements) {
  std::vector<float> values(elements);
  EXPECT_TRUE(codec.Decode(bytes, absl::MakeSpan(values)).ok());
  return values;
}

std::vector<float> ValuesOf(uint64_t seed) {
  TestRandom random(seed);
  std::vector<float> values(3 * 4096 + 5);
  for (float& value : values) {
    value = static_cast<float>(static_cast<int32_t>(random.Next())) * 0x1p-40f;
  }
  return values;
}

// Broken: who reads a chunk takes it for one of the other codec, or finds other values in it than
// its sender did.
TEST(EitherCodecTest, AChunkSaysWhichOfTheTwoItIs) {
  const std::vector<float> values = ValuesOf(1);
  for (const auto& [usual, slow] : {std::pair{"int8", "int4"}, std::pair{"bf16", "topk"}}) {
    for (const bool slowly : {false, true}) {
      const Codec& writes = FindEitherCodec(CodecOf(usual), CodecOf(slow), slowly);
      const Codec& reads = FindEitherCodec(CodecOf(usual), CodecOf(slow), !slowly);
      const Codec& plain = CodecOf(slowly ? slow : usual);
      std::vector<uint8_t> expected = EncodedBy(plain, values);
      const std::vector<float> decoded = DecodedBy(plain, expected, values.size());
      expected.push_back(slowly ? 1 : 0);
      const std::vector<uint8_t> bytes = EncodedBy(writes, values);
      EXPECT_EQ(bytes, expected);
      EXPECT_LE(bytes.size(), reads.MaxEncodedBytes(values.size()));
      EXPECT_EQ(DecodedBy(reads, bytes, values.size()), decoded);
      EXPECT_TRUE(reads.Check(bytes, values.size()).ok());
      EXPECT_EQ(writes.has_stochastic_rounding(), plain.has_stochastic_rounding());
    }
  }
}

// Broken: a mean over both kinds has other bits than the sum of what they decode to, one after the
// other.
TEST(EitherCodecTest, AMeanOverBothIsTheSumInOrder) {
  const Codec& usual = FindEitherCodec(CodecOf("int8"), CodecOf("int4"), false);
  const Codec& slow = FindEitherCodec(CodecOf("int8"), CodecOf("int4"), true);
  for (const std::vector<bool>& kinds :
       {std::vector<bool>{false, true, false}, {true, true, true}, {false, false, false}}) {
    std::vector<std::vector<uint8_t>> bytes;
    std::vector<WeightedChunk> chunks;
    for (size_t i = 0; i < kinds.size(); ++i) {
      bytes.push_back(EncodedBy(kinds[i] ? slow : usual, ValuesOf(i)));
    }
    for (size_t i = 0; i < kinds.size(); ++i) {
      chunks.push_back({bytes[i], 0.5f + static_cast<float>(i)});
    }
    const size_t elements = ValuesOf(0).size();
    std::vector<float> sum(elements);
    std::vector<float> expected(elements, 0.0f);
    ASSERT_TRUE(usual.DecodeSum(chunks, 0.25f, absl::MakeSpan(sum)).ok());
    for (size_t i = 0; i < kinds.size(); ++i) {
      const std::vector<float> values = DecodedBy(usual, bytes[i], elements);
      for (size_t k = 0; k < elements; ++k) {
        const float product = chunks[i].weight * values[k];
        expected[k] = expected[k] + product;
      }
    }
    for (float& value : expected) value = value * 0.25f;
    EXPECT_EQ(sum, expected);
  }
}

// Broken: a liar's chunk is read as something, or brings a daemon down.
TEST(EitherCodecTest, BytesThatDoNotSayItAreRefused) {
  const Codec& codec = FindEitherCodec(CodecOf("int8"), CodecOf("int4"), false);
  std::vector<float> values(4096);
  std::vector<uint8_t> bytes = EncodedBy(codec, values);
  bytes.back() = 2;
  for (const absl::Status& status :
       {codec.Decode(bytes, absl::MakeSpan(values)), codec.Check(bytes, values.size()),
        codec.DecodeAccumulate(bytes, 1, absl::MakeSpan(values))}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("2, not 0 for int8 or 1 for int4"));
  }
  bytes.back() = 1;  // as many bytes as int4 never has
  EXPECT_TRUE(absl::IsInvalidArgument(codec.Check(bytes, values.size())));
  EXPECT_TRUE(absl::IsInvalidArgument(codec.Check({}, values.size())));
  std::vector<uint8_t> little(codec.MaxEncodedBytes(values.size()) - 1);
  EXPECT_TRUE(absl::IsInvalidArgument(codec.Encode(values, absl::MakeSpan(little)).status()));
}

// Broken: a run whose slow peers send more than the others, or means that nobody can make of it.
TEST(EitherCodecTest, TheSlowCodecIsSmallerAndFitsTheMeans) {
  const auto wrong = [](const char* codec, const char* upper, const char* slow) {
    return std::string(CheckSlowCodec(*ParseLevels(codec, upper), CodecOf(slow)).message());
  };
  EXPECT_EQ(wrong("int8", "", "int4"), "");
  EXPECT_EQ(wrong("bf16", "int4", "topk"), "");
  EXPECT_THAT(wrong("int8", "", "int8"), HasSubstr("what all others use too"));
  EXPECT_THAT(wrong("int4", "", "int8"), HasSubstr("no smaller than 'int4'"));
  EXPECT_THAT(wrong("int8", "int2", "topk"), HasSubstr("'int2' does not encode means of 'topk'"));
}

}  // namespace
}  // namespace atolld

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "compression/codec.h"
#include "compression/simd.h"
#include "gtest/gtest.h"
#include "tests/unit/compression/test_values.h"

namespace atolld {
namespace {

class DecodeSum : public ::testing::TestWithParam<std::string> {
 protected:
  std::vector<uint8_t> Encoded(const std::vector<float>& values) const {
    std::vector<uint8_t> bytes(codec_.MaxEncodedBytes(values.size()));
    const auto used = codec_.Encode(values, absl::MakeSpan(bytes));
    EXPECT_TRUE(used.ok()) << used.status();
    bytes.resize(used.value_or(0));
    return bytes;
  }

  // So many chunks, each of other values, as an update is: zeros among them.
  std::vector<std::vector<uint8_t>> Chunks(size_t count, size_t elements) const {
    std::vector<std::vector<uint8_t>> chunks;
    for (size_t c = 0; c < count; ++c) {
      std::vector<float> values = BellValues(elements, static_cast<uint32_t>(c + 7));
      for (size_t i = c; i < elements; i += 5) values[i] = i % 2 == 0 ? 0.0f : -0.0f;
      chunks.push_back(Encoded(values));
    }
    return chunks;
  }

  // The weights -1, 0.75, ...: of either sign, so that sums cross zero.
  static std::vector<WeightedChunk> Weighted(const std::vector<std::vector<uint8_t>>& chunks) {
    std::vector<WeightedChunk> weighted;
    for (size_t c = 0; c < chunks.size(); ++c) {
      weighted.push_back({chunks[c], c % 2 == 0 ? -1.0f / static_cast<float>(c + 1)
                                                : 1.5f / static_cast<float>(c + 1)});
    }
    return weighted;
  }

  const Codec& codec_ = **FindCodec(GetParam());
};

INSTANTIATE_TEST_SUITE_P(All, DecodeSum, ::testing::ValuesIn(CodecNames()),
                         [](const auto& test) { return test.param; });

TEST_P(DecodeSum, GivesTheBitsOfOneChunkAfterTheOther) {
  // Broken: a mean made in one pass would be another than the one that an auditor, an older daemon
  // or an independent program makes of the same chunks.
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget pinned(target);
    for (const size_t elements : {1, 15, 63, 64, 65, 255, 256, 257, 300, 511, 513, 2307, 9001}) {
      for (const size_t count : {0, 1, 2, 3, 8}) {
        SCOPED_TRACE(target + ", " + std::to_string(elements) + " values, " +
                     std::to_string(count) + " chunks");
        const std::vector<std::vector<uint8_t>> chunks = Chunks(count, elements);
        std::vector<float> expected(elements, 0.0f);
        for (const WeightedChunk& chunk : Weighted(chunks)) {
          ASSERT_TRUE(
              codec_.DecodeAccumulate(chunk.bytes, chunk.weight, absl::MakeSpan(expected)).ok());
        }
        for (float& value : expected) value = value * 0.3f;
        for (const size_t shift : {0, 1}) {
          std::vector<float> sum(shift + elements + 1, 42.0f);
          const auto middle = absl::MakeSpan(sum).subspan(shift, elements);
          ASSERT_TRUE(codec_.DecodeSum(Weighted(chunks), 0.3f, middle).ok());
          ASSERT_TRUE(SameBits(middle, expected));
          ASSERT_EQ(sum.back(), 42.0f) << "wrote past its sum";
        }
        std::vector<uint8_t> mean(codec_.MaxEncodedBytes(elements));
        const auto size = codec_.EncodeMean(expected, absl::MakeSpan(mean));
        ASSERT_TRUE(size.ok()) << size.status();
        mean.resize(*size);
        std::vector<uint8_t> out(codec_.MaxEncodedBytes(elements) + 1, 0xee);
        const auto used = codec_.EncodeSum(Weighted(chunks), 0.3f, elements,
                                           absl::MakeSpan(out).first(out.size() - 1));
        ASSERT_TRUE(used.ok()) << used.status();
        ASSERT_EQ(out.back(), 0xee) << "wrote past its bytes";
        out.resize(*used);
        ASSERT_TRUE(out == mean);
      }
    }
  }
}

TEST_P(DecodeSum, RefusesWhateverCheckRefuses) {
  // Broken: a hostile contributor's chunk would be part of the mean where others stand beside it.
  const size_t elements = 700;
  const std::vector<std::vector<uint8_t>> good = Chunks(3, elements);
  std::vector<float> sum(elements);
  std::vector<uint8_t> out(codec_.MaxEncodedBytes(elements));
  for (size_t which = 0; which < good.size(); ++which) {
    for (size_t at = 0; at < good[which].size(); ++at) {
      for (const int byte : {0x00, 0x08, 0x7f, 0x80, 0xff}) {
        std::vector<std::vector<uint8_t>> chunks = good;
        chunks[which][at] = static_cast<uint8_t>(byte);
        ASSERT_EQ(codec_.Check(chunks[which], elements).ok(),
                  codec_.DecodeSum(Weighted(chunks), 0.5f, absl::MakeSpan(sum)).ok())
            << "byte " << at << " of chunk " << which << " is " << byte;
        ASSERT_EQ(codec_.Check(chunks[which], elements).ok(),
                  codec_.EncodeSum(Weighted(chunks), 0.5f, elements, absl::MakeSpan(out)).ok())
            << "byte " << at << " of chunk " << which << " is " << byte;
      }
    }
    std::vector<std::vector<uint8_t>> chunks = good;
    chunks[which].pop_back();
    EXPECT_FALSE(codec_.DecodeSum(Weighted(chunks), 0.5f, absl::MakeSpan(sum)).ok());
    std::vector<WeightedChunk> weighted = Weighted(good);
    weighted[which].weight = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(codec_.DecodeSum(weighted, 0.5f, absl::MakeSpan(sum)).ok());
    EXPECT_FALSE(codec_.EncodeSum(weighted, 0.5f, elements, absl::MakeSpan(out)).ok());
  }
  EXPECT_FALSE(codec_.EncodeSum(Weighted(good), 0.5f, elements, absl::MakeSpan(out).first(3)).ok());
}

TEST_P(DecodeSum, AMeanThatIsNotFiniteIsNamed) {
  // Broken: replicas would hold infinities that no later entry removes.
  const size_t elements = 9001;
  std::vector<float> values(elements, 0.0f);
  values[8999] = 1e30f;
  const std::vector<std::vector<uint8_t>> chunks = {Encoded(values)};
  std::vector<uint8_t> out(codec_.MaxEncodedBytes(elements));
  const auto used = codec_.EncodeSum({{chunks[0], 1e30f}}, 1.0f, elements, absl::MakeSpan(out));
  if (codec_.name() == "fp16") {
    EXPECT_TRUE(used.ok()) << "65504 * 1e30 is finite";
    return;
  }
  ASSERT_FALSE(used.ok());
  EXPECT_EQ(used.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(used.status().message(), "value 8999 is not finite");
}

}  // namespace

namespace {

class DecodingWays : public ::testing::TestWithParam<std::string> {
 protected:
  std::vector<uint8_t> Encoded(size_t elements) const {
    const std::vector<float> values = BellValues(elements, elements);
    std::vector<uint8_t> bytes(codec_.MaxEncodedBytes(elements));
    const auto used = codec_.Encode(values, absl::MakeSpan(bytes));
    EXPECT_TRUE(used.ok()) << used.status();
    bytes.resize(used.value_or(0));
    return bytes;
  }

  const Codec& codec_ = **FindCodec(GetParam());
};

TEST_P(DecodingWays, GiveTheSameValues) {
  // Broken: a peer would measure another update than its reducer averages.
  for (const size_t elements : {0, 1, 255, 4095, 4096, 4097, 8192, 12345}) {
    const std::vector<uint8_t> bytes = Encoded(elements);
    std::vector<float> whole(elements);
    ASSERT_TRUE(codec_.Decode(bytes, absl::MakeSpan(whole)).ok());
    std::vector<float> streamed(elements);
    ASSERT_TRUE(codec_.DecodeToMemory(bytes, absl::MakeSpan(streamed)).ok());
    EXPECT_TRUE(SameBits(streamed, whole)) << elements;
  }
}

TEST_P(DecodingWays, MeasureWhatTheyDecode) {
  // Broken: an update would be judged by another length than that of what is averaged.
  for (const size_t elements : {0, 1, 63, 64, 255, 257, 4097, 12345}) {
    const std::vector<uint8_t> bytes = Encoded(elements);
    const absl::StatusOr<double> norm = codec_.SquaredNorm(bytes, elements);
    if (!codec_.has_squared_norm()) {
      EXPECT_FALSE(norm.ok());
      continue;
    }
    std::vector<float> values(elements);
    ASSERT_TRUE(codec_.Decode(bytes, absl::MakeSpan(values)).ok());
    double expected = 0;
    for (const float value : values) expected += static_cast<double>(value) * value;
    ASSERT_TRUE(norm.ok()) << norm.status();
    // Each value was rounded to fp32 once.
    EXPECT_NEAR(*norm, expected, expected * 2e-7) << elements;
  }
}

TEST_P(DecodingWays, RefuseTheSame) {
  // Broken: a chunk that one way refuses would be taken by another.
  std::vector<uint8_t> bytes = Encoded(5000);
  const auto expect_refused = [this](const std::vector<uint8_t>& wrong) {
    std::vector<float> values(5000);
    const std::string why(codec_.Decode(wrong, absl::MakeSpan(values)).message());
    EXPECT_FALSE(why.empty());
    EXPECT_EQ(codec_.DecodeToMemory(wrong, absl::MakeSpan(values)).message(), why);
    if (!codec_.has_squared_norm()) return;
    EXPECT_EQ(codec_.SquaredNorm(wrong, values.size()).status().message(), why);
  };
  expect_refused(std::vector<uint8_t>(bytes.begin(), bytes.end() - 1));
  expect_refused({});
  // No scale, no half and no float is so, and no place of a value is twice the one before.
  std::fill(bytes.begin(), bytes.end(), 0xff);
  expect_refused(bytes);
}

INSTANTIATE_TEST_SUITE_P(Codecs, DecodingWays, ::testing::ValuesIn(CodecNames()),
                         [](const auto& codec) { return codec.param; });

}  // namespace

}  // namespace atolld

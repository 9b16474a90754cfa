// However a codec is read, decoded or measured, through the caches or past them, it says the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compression/codec.h"
#include "tests/unit/compression/test_values.h"

namespace atolld {
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

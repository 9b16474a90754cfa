// However a codec decodes, whole, in pieces or past the caches, the values are the same.
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
    std::vector<float> pieces;
    const auto take = [&pieces](absl::Span<const float> piece) {
      EXPECT_EQ(pieces.size() % Codec::kPieceElements, 0u) << "only the last one is short";
      pieces.insert(pieces.end(), piece.begin(), piece.end());
    };
    ASSERT_TRUE(codec_.DecodeInPieces(bytes, elements, take).ok());
    EXPECT_TRUE(SameBits(pieces, whole)) << elements;
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
    const auto ignore = [](absl::Span<const float>) {};
    EXPECT_EQ(codec_.DecodeInPieces(wrong, values.size(), ignore).message(), why);
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

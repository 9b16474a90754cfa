#include "daemon/peer/residual.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace atolld {
namespace {

class ResidualTest : public ::testing::Test {
 protected:
  ResidualTest() : grid_(3 * 4096, 4096), codec_(**FindCodec("int8")) {
    for (size_t i = 0; i < grid_.elements(); ++i) {
      values_.push_back(static_cast<float>(i % 97) * 0.013f - 0.6f);
    }
    contribution_ = *EncodeContribution(grid_, codec_, Rounding(), values_);
    for (const char* peer : {"a", "b"}) header_.add_contributors()->set_peer(peer);
    v1::ShardRecord* first = header_.add_shards();
    first->set_chunks(2);
    first->set_contributors(std::string(1, 3));
    v1::ChunkRecord* exception = first->add_exceptions();
    exception->set_chunk(1);
    exception->set_contributors(std::string(1, 1));  // chunk 1: a alone
    v1::ShardRecord* second = header_.add_shards();
    second->set_first_chunk(2);
    second->set_chunks(1);
    second->set_contributors(std::string(1, 3));
  }

  std::vector<float> Sent(uint32_t chunk) {
    std::vector<float> sent(grid_.Elements(chunk));
    EXPECT_TRUE(codec_.Decode(contribution_.chunks[chunk].span(), absl::MakeSpan(sent)).ok());
    return sent;
  }

  const ChunkGrid grid_;
  const Codec& codec_;
  std::vector<float> values_;
  Contribution contribution_;
  v1::EntryHeader header_;
};

// Broken: what quantisation lost would be lost for good, or what was never counted taken as sent.
TEST_F(ResidualTest, IncludedChunksKeepTheirLossOthersEverything) {
  std::vector<float> residual = values_;
  ASSERT_TRUE(
      SubtractIncluded(header_, 1, grid_, codec_, contribution_, absl::MakeSpan(residual)).ok());
  for (uint32_t chunk = 0; chunk < grid_.chunks(); ++chunk) {
    const std::vector<float> sent = Sent(chunk);
    for (size_t i = 0; i < sent.size(); ++i) {
      const size_t at = grid_.Offset(chunk) + i;
      const float expected = chunk == 1 ? values_[at] : values_[at] - sent[i];
      ASSERT_EQ(residual[at], expected) << "chunk " << chunk << " value " << i;
    }
  }
}

}  // namespace
}  // namespace atolld

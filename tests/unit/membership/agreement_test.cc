#include "membership/agreement.h"

#include "gtest/gtest.h"
#include "membership/bitmap.h"

namespace atolld {
namespace {

// Would break: a peer whose chunks all came too late is told that its update counted, and its
// samples are spent.
TEST(MakeHeader, NamesOnlyThoseWhoseChunksWereAveraged) {
  v1::Plan plan;
  plan.set_version(3);
  plan.set_parameters(100);
  for (const char* peer : {"a", "b", "c"}) {
    v1::PlanMember* member = plan.add_contributors();
    member->set_peer(peer);
    member->set_tokens(7);
    member->set_weight_bits(0x3f800000);
  }
  v1::Vote vote;
  vote.set_payload_digest("payload");
  vote.set_state_digest("state");
  v1::ShardRecord* shard = vote.add_shards();
  shard->set_chunks(2);
  shard->set_reducer("a");
  shard->set_contributors("\x05");  // a and c
  v1::ChunkRecord* exception = shard->add_exceptions();
  exception->set_chunk(1);
  exception->set_contributors("\x04");  // c
  v1::RunSpec spec;
  spec.set_run_id("r");
  spec.mutable_exchange()->set_codec("int8");
  const v1::EntryHeader header = MakeHeader({spec, {}, "previous"}, plan, vote);
  ASSERT_EQ(header.contributors_size(), 2);
  EXPECT_EQ(header.contributors(0).peer(), "a");
  EXPECT_EQ(header.contributors(1).peer(), "c");
  EXPECT_EQ(header.shards(0).contributors(), "\x03");
  EXPECT_EQ(header.shards(0).exceptions(0).contributors(), "\x02");
  EXPECT_EQ(header.base_version(), 2u);
  EXPECT_EQ(header.range_elements(), 100u);
  EXPECT_EQ(header.payload_digest(), "payload");
  EXPECT_EQ(header.previous_state_digest(), "state");
  EXPECT_EQ(header.previous_header_digest(), "previous");
}

// Would break: bitmaps of nine and more contributors.
TEST(Bitmap, SpansBytes) {
  std::string bitmap(BitmapBytes(9), '\0');
  EXPECT_FALSE(ValidBitmap(bitmap, 9));
  SetBit(&bitmap, 8);
  EXPECT_TRUE(ValidBitmap(bitmap, 9));
  EXPECT_TRUE(BitAt(bitmap, 8));
  EXPECT_FALSE(BitAt(bitmap, 0));
  EXPECT_FALSE(ValidBitmap(bitmap, 8));
  SetBit(&bitmap, 9);
  EXPECT_FALSE(ValidBitmap(bitmap, 9));
}

}  // namespace
}  // namespace atolld

#include "membership/history/agreement.h"

#include <string>
#include <vector>

#include "compression/base/bitmap.h"
#include "gtest/gtest.h"
#include "tests/unit/membership/history/records_text.h"

namespace atolld {
namespace {

std::vector<v1::SampleRange> SamplesOf(const std::string& peer) {
  v1::SampleRange range;
  range.set_first(static_cast<uint64_t>(peer[0]));
  range.set_count(2);
  return {range};
}

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
  *vote.mutable_records() = RecordsOf({{"a", {{1, "\x05"}, {1, "\x04"}}}});  // a and c, then c
  v1::RunSpec spec;
  spec.set_run_id("r");
  spec.mutable_exchange()->set_codec("int8");
  const v1::EntryHeader header = MakeHeader(
      {spec, {}, "previous", [](const std::string& peer) { return SamplesOf(peer); }}, plan, vote);
  ASSERT_EQ(header.contributors_size(), 2);
  EXPECT_EQ(header.contributors(0).peer(), "a");
  EXPECT_EQ(header.contributors(1).peer(), "c");
  EXPECT_EQ(SetOfChunk(header.records(), 0).contributors(), "\x03");
  EXPECT_EQ(SetOfChunk(header.records(), 1).contributors(), "\x02");
  EXPECT_EQ(header.codec(), "int8");
  EXPECT_EQ(header.base_version(), 2u);
  EXPECT_EQ(header.range_elements(), 100u);
  EXPECT_EQ(header.payload_digest(), "payload");
  EXPECT_EQ(header.previous_state_digest(), "state");
  EXPECT_EQ(header.previous_header_digest(), "previous");
  ASSERT_EQ(header.contributors(1).samples_size(), 1);
  EXPECT_EQ(header.contributors(1).samples(0).first(), static_cast<uint64_t>('c'));
}

// Would break: headers name another fragment than the one whose turn it is, and no peer takes them;
// or a run without fragments gets headers that old releases do not know.
TEST(MakeHeader, NamesTheFragmentOfItsTurn) {
  v1::Plan plan;
  plan.set_version(6);
  plan.set_parameters(40);
  v1::RunSpec spec;
  const auto make = [&] {
    return MakeHeader(
        {spec, {}, "previous", [](const std::string& peer) { return SamplesOf(peer); }}, plan,
        v1::Vote());
  };
  EXPECT_EQ(make().fragments(), 0u);
  spec.mutable_mode()->set_kind("streaming");
  spec.mutable_mode()->set_fragments(1);
  EXPECT_EQ(make().fragments(), 0u);
  spec.mutable_mode()->set_fragments(4);
  EXPECT_EQ(make().fragments(), 4u);
  EXPECT_EQ(make().fragment(), 1u);
  EXPECT_EQ(make().range_elements(), 40u);
}

// Would break: replicas step the common control variate by other numbers than the round had, or a
// run without one gets scalars that no replica knows.
TEST(MakeHeader, TellsHowFarTheControlVariateMoves) {
  v1::Plan plan;
  for (const char* peer : {"a", "b"}) {
    v1::PlanMember* member = plan.add_contributors();
    member->set_peer(peer);
    member->set_weight_bits(0x3f800000);
    member->set_steps(peer[0] == 'a' ? 10 : 30);
  }
  v1::Vote vote;
  *vote.mutable_records() = RecordsOf({{"a", {{1, "\x03"}}}});
  v1::RunSpec spec;
  spec.mutable_inner()->set_learning_rate(0.25);
  v1::Scalar rate;
  rate.set_name("learning_rate");
  const std::vector<v1::Scalar> scalars = {rate};
  HeaderTerms terms{spec, scalars, "", &SamplesOf};
  terms.run_parties = 8;
  EXPECT_EQ(MakeHeader(terms, plan, vote).scalars_size(), 1);
  spec.mutable_inner()->set_control_variates(true);
  const v1::EntryHeader header = MakeHeader(terms, plan, vote);
  ASSERT_EQ(header.scalars_size(), 3);
  EXPECT_EQ(header.scalars(0).name(), "control_rate");
  EXPECT_EQ(header.scalars(0).bits(), 0x3e4ccccdu);  // 1 / (20 steps x 0.25) = 0.2
  EXPECT_EQ(header.scalars(1).name(), "control_share");
  EXPECT_EQ(header.scalars(1).bits(), 0x3e800000u);  // 2 of 8
  EXPECT_EQ(header.scalars(2).name(), "learning_rate");
}

// Would break: a header that names the codec of updates, by which nobody can read its payload.
TEST(MakeHeader, TheHeadersCodecIsThatOfMeans) {
  v1::Plan plan;
  v1::RunSpec spec;
  spec.mutable_exchange()->set_codec("bf16");
  spec.mutable_exchange()->set_upper_codec("int4");
  EXPECT_EQ(MakeHeader({spec, {}, "", &SamplesOf}, plan, v1::Vote()).codec(), "int4");
}

// Would break: the header of an entry that was averaged by region does not say so, and nobody can
// recompute its mean.
TEST(MakeHeader, NamesPartialMeansByTheContributorsThatStay) {
  v1::Plan plan;
  for (const char* peer : {"a", "b", "c", "d"}) plan.add_contributors()->set_peer(peer);
  v1::Vote vote;
  // c alone in a partial mean; then a, c, d, the last two in one.
  *vote.mutable_records() = RecordsOf({{"a", {{1, "\x0c", {"\x04"}}, {1, "\x0d", {"\x0c"}}}}});
  const v1::EntryHeader header = MakeHeader({v1::RunSpec(), {}, "", SamplesOf}, plan, vote);
  ASSERT_EQ(header.contributors_size(), 3);
  EXPECT_EQ(SetOfChunk(header.records(), 0).partials(0), "\x02");
  EXPECT_EQ(SetOfChunk(header.records(), 1).partials(0), "\x06");
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

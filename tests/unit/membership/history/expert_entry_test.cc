// The headers and records of a run whose peers own experts: who may count in which chunk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compression/base/bitmap.h"
#include "compression/base/bytes.h"
#include "membership/history/header.h"
#include "membership/history/mean_records.h"
#include "tests/unit/daemon/replica/state/test_run.h"
#include "tests/unit/membership/history/records_text.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

const std::string kNobody(1, '\0');

// Chunks 0 and 1 are shared, 2 and 3 are those of expert 0, 4 and 5 those of expert 1. The header
// is that of version 1, in which p2 alone owns expert 1 and nobody owns expert 0.
class ExpertEntryTest : public ::testing::Test {
 protected:
  ExpertEntryTest() {
    run_.experts = true;
    Begin();
  }

  void Begin() {
    genesis_ = run_.Genesis();
    genesis_.set_state_digest(ToBytes(state_));
    previous_ = GenesisDigest(genesis_);
    header_ = run_.Header(1, previous_, state_, run_.Payload(1));
  }

  absl::Status Check() const { return CheckHeader(genesis_, 0, previous_, header_); }

  void ExpectInvalid(const std::string& message) {
    const absl::Status status = Check();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_THAT(std::string(status.message()), HasSubstr("entry 1"));
    header_ = run_.Header(1, previous_, state_, run_.Payload(1));
  }

  void Record(const std::vector<RunText>& runs) {
    *header_.mutable_records() = RecordsOf({{"p2", runs}});
  }

  TestRun run_;
  Digest state_ = Sha256({});
  v1::Genesis genesis_;
  Digest previous_;
  v1::EntryHeader header_;
};

TEST_F(ExpertEntryTest, TakesWhatItsOwnersHaveTrained) {
  // Broken: no run with owners could commit, or only one in which every expert is trained.
  EXPECT_EQ(header_.range_elements(), 1324u) << "with the padding of two parts";
  EXPECT_EQ(CountBits(SetOfChunk(header_.records(), 2).contributors()), 0u);
  EXPECT_TRUE(Check().ok()) << Check();
  Record({{2, "\x07"}, {4, kNobody}});
  EXPECT_TRUE(Check().ok()) << Check();
  Record({{1, "\x07"}, {1, "\x01"}, {2, kNobody}, {1, "\x02"}, {1, kNobody}});
  EXPECT_TRUE(Check().ok()) << Check();
}

TEST_F(ExpertEntryTest, RefusesAMeanThatCountsANonOwner) {
  // Broken: values of an expert that a peer has not trained would count as its training.
  Record({{2, "\x07"}, {2, kNobody}, {1, "\x02"}, {1, "\x06"}});
  ExpectInvalid("chunk 5 counts contributor 2");
  Record({{2, "\x07"}, {2, "\x02"}, {2, "\x02"}});
  ExpectInvalid("chunk 2 counts contributor 1");
  header_.mutable_contributors(1)->set_owned("\x01");  // the other expert
  ExpectInvalid("chunk 4 counts contributor 1");
}

TEST_F(ExpertEntryTest, RefusesASharedChunkOfNobody) {
  // Broken: a coordinator could leave what all have trained out of an entry.
  Record({{1, "\x07"}, {3, kNobody}, {2, "\x02"}});
  ExpectInvalid("chunk 1: its set of contributors is empty");
  Record({{6, kNobody}});
  ExpectInvalid("chunk 0: its set of contributors is empty");
}

TEST_F(ExpertEntryTest, RefusesAnEmptySetWithPartialMeans) {
  // Broken: a mean of nobody would be one of somebody, and whoever recomputes it would differ.
  header_.mutable_records()->mutable_sets(1)->add_partials("\x01");
  ExpectInvalid("set 1");
}

TEST_F(ExpertEntryTest, RefusesWhatIsNoBitmapOfTheRunsExperts) {
  // Broken: peers would read past the end of a bitmap, or take an owner of everything.
  header_.mutable_contributors(0)->clear_owned();
  ExpectInvalid("what p1 owns is not a bitmap of 2 experts");
  header_.mutable_contributors(2)->set_owned(std::string(2, '\0'));
  ExpectInvalid("what p3 owns is not a bitmap of 2 experts");
  header_.mutable_contributors(1)->set_owned("\x06");
  ExpectInvalid("what p2 owns is not a bitmap of 2 experts");
}

TEST_F(ExpertEntryTest, RefusesTheFlatVectorsSize) {
  // Broken: an entry without the padding would be stepped at the places of other values.
  header_.set_range_elements(1000);
  ExpectInvalid("covers values 0 to 1000");
}

TEST_F(ExpertEntryTest, ARunWithoutExpertsHasNoOwners) {
  // Broken: a header could say of a run without experts what nobody checks.
  run_.experts = false;
  Begin();
  EXPECT_TRUE(Check().ok()) << Check();
  header_.mutable_contributors(0)->set_owned("\x01");
  ExpectInvalid("what p1 owns is not a bitmap of 0 experts");
}

// -----------------------------------------------------------------------------------------------
// The header's digest.

v1::EntryHeader TwoContributors() {
  v1::EntryHeader header;
  header.set_run_id("r");
  header.set_version(1);
  for (const char* peer : {"a", "b"}) header.add_contributors()->set_peer(peer);
  return header;
}

// What the digest of that header covers, by hand, without what is added later.
void AddTwoContributors(DigestBuilder* builder) {
  builder->Bytes("r").U64(1).U64(0).U64(0).U64(0).U64(0).U64(2);
  builder->Bytes("a").U64(0).U64(0).U64(0).Bytes("b").U64(0).U64(0).U64(0);
  builder->U64(0).U64(0).U64(0);  // sets, shards, scalars
  builder->Bytes("").Bytes("").U64(0).Bytes("").Bytes("").Bytes("");
}

TEST(ExpertHeaderDigest, CoversWhatContributorsOwnIfAnyOwnsSomething) {
  // Broken: who owned what could be forged; or a run without experts would get other digests than
  // earlier releases gave it.
  v1::EntryHeader header = TwoContributors();
  DigestBuilder none("atoll.header.2");
  AddTwoContributors(&none);
  const Digest without = none.Finish();
  EXPECT_EQ(HeaderDigest(header), without);

  header.mutable_contributors(0)->set_owned("\x01");
  header.mutable_contributors(1)->set_owned("\x02");
  DigestBuilder some("atoll.header.2");
  AddTwoContributors(&some);
  some.Bytes("experts").Bytes("\x01").Bytes("\x02");
  const Digest with = some.Finish();
  EXPECT_EQ(HeaderDigest(header), with);
  EXPECT_NE(with, without);

  header.mutable_contributors(0)->set_owned("\x02");
  header.mutable_contributors(1)->set_owned("\x01");
  EXPECT_NE(HeaderDigest(header), with) << "exchanged";
  for (v1::Contributor& one : *header.mutable_contributors()) one.set_owned(kNobody);
  EXPECT_NE(HeaderDigest(header), without) << "a bitmap without a bit is not the same as none";
}

// -----------------------------------------------------------------------------------------------
// Records.

ChunkGrid GridOfParts(std::vector<uint32_t> parts) {
  const uint64_t elements = 8 * parts.size();
  return ChunkGrid(elements, 8, std::make_shared<const std::vector<uint32_t>>(std::move(parts)));
}

TEST(ExpertRecords, AnEmptySetIsOneSetForAllChunksOfNobody) {
  // Broken: records would grow with the number of experts without an owner, or equal votes would
  // differ in their bytes.
  const v1::MeanRecords records = RecordsOf(
      {{"a", {{1, "\x03"}, {1, kNobody}, {1, kNobody}}}, {"b", {{1, kNobody}, {2, "\x01"}}}});
  ASSERT_EQ(records.sets_size(), 3);
  EXPECT_EQ(records.sets(1).contributors(), kNobody);
  ASSERT_EQ(records.shards(0).runs_size(), 2);
  EXPECT_EQ(records.shards(0).runs(1).chunks(), 2u);
  EXPECT_EQ(records.shards(1).runs(0).set(), 1u);
  EXPECT_EQ(SetOfChunk(records, 3).contributors(), kNobody);
  EXPECT_EQ(SetOfChunk(records, 4).contributors(), "\x01");
  EXPECT_TRUE(CheckMeanRecords(records, GridOfParts({0, 1, 1, 2, 2, 3}), 2).ok());
}

TEST(ExpertRecords, OnlyAnExpertsChunkMayHaveNobody) {
  // Broken: a vote that leaves shared values out would count, or one in a run without experts.
  const v1::MeanRecords records = RecordsOf({{"a", {{2, "\x03"}, {2, kNobody}}}});
  EXPECT_TRUE(CheckMeanRecords(records, GridOfParts({0, 0, 1, 2}), 2).ok());
  const absl::Status shared = CheckMeanRecords(records, GridOfParts({0, 0, 0, 1}), 2);
  EXPECT_THAT(std::string(shared.message()),
              HasSubstr("chunk 2: its set of contributors is empty"));
  const absl::Status without = CheckMeanRecords(records, ChunkGrid(32, 8), 2);
  EXPECT_THAT(std::string(without.message()), HasSubstr("its set of contributors is empty"));
  const v1::MeanRecords longer = RecordsOf({{"a", {{2, "\x03"}, {2, std::string(2, '\0')}}}});
  EXPECT_FALSE(CheckMeanRecords(longer, GridOfParts({0, 0, 1, 2}), 2).ok()) << "of 9 contributors";
}

}  // namespace
}  // namespace atolld

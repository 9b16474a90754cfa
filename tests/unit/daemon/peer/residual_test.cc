#include "daemon/peer/residual.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "tests/sim/sim_disk.h"
#include "tests/unit/daemon/replica/state/test_run.h"
#include "tests/unit/membership/history/records_text.h"

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
    // Chunk 1: a alone.
    *header_.mutable_records() =
        RecordsOf({{"a", {{1, "\x03"}, {1, "\x01"}}}, {"b", {{1, "\x03"}}}});
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

// Two chunks of 4096 values are shared, one belongs to an expert that this peer does not own and
// one to an expert that it owns.
class ExpertResidualTest : public ResidualTest {
 protected:
  ExpertResidualTest()
      : owned_grid_(
            4 * 4096, 4096,
            std::make_shared<const std::vector<uint32_t>>(std::vector<uint32_t>{0, 0, 1, 2})) {
    values_.resize(owned_grid_.elements(), 0.25f);
    contribution_ = *EncodeContribution(owned_grid_, codec_, Rounding(), values_, "\x02");
  }

  std::vector<float> Subtracted(const v1::MeanRecords& records) {
    *header_.mutable_records() = records;
    std::vector<float> residual = values_;
    EXPECT_TRUE(
        SubtractIncluded(header_, 1, owned_grid_, codec_, contribution_, absl::MakeSpan(residual))
            .ok());
    return residual;
  }
  // Returns true if nothing was subtracted from the chunk.
  bool Whole(const std::vector<float>& residual, uint32_t chunk) {
    const auto begin = static_cast<std::ptrdiff_t>(owned_grid_.Offset(chunk));
    return std::equal(residual.begin() + begin, residual.begin() + begin + 4096,
                      values_.begin() + begin);
  }

  const ChunkGrid owned_grid_;
};

// Broken: a peer's error feedback would end at its first entry, since a chunk without bytes cannot
// be decoded; or the loss of the chunks beside it would be forgotten.
TEST_F(ExpertResidualTest, ChunksOfOthersExpertsTakeNothing) {
  const std::vector<float> residual =
      Subtracted(RecordsOf({{"a", {{2, "\x03"}, {1, "\x01"}, {1, "\x02"}}}}));
  EXPECT_TRUE(Whole(residual, 2));
  for (const uint32_t chunk : {0u, 1u, 3u}) {
    std::vector<float> sent(owned_grid_.Elements(chunk));
    ASSERT_TRUE(codec_.Decode(contribution_.chunks[chunk].span(), absl::MakeSpan(sent)).ok());
    for (size_t i = 0; i < sent.size(); ++i) {
      const size_t at = owned_grid_.Offset(chunk) + i;
      ASSERT_EQ(residual[at], values_[at] - sent[i]) << "chunk " << chunk << " value " << i;
    }
  }
  // Nobody's mean has taken this peer's update of its expert.
  EXPECT_TRUE(Whole(Subtracted(RecordsOf({{"a", {{2, "\x03"}, {2, std::string(1, '\0')}}}})), 3));
  // No header says this; a wrong one does not end the error feedback either.
  EXPECT_TRUE(Whole(Subtracted(RecordsOf({{"a", {{4, "\x03"}}}})), 2));
}

class ResidualFileTest : public ::testing::Test {
 protected:
  ResidualFileTest() : replica_(*CreateReplica(files_, "/r", run_)) {
    values_.assign(run_.elements, 0.0f);
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = 0.25f * static_cast<float>(i);
  }

  absl::Status Save(uint64_t version) {
    return SaveResidual(files_, "/r", replica_->genesis(), version, values_);
  }
  absl::StatusOr<std::vector<float>> Load(const std::string& peer) {
    SimFiles files(disk_);
    return LoadResidual(files, "/r", replica_->genesis(), replica_->version(), peer);
  }

  TestRun run_;  // each of its entries includes p1, p2 and p3
  SimDisk disk_;
  SimFiles files_{disk_};
  OwnedReplica replica_;
  std::vector<float> values_;
};

TEST_F(ResidualFileTest, WhatWasSavedIsFoundAfterACrash) {
  // Broken: a restart would lose what the codec had left out of a peer's updates so far.
  run_.CommitTo(*replica_, 3);
  ASSERT_TRUE(Save(3).ok());
  disk_.CrashNow(SimDisk::Crash::kLoseUnsynced);
  const absl::StatusOr<std::vector<float>> found = Load("p2");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, values_);
}

TEST_F(ResidualFileTest, AnEntryThatIncludedThePeerSinceMakesItStale) {
  // Broken: a peer would add to its update what others have had already.
  run_.CommitTo(*replica_, 3);
  ASSERT_TRUE(Save(2).ok());
  EXPECT_TRUE(absl::IsNotFound(Load("p2").status()));
  EXPECT_TRUE(Load("p9").ok()) << "the entry took nothing of this one";
  ASSERT_TRUE(Save(4).ok());
  EXPECT_TRUE(absl::IsNotFound(Load("p2").status()))
      << "of a version that was never committed here";
}

TEST_F(ResidualFileTest, IsNotBelievedWhereTheHeadersAreGone) {
  // Broken: a residual of unknown age would be added after a snapshot was fetched.
  run_.CommitTo(*replica_, 3);
  ASSERT_TRUE(Save(1).ok());
  ASSERT_TRUE(WriteFileDurably(files_, HeadersPath("/r"), {}).ok());
  EXPECT_TRUE(absl::IsNotFound(Load("p9").status()));
}

TEST_F(ResidualFileTest, AFlippedBitOrAnotherRunIsRefused) {
  // Broken: a disk's fault would go into the next update.
  run_.CommitTo(*replica_, 1);
  ASSERT_TRUE(Save(1).ok());
  v1::Genesis other = replica_->genesis();
  other.mutable_spec()->set_seed(77);
  SimFiles files(disk_);
  EXPECT_TRUE(absl::IsNotFound(LoadResidual(files, "/r", other, 1, "p1").status()));
  const uint64_t size = FileBytes(files, ResidualPath("/r")).size();
  for (const uint64_t offset : {uint64_t{3}, uint64_t{40}, uint64_t{90}, size - 5}) {
    ASSERT_TRUE(disk_.FlipBit(ResidualPath("/r"), offset, 2));
    const absl::Status refused = Load("p1").status();
    EXPECT_TRUE(absl::IsDataLoss(refused)) << offset << ": " << refused;
    ASSERT_TRUE(disk_.FlipBit(ResidualPath("/r"), offset, 2));
  }
  EXPECT_TRUE(Load("p1").ok());
  ASSERT_TRUE(files.Truncate(ResidualPath("/r"), size - 4).ok());
  EXPECT_TRUE(absl::IsDataLoss(Load("p1").status()));
}

}  // namespace
}  // namespace atolld

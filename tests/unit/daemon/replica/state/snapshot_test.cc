#include "daemon/replica/state/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/state_digest.h"
#include "tests/sim/sim_files.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

class SnapshotTest : public ::testing::Test {
 protected:
  SnapshotTest() {
    run_.elements = 300000;  // two blocks a buffer, the second one short
    run_.chunk_elements = 65536;
    replica_ = *CreateReplica(files_, "/r", run_);
  }

  SimDisk disk_;
  SimFiles files_{disk_};
  TestRun run_;
  OwnedReplica replica_;
  const std::string path_ = SnapshotPath("/r", 0);
};

TEST_F(SnapshotTest, HoldsThetaAtItsAlignedOffset) {
  // Broken: generate and export would read other bytes than the parameters.
  const auto reader = SnapshotReader::Open(files_, path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->theta_offset() % kSnapshotAlignment, 0u);
  EXPECT_EQ((*reader)->info().version(), 0u);
  const std::string bytes = FileBytes(files_, path_);
  const absl::Span<const uint8_t> theta = BytesOf(replica_->theta());
  EXPECT_EQ(bytes.compare((*reader)->theta_offset(), theta.size(),
                          reinterpret_cast<const char*>(theta.data()), theta.size()),
            0);
  EXPECT_EQ(StateDigestOf((*reader)->info()), replica_->StateDigest());
}

TEST_F(SnapshotTest, NamesFileAndOffsetOfAnyCorruptByte) {
  // Broken: a rotten disk would give a replica with other parameters.
  const std::string bytes = FileBytes(files_, path_);
  const uint64_t theta_offset = (*SnapshotReader::Open(files_, path_))->theta_offset();
  const auto read_all = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto reader, SnapshotReader::Open(files_, path_));
    std::vector<uint8_t> block(kBlockBytes);
    for (uint64_t i = 0; i < reader->map().blocks(); ++i) {
      RETURN_IF_ERROR(
          reader->ReadBlock(i, absl::MakeSpan(block).subspan(0, reader->map().Bytes(i))));
    }
    return absl::OkStatus();
  };
  ASSERT_TRUE(read_all().ok());
  const v1::SnapshotInfo info = (*SnapshotReader::Open(files_, path_))->info();
  const BlockMap map(info);
  const uint64_t head = 16 + EncodeRecord(info.SerializeAsString()).size();
  for (uint64_t at = 0; at < bytes.size(); at += at < head ? 1 : 99991) {
    // The zeros between the parts carry nothing.
    const bool padding = (at >= head && at < theta_offset) ||
                         (at >= theta_offset + 1200000 && at < map.BufferOffset(1, theta_offset));
    if (padding) continue;
    ASSERT_TRUE(disk_.FlipBit(path_, at, 2));
    const absl::Status status = read_all();
    EXPECT_TRUE(absl::IsDataLoss(status)) << at << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(path_, ": offset ")));
    ASSERT_TRUE(disk_.FlipBit(path_, at, 2));
  }
}

TEST_F(SnapshotTest, ResumesAtTheFirstBlockThatIsNotSound) {
  // Broken: a joiner behind a flaky link would begin its download again and again, or keep bad
  // blocks.
  const auto reader = *SnapshotReader::Open(files_, path_);
  const auto block = [&](uint64_t i) {
    std::vector<uint8_t> bytes(reader->map().Bytes(i));
    CHECK_OK(reader->ReadBlock(i, absl::MakeSpan(bytes)));
    return bytes;
  };
  ASSERT_EQ(reader->map().blocks(), 4u);
  {
    const auto writer = *SnapshotWriter::Create(files_, "/part", reader->info());
    EXPECT_TRUE(absl::IsDataLoss(writer->AppendBlock(block(1))));
    for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(writer->AppendBlock(block(i)).ok());
  }
  EXPECT_EQ((*SnapshotWriter::Resume(files_, "/part"))->next_block(), 3u);
  ASSERT_TRUE(disk_.FlipBit("/part", reader->theta_offset() + kBlockBytes + 5, 0));
  const auto writer = *SnapshotWriter::Resume(files_, "/part");
  EXPECT_EQ(writer->next_block(), 1u);
  for (uint64_t i = 1; i < 4; ++i) ASSERT_TRUE(writer->AppendBlock(block(i)).ok());
  ASSERT_TRUE(writer->Finish("/whole").ok());
  EXPECT_EQ(FileBytes(files_, "/whole"), FileBytes(files_, path_));
  EXPECT_TRUE(absl::IsNotFound(SnapshotWriter::Resume(files_, "/part").status()));
}

TEST_F(SnapshotTest, RefusesAnInfoWhosePartsDisagree) {
  // Broken: a donor's word would be taken for a state that its own leaves deny.
  const v1::SnapshotInfo good = (*SnapshotReader::Open(files_, path_))->info();
  EXPECT_TRUE(CheckSnapshotInfo(good).ok()) << CheckSnapshotInfo(good);
  v1::SnapshotInfo bad = good;
  (*bad.mutable_buffers(0)->mutable_leaves(0))[0] ^= 1;
  EXPECT_FALSE(CheckSnapshotInfo(bad).ok());
  bad.set_state_digest(ToBytes(StateDigestOf(bad)));
  EXPECT_FALSE(CheckSnapshotInfo(bad).ok());  // not what the genesis says
  bad = good;
  bad.mutable_buffers(1)->mutable_leaves()->RemoveLast();
  EXPECT_FALSE(CheckSnapshotInfo(bad).ok());
  bad = good;
  bad.mutable_buffers(1)->set_name("other");
  EXPECT_FALSE(CheckSnapshotInfo(bad).ok());
  bad = good;
  bad.mutable_buffers()->RemoveLast();
  EXPECT_FALSE(CheckSnapshotInfo(bad).ok());
  bad = good;
  bad.mutable_header()->set_version(1);
  EXPECT_FALSE(CheckSnapshotInfo(bad).ok());
  bad = good;
  bad.set_version(1);
  EXPECT_FALSE(CheckSnapshotInfo(bad).ok());
  bad = good;
  bad.mutable_buffers(0)->set_elements(uint64_t{1} << 62);
  EXPECT_FALSE(CheckSnapshotInfo(bad).ok());
}

}  // namespace
}  // namespace atolld

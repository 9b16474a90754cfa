#include "daemon/replica/state/state_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/saved_state.h"
#include "daemon/replica/state/snapshot.h"
#include "daemon/replica/state/update_log.h"
#include "tests/sim/sim_disk.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBlockBytesOfTest = 1 << 20;

// Two blocks and a bit a buffer.
class StateStreamTest : public ::testing::Test {
 protected:
  StateStreamTest() {
    run_.elements = 2 * kBlockBytesOfTest / sizeof(float) + 1000;
    run_.chunk_elements = 65536;
    replica_ = *CreateReplica(files_, "/r", run_);
    run_.CommitTo(*replica_, 3);
  }

  // Everything that a stream gives.
  absl::StatusOr<Digest> Read(std::optional<uint64_t> version, std::string* bytes) {
    absl::StatusOr<std::unique_ptr<StateStream>> stream = StateStream::Open(files_, "/r", version);
    if (!stream.ok()) return stream.status();
    return (*stream)->Run([&](absl::Span<const uint8_t> more) {
      bytes->append(reinterpret_cast<const char*>(more.data()), more.size());
      return absl::OkStatus();
    });
  }

  SimDisk disk_;
  SimFiles files_{disk_};
  TestRun run_;
  OwnedReplica replica_;
};

TEST_F(StateStreamTest, ThetaComesWithoutAFile) {
  // Broken: generate, eval and export would see another model than the run's, or fill a disk.
  const std::map<std::string, std::string> before = FilesBelow(files_, "/r");
  std::string bytes;
  const absl::StatusOr<Digest> digest = Read(std::nullopt, &bytes);
  ASSERT_TRUE(digest.ok()) << digest.status();
  EXPECT_EQ(*digest, replica_->StateDigest());
  const absl::Span<const uint8_t> theta = BytesOf(replica_->theta());
  EXPECT_TRUE(bytes == std::string(reinterpret_cast<const char*>(theta.data()), theta.size()));
  EXPECT_TRUE(FilesBelow(files_, "/r") == before);
  // An older version, and one that nothing leads to.
  SimDisk disk;
  SimFiles files(disk);
  const OwnedReplica other = *CreateReplica(files, "/r", run_);
  run_.CommitTo(*other, 2);
  EXPECT_EQ(*Read(2, &bytes), other->StateDigest());
  const absl::Status beyond = Read(4, &bytes).status();
  EXPECT_TRUE(absl::IsNotFound(beyond));
  EXPECT_THAT(std::string(beyond.message()), HasSubstr("cover versions 0 to 3"));
}

TEST_F(StateStreamTest, NobodyGetsTheWholeOfAWrongState) {
  // Broken: a reader would make a model out of a state that no header names.
  ASSERT_TRUE(Replica::AdvanceSnapshots(files_, "/r", {2, 1}, 2).ok());
  const auto base = *SnapshotReader::Open(files_, SnapshotPath("/r", 2));
  // The last block of the momentum: theta is whole before it is read.
  const uint64_t last = base->map().BlockOffset(base->map().blocks() - 1, base->theta_offset());
  ASSERT_TRUE(disk_.FlipBit(SnapshotPath("/r", 2), last + 8, 3));
  std::string bytes;
  EXPECT_TRUE(absl::IsDataLoss(Read(std::nullopt, &bytes).status()));
  EXPECT_LE(bytes.size(), 2 * kBlockBytesOfTest);
}

TEST_F(StateStreamTest, ASavedStateIsAReplicasFolder) {
  // Broken: what was saved could be looked at by nothing, or would not say how it came about.
  ASSERT_TRUE(replica_->WriteSeal(SealOf(*replica_)).ok());
  ASSERT_TRUE(SaveState(files_, "/r", "/saved", 3).ok());
  const absl::StatusOr<VerifyReport> report = VerifyLog(files_, "/saved");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->version, 3u);
  EXPECT_EQ(report->state_digest, replica_->StateDigest());
  EXPECT_TRUE(report->sealed);
  EXPECT_EQ(ListLog(files_, "/saved")->size(), 3u);
  EXPECT_TRUE(StateStream::Open(files_, "/saved", std::nullopt).ok());
  // Earlier than the end: not sealed, and no header of later.
  ASSERT_TRUE(SaveState(files_, "/r", "/second", 2).ok());
  EXPECT_EQ(VerifyLog(files_, "/second")->version, 2u);
  EXPECT_FALSE(VerifyLog(files_, "/second")->sealed);
  EXPECT_EQ(ListLog(files_, "/second")->size(), 2u);
  // The chain is checked: a header of another history is found.
  ASSERT_TRUE(disk_.FlipBit(HeadersPath("/saved"), 60, 2));
  EXPECT_TRUE(absl::IsDataLoss(VerifyLog(files_, "/saved").status()));
  EXPECT_EQ(*BytesToSave(files_, "/r", 3), 2 * 2 * run_.elements * sizeof(float));
  EXPECT_TRUE(absl::IsNotFound(SaveState(files_, "/r", "/none", 9).status()));
  EXPECT_FALSE(files_.Exists(GenesisPath("/none")));
}

}  // namespace
}  // namespace atolld

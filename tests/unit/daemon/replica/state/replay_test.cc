#include "daemon/replica/state/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/snapshot_build.h"
#include "daemon/replica/state/verify.h"
#include "tests/sim/sim_disk.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class ReplayTest : public ::testing::Test {
 protected:
  ReplayTest() {
    replica_ = *CreateReplica(files_, "/r", run_);
    for (uint64_t version = 1; version <= 8; ++version) {
      run_.CommitTo(*replica_, version);
      digests_.push_back(replica_->StateDigest());
      CHECK_OK(Replica::AdvanceSnapshots(files_, "/r", {3, 2}, version));
    }
  }

  SimDisk disk_;
  SimFiles files_{disk_};
  TestRun run_;
  OwnedReplica replica_;
  std::vector<Digest> digests_;  // of versions 1, 2, ...
};

TEST_F(ReplayTest, TellsEachStateAndWhatTheNextHeaderSays) {
  // Broken: an audit would not repeat the run.
  const auto replay = *LogReplay::Open(files_, "/r", *FindSnapshot(files_, "/r", 4));
  EXPECT_EQ(replay->version(), 3u);
  EXPECT_EQ(replay->last_version(), 8u);
  for (uint64_t version = 4; version <= 8; ++version) {
    const absl::StatusOr<ReplayedEntry> entry = replay->Next();
    ASSERT_TRUE(entry.ok()) << entry.status();
    EXPECT_EQ(entry->header.version(), version);
    EXPECT_EQ(entry->state_digest, digests_[version - 1]);
    EXPECT_EQ(entry->expected,
              version < 8 ? std::optional<Digest>(digests_[version - 1]) : std::nullopt);
    EXPECT_EQ(entry->payload_bytes, run_.Payload(version).size());
  }
}

TEST_F(ReplayTest, StopsAtTheFirstEntryThatIsNotWhatItWas) {
  // Broken: somebody could change what was committed and the audit would go on over it.
  ASSERT_TRUE(disk_.FlipBit(PayloadPath("/r", 6), 200, 1));
  const auto replay = *LogReplay::Open(files_, "/r", *FindSnapshot(files_, "/r", 3));
  EXPECT_TRUE(replay->Next().ok());
  EXPECT_TRUE(replay->Next().ok());
  const absl::Status status = replay->Next().status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(PayloadPath("/r", 6)));
}

TEST_F(ReplayTest, AFaultNamesItsEntryOnce) {
  // Broken: `atoll log verify` says "entry 3: FILE: entry 3: the chain is broken".
  EXPECT_EQ(EntryFault(3, "/r/headers", "entry 3: it does not follow version 1").message(),
            "entry 3: /r/headers: it does not follow version 1");
  EXPECT_EQ(EntryFault(3, "/r/headers", "entry 30: it does not follow version 1").message(),
            "entry 3: /r/headers: entry 30: it does not follow version 1");
}

TEST_F(ReplayTest, SnapshotsAreListedWithTheWordOfTheChain) {
  // Broken: an operator could not see which snapshots are to be trusted, or how far they lead.
  std::vector<SnapshotFile> list = *ListSnapshotFiles(files_, "/r");
  ASSERT_THAT(list, SizeIs(2));
  EXPECT_EQ(list[0].version, 3u);
  EXPECT_EQ(list[0].bytes, FileBytes(files_, SnapshotPath("/r", 3)).size());
  EXPECT_EQ(list[0].state_digest, digests_[2]);
  EXPECT_EQ(list[0].chain, ChainWord::kConfirmed);
  EXPECT_EQ(list[0].leads_to, 8u);
  CHECK_OK(Replica::AdvanceSnapshots(files_, "/r", {1, 2}, 8));
  list = *ListSnapshotFiles(files_, "/r");
  EXPECT_EQ(list[1].version, 8u);
  EXPECT_EQ(list[1].chain, ChainWord::kUnsaid);
  ASSERT_TRUE(disk_.FlipBit(list[0].path, 40, 1));
  list = *ListSnapshotFiles(files_, "/r");
  EXPECT_TRUE(absl::IsDataLoss(list[0].status));
  EXPECT_TRUE(list[1].status.ok());
}

TEST_F(ReplayTest, EveryChangedByteOfASnapshotIsFoundAndNamed) {
  // Broken: a snapshot that is handed on would not be the run's state.
  EXPECT_EQ(VerifySnapshot(files_, "/r", 6)->blocks, 2u);
  const std::string path = SnapshotPath("/r", 6);
  const auto snapshot = *SnapshotReader::Open(files_, path);
  const uint64_t momentum = snapshot->map().BlockOffset(1, snapshot->theta_offset());
  for (uint64_t at = momentum; at < momentum + run_.elements * sizeof(float); at += 13) {
    ASSERT_TRUE(disk_.FlipBit(path, at, 6));
    const absl::Status status = VerifySnapshot(files_, "/r", 6).status();
    ASSERT_TRUE(absl::IsDataLoss(status));
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat(path, ": offset ", momentum)));
    EXPECT_THAT(std::string(status.message()), HasSubstr("block 1 (momentum"));
    ASSERT_TRUE(disk_.FlipBit(path, at, 6));
  }
  const absl::Status none = VerifySnapshot(files_, "/r", 4).status();
  EXPECT_TRUE(absl::IsNotFound(none));
  EXPECT_THAT(std::string(none.message()), HasSubstr("there are: 3, 6"));
}

TEST_F(ReplayTest, ASnapshotOfAnotherHistoryIsContradicted) {
  // Broken: a forged snapshot, sound in itself, would pass the audit.
  OwnedReplica other = *CreateReplica(files_, "/s", run_);
  for (uint64_t version = 1; version <= 6; ++version) {
    const SharedBytes payload = run_.Payload(40 + version);
    ASSERT_TRUE(other->Commit(run_.NextHeader(*other, payload), &payload, {}).ok());
  }
  CHECK_OK(Replica::AdvanceSnapshots(files_, "/s", {6, 1}, 6));
  ASSERT_TRUE(files_.Rename(SnapshotPath("/s", 6), SnapshotPath("/r", 6)).ok());
  const absl::Status status = VerifySnapshot(files_, "/r", 6).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(HeadersPath("/r")));
}

TEST_F(ReplayTest, AStateThatIsNotCoveredIsRefusedWithWhatIs) {
  // Broken: who asks for an old state would not learn what can still be had.
  const VersionRange covered = *CoveredVersions(files_, "/r");
  EXPECT_EQ(covered.first, 3u);
  EXPECT_EQ(covered.last, 8u);
  for (const uint64_t version : {2u, 9u}) {
    const absl::Status status = MaterializeSnapshot(files_, "/r", "/out", version).status();
    EXPECT_TRUE(absl::IsNotFound(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("cover versions 3 to 8"));
  }
  for (uint64_t version = 3; version <= 8; ++version) {
    const std::string out = absl::StrCat("/out-", version);
    EXPECT_EQ(MaterializeSnapshot(files_, "/r", out, version)->state_digest, digests_[version - 1]);
  }
}

}  // namespace
}  // namespace atolld

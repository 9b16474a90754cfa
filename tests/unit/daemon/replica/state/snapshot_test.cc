#include "daemon/replica/state/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "daemon/env/posix_files.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/replica.h"
#include "daemon/replica/state/state_digest.h"
#include "daemon/replica/state/update_log.h"
#include "daemon/replica/state/verify.h"
#include "optimizer/outer_rule.h"
#include "tests/sim/sim_disk.h"
#include "tests/unit/daemon/env/temporary_directory.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
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

class AdvanceTest : public ::testing::Test {
 protected:
  std::vector<uint64_t> Snapshots() { return *ListSnapshots(files_, "/r"); }
  std::vector<uint64_t> Payloads() { return *ListPayloads(files_, "/r"); }

  SimDisk disk_;
  SimFiles files_{disk_};
  TestRun run_;
};

TEST_F(AdvanceTest, MakesTheStateThatTheReplicaHolds) {
  // Broken: a peer that restarts from a snapshot, or a joiner, would hold other bits than those who
  // stepped live.
  for (const uint32_t chunk_elements : {256u, 65536u, 12288u, 262144u}) {
    for (const std::string& rule : OuterRuleNames()) {
      run_.elements = chunk_elements == 256 ? 1000 : 600001;
      run_.chunk_elements = chunk_elements;
      run_.rule = rule;
      const std::string dir = absl::StrCat("/", rule, chunk_elements);
      OwnedReplica replica = *CreateReplica(files_, dir, run_);
      run_.CommitTo(*replica, 3);
      const absl::Status status = Replica::AdvanceSnapshots(files_, dir, {3, 1}, 3);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_THAT(*ListSnapshots(files_, dir), ElementsAre(3));
      EXPECT_TRUE(ListPayloads(files_, dir)->empty());
      EXPECT_EQ(files_.List(SnapshotsDirectory(dir))->size(), 1u);  // no stage is left
      EXPECT_EQ((*OpenReplica(files_, dir))->StateDigest(), replica->StateDigest());
      run_.CommitTo(*replica, 4);
      EXPECT_EQ((*OpenReplica(files_, dir))->StateDigest(), replica->StateDigest());
    }
  }
}

TEST_F(AdvanceTest, MakesTheStateThatEntriesOfFragmentsLeadTo) {
  // Broken: blocks of a snapshot would be stepped by chunks of other values, where fragments end
  // within a block, or a block meets none.
  run_.fragments = 2;
  for (const uint64_t elements : {1000, 600001, 1300000}) {
    for (const uint32_t chunk_elements : {12288u, 524288u}) {
      run_.elements = elements;
      run_.chunk_elements = chunk_elements;
      const std::string dir = absl::StrCat("/", elements, "-", chunk_elements);
      OwnedReplica replica = *CreateReplica(files_, dir, run_);
      run_.CommitTo(*replica, 3);
      const absl::Status status = Replica::AdvanceSnapshots(files_, dir, {3, 1}, 3);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_THAT(*ListSnapshots(files_, dir), ElementsAre(3));
      EXPECT_EQ((*OpenReplica(files_, dir))->StateDigest(), replica->StateDigest());
      run_.CommitTo(*replica, 4);
      EXPECT_EQ((*OpenReplica(files_, dir))->StateDigest(), replica->StateDigest());
    }
  }
}

TEST_F(AdvanceTest, KeepsWhatThePolicySays) {
  // Broken: the disk would fill up, or a slow peer would find no entries to catch up with.
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  for (uint64_t version = 1; version <= 11; ++version) {
    run_.CommitTo(*replica, version);
    ASSERT_TRUE(Replica::AdvanceSnapshots(files_, "/r", {3, 2}, version).ok());
    EXPECT_TRUE(VerifyLog(files_, "/r").ok());
  }
  EXPECT_THAT(Snapshots(), ElementsAre(6, 9));
  EXPECT_THAT(Payloads(), ElementsAre(7, 8, 9, 10, 11));
  EXPECT_EQ(replica->oldest_entry(), 7u);
  EXPECT_TRUE(absl::IsNotFound(replica->ReadEntry(6).status()));
  EXPECT_TRUE(replica->ReadEntry(7).ok());
  EXPECT_EQ((*OpenReplica(files_, "/r"))->StateDigest(), replica->StateDigest());
}

TEST_F(AdvanceTest, LeavesAlonePreparedPayloadsAndLaterEntries) {
  // Broken: it runs beside commits; what is being committed must not be touched.
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  run_.CommitTo(*replica, 4);
  ASSERT_TRUE(replica->Prepare(run_.Payload(5)).ok());
  ASSERT_TRUE(Replica::AdvanceSnapshots(files_, "/r", {2, 1}, 3).ok());
  EXPECT_THAT(Snapshots(), ElementsAre(3));
  EXPECT_THAT(Payloads(), ElementsAre(4, 5));
  EXPECT_TRUE((*OpenReplica(files_, "/r"))->prepared_digest().has_value());
}

TEST_F(AdvanceTest, DropsNothingWhenAnEntryIsCorrupt) {
  // Broken: the last good snapshot would be thrown away for a wrong one.
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  run_.CommitTo(*replica, 4);
  ASSERT_TRUE(disk_.FlipBit(PayloadPath("/r", 2), 500, 1));
  const absl::Status status = Replica::AdvanceSnapshots(files_, "/r", {1, 1}, 4);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(PayloadPath("/r", 2)));
  EXPECT_THAT(Snapshots(), ElementsAre(0));
  EXPECT_THAT(Payloads(), ElementsAre(1, 2, 3, 4));
}

TEST_F(AdvanceTest, ComesFromAnOlderSnapshotWhenTheNewestIsCorrupt) {
  // Broken: one rotten block would end all snapshots, though the log could make it again.
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  run_.CommitTo(*replica, 2);
  ASSERT_TRUE(Replica::AdvanceSnapshots(files_, "/r", {2, 2}, 2).ok());
  run_.CommitTo(*replica, 4);
  const uint64_t offset = (*SnapshotReader::Open(files_, SnapshotPath("/r", 2)))->theta_offset();
  ASSERT_TRUE(disk_.FlipBit(SnapshotPath("/r", 2), offset + 8, 1));
  ASSERT_TRUE(Replica::AdvanceSnapshots(files_, "/r", {2, 1}, 4).ok());
  EXPECT_THAT(Snapshots(), ElementsAre(4));
  EXPECT_EQ((*OpenReplica(files_, "/r"))->StateDigest(), replica->StateDigest());
}

TEST_F(AdvanceTest, OpeningPutsACorruptSnapshotAsideAndReplaysFromTheOneBefore) {
  // Broken: a replica whose newest snapshot has rotted could not start, though it holds all that is
  // needed.
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  run_.CommitTo(*replica, 2);
  ASSERT_TRUE(Replica::AdvanceSnapshots(files_, "/r", {2, 2}, 2).ok());
  run_.CommitTo(*replica, 3);
  const std::string path = SnapshotPath("/r", 2);
  ASSERT_TRUE(disk_.FlipBit(path, (*SnapshotReader::Open(files_, path))->theta_offset(), 0));
  EXPECT_EQ((*OpenReplica(files_, "/r"))->StateDigest(), replica->StateDigest());
  EXPECT_FALSE(files_.Exists(path));
  EXPECT_TRUE(files_.Exists(path + ".corrupt"));
}

TEST_F(AdvanceTest, OpeningPutsASnapshotOfAnotherGenesisAside) {
  // Broken: a replica would go on from another run's state, or not start for a file that is not
  // its own.
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  run_.CommitTo(*replica, 4);
  TestRun other = run_;
  other.history_key = TestKey('x');
  OwnedReplica stranger = *CreateReplica(files_, "/s", other);
  other.CommitTo(*stranger, 2);
  ASSERT_TRUE(Replica::AdvanceSnapshots(files_, "/s", {2, 1}, 2).ok());
  const std::string path = SnapshotPath("/r", 2);
  ASSERT_TRUE(files_.Rename(SnapshotPath("/s", 2), path).ok());
  const absl::StatusOr<OwnedReplica> opened = OpenReplica(files_, "/r");
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->version(), 4u);
  EXPECT_EQ((*opened)->StateDigest(), replica->StateDigest());
  EXPECT_FALSE(files_.Exists(path));
  EXPECT_TRUE(files_.Exists(path + ".corrupt"));
}

TEST_F(AdvanceTest, AnAuditDoesNotReplayFromASnapshotOfAnotherGenesis) {
  // Broken: a folder put together from two runs would pass as sound.
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  run_.CommitTo(*replica, 2);
  TestRun other = run_;
  other.history_key = TestKey('x');
  ASSERT_TRUE(CreateReplica(files_, "/s", other).ok());
  ASSERT_TRUE(files_.Rename(SnapshotPath("/s", 0), SnapshotPath("/r", 0)).ok());
  const absl::Status status = VerifyLog(files_, "/r").status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(SnapshotPath("/r", 0)));
}

TEST(AdvanceOnDisk, RunsBesideCommitsAndReaders) {
  // Broken: a snapshot would stop training, or read an entry that is half written.
  const TemporaryDirectory directory;
  const std::string dir = directory.File("r");
  PosixFiles files;
  TestRun run;
  OwnedReplica replica = *CreateReplica(files, dir, run);
  constexpr uint64_t kVersions = 60;
  std::atomic<uint64_t> committed = 0;
  std::thread snapshots([&] {
    for (uint64_t version = 0; version < kVersions;) {
      version = committed.load();
      EXPECT_EQ(Replica::AdvanceSnapshots(files, dir, {4, 2}, version), absl::OkStatus());
    }
  });
  std::thread reader([&] {
    PosixFiles own;
    auto log = *LogReader::Open(own, dir, 1);
    while (log.empty() || log.last_version() < kVersions) {
      EXPECT_EQ(log.Refresh(), absl::OkStatus());
      if (log.empty()) continue;
      EXPECT_EQ(log.ReadHeader(log.last_version())->version(), log.last_version());
    }
  });
  for (uint64_t version = 1; version <= kVersions; ++version) {
    run.CommitTo(*replica, version);
    committed = version;
  }
  snapshots.join();
  reader.join();
  EXPECT_EQ((*OpenReplica(files, dir))->StateDigest(), replica->StateDigest());
  const absl::StatusOr<VerifyReport> report = VerifyLog(files, dir);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->version, kVersions);
}

}  // namespace
}  // namespace atolld

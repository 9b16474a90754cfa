// Readers of a log whose writer drops the headers before its oldest snapshot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/env/posix_files.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/update_log.h"
#include "daemon/replica/state/verify.h"
#include "tests/sim/sim_disk.h"
#include "tests/unit/daemon/env/temporary_directory.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

class LogReaderTest : public ::testing::Test {
 protected:
  LogReaderTest() : replica_(*CreateReplica(files_, "/r", run_)) {}

  // The log then begins at entry `first`.
  void DropBefore(uint64_t first) {
    RetentionPolicy policy{1, 1};
    ASSERT_TRUE(Replica::AdvanceSnapshots(files_, "/r", policy, first - 1).ok());
    ASSERT_TRUE(replica_->CompactLog(0).ok());
  }

  SimDisk disk_;
  SimFiles files_{disk_};
  TestRun run_;
  OwnedReplica replica_;
};

TEST_F(LogReaderTest, ReadsOnWhenTheFileWasReplaced) {
  // Broken: a donor that serves while the log is cut would send another entry's header, or tell a
  // joiner that its log is corrupt.
  run_.CommitTo(*replica_, 6);
  LogReader reader = *LogReader::Open(files_, "/r", 1);
  ASSERT_EQ(reader.first_version(), 1u);
  DropBefore(4);
  // Before it has looked again, and after.
  EXPECT_TRUE(absl::IsNotFound(reader.ReadHeader(2).status())) << reader.ReadHeader(2).status();
  for (uint64_t version = 4; version <= 6; ++version) {
    EXPECT_EQ(reader.ReadHeader(version)->version(), version);
  }
  run_.CommitTo(*replica_, 9);
  ASSERT_TRUE(reader.Refresh().ok());
  EXPECT_EQ(reader.first_version(), 4u);
  EXPECT_EQ(reader.last_version(), 9u);
  for (uint64_t version = 4; version <= 9; ++version) {
    EXPECT_EQ(reader.ReadHeader(version)->version(), version);
  }
  EXPECT_TRUE(absl::IsNotFound(reader.ReadHeader(3).status()));
}

TEST_F(LogReaderTest, ReadsOnWhenNothingWasLeftAndTheLogWentOn) {
  // Broken: a log whose last entry went into a snapshot would be taken for one that ended.
  run_.CommitTo(*replica_, 5);
  LogReader reader = *LogReader::Open(files_, "/r", 1);
  DropBefore(6);
  EXPECT_TRUE(FileBytes(files_, HeadersPath("/r")).empty());
  EXPECT_TRUE(absl::IsNotFound(reader.ReadHeader(5).status()));
  ASSERT_TRUE(reader.Refresh().ok());
  EXPECT_TRUE(reader.empty());
  EXPECT_EQ((*OpenReplica(files_, "/r"))->version(), 5u);
  run_.CommitTo(*replica_, 12);
  ASSERT_TRUE(reader.Refresh().ok());
  EXPECT_EQ(reader.first_version(), 6u);
  EXPECT_EQ(reader.last_version(), 12u);
  EXPECT_TRUE(VerifyLog(files_, "/r").ok());
  EXPECT_EQ((*OpenReplica(files_, "/r"))->StateDigest(), replica_->StateDigest());
}

TEST_F(LogReaderTest, KeepsOldHeadersWithinTheirAllowance) {
  // Broken: the chain's history, which a coordinator that lost its store needs, would go with the
  // payloads; or it would grow for ever.
  run_.CommitTo(*replica_, 8);
  const std::string before = FileBytes(files_, HeadersPath("/r"));
  RetentionPolicy policy{1, 1};
  ASSERT_TRUE(Replica::AdvanceSnapshots(files_, "/r", policy, 6).ok());
  ASSERT_TRUE(replica_->CompactLog(before.size()).ok());
  EXPECT_EQ(FileBytes(files_, HeadersPath("/r")), before);
  EXPECT_EQ(VerifyLog(files_, "/r")->first_version, 6u);
  ASSERT_TRUE(replica_->CompactLog(before.size() / 2).ok());
  const std::string after = FileBytes(files_, HeadersPath("/r"));
  EXPECT_EQ(before.substr(before.size() - after.size()), after);
  EXPECT_EQ(LogReader::Open(files_, "/r", 1)->first_version(), 6u);  // half of the allowance stays
  EXPECT_EQ(ListLog(files_, "/r")->size(), 3u);
}

TEST_F(LogReaderTest, ACorruptRecordThatHasToStayStopsTheCut) {
  // Broken: a fault would be copied, or what is sound before it dropped.
  run_.CommitTo(*replica_, 4);
  const std::string before = FileBytes(files_, HeadersPath("/r"));
  const uint64_t offset = LogReader::Open(files_, "/r", 1)->BytesBefore(4) + 30;
  ASSERT_TRUE(disk_.FlipBit(HeadersPath("/r"), offset, 1));
  std::unique_ptr<UpdateLog> log;
  const absl::Status status = replica_->CompactLog(0);
  EXPECT_TRUE(status.ok()) << status;  // the oldest snapshot is 0: nothing to drop
  ASSERT_TRUE(disk_.FlipBit(HeadersPath("/r"), offset, 1));
  ASSERT_TRUE(Replica::AdvanceSnapshots(files_, "/r", {1, 1}, 2).ok());
  ASSERT_TRUE(disk_.FlipBit(HeadersPath("/r"), offset, 1));
  EXPECT_TRUE(absl::IsDataLoss(replica_->CompactLog(0)));
  ASSERT_TRUE(disk_.FlipBit(HeadersPath("/r"), offset, 1));
  EXPECT_EQ(FileBytes(files_, HeadersPath("/r")), before);
  EXPECT_TRUE(replica_->CompactLog(0).ok());
  EXPECT_EQ(LogReader::Open(files_, "/r", 1)->first_version(), 3u);
}

TEST_F(LogReaderTest, AFullDiskLeavesTheLogAsItWas) {
  // Broken: making room would cost the log that it was made for.
  run_.CommitTo(*replica_, 6);
  ASSERT_TRUE(Replica::AdvanceSnapshots(files_, "/r", {1, 1}, 3).ok());
  const std::string before = FileBytes(files_, HeadersPath("/r"));
  disk_.SetCapacity(disk_.used() + 100);
  EXPECT_TRUE(absl::IsResourceExhausted(replica_->CompactLog(0)));
  EXPECT_EQ(FileBytes(files_, HeadersPath("/r")), before);
  disk_.SetCapacity(UINT64_MAX);
  run_.CommitTo(*replica_, 7);
  ASSERT_TRUE(replica_->CompactLog(0).ok());
  run_.CommitTo(*replica_, 8);
  EXPECT_EQ(LogReader::Open(files_, "/r", 1)->first_version(), 4u);
  EXPECT_EQ(VerifyLog(files_, "/r")->version, 8u);
}

TEST(UpdateLogTest, OfOldHeadersTheNewestStay) {
  // Broken: a copy of the coordinator's store of an hour ago could not be restored, since nobody
  // had the headers since then.
  SimDisk disk;
  SimFiles files(disk);
  std::unique_ptr<UpdateLog> log = *UpdateLog::Open(files, "/r", 0);
  for (uint64_t version = 1; version <= 100; ++version) {
    v1::EntryHeader header;
    header.set_version(version);
    ASSERT_TRUE(log->AppendHeader(header).ok());
  }
  const uint64_t bytes = FileBytes(files, HeadersPath("/r")).size() / 100;  // of a record
  ASSERT_TRUE(log->DropHeadersBefore(91, 90 * bytes).ok());
  EXPECT_EQ(LogReader::Open(files, "/r", 1)->first_version(), 1u);
  ASSERT_TRUE(log->DropHeadersBefore(91, 40 * bytes).ok());
  EXPECT_EQ(LogReader::Open(files, "/r", 1)->first_version(), 71u);
  ASSERT_TRUE(log->DropHeadersBefore(91, 0).ok());
  EXPECT_EQ(LogReader::Open(files, "/r", 1)->first_version(), 91u);
}

TEST(LogUnderFaults, NothingCommittedIsLostWhenReadsLie) {
  // Broken: a fault on reading back a file of headers that was just cut would be taken for its end:
  // the next append would destroy what follows, or end the process.
  constexpr uint64_t kVersions = 30;
  uint64_t refused = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SimDisk disk;
    SimFiles files(disk);
    std::unique_ptr<UpdateLog> log = *UpdateLog::Open(files, "/r", 0);
    disk.SeedFaults(seed);
    disk.FlipBitOnRead(0.2);
    disk.FailReads(0.1, absl::UnknownError("broken"));
    uint64_t dropped = 0;
    while (log->last_version() < kVersions) {
      v1::EntryHeader header;
      header.set_version(log->last_version() + 1);
      if (!log->AppendHeader(header).ok()) ++refused;
      if (log->last_version() % 3 != 0) continue;
      dropped = log->last_version() - seed % 3;
      if (!log->DropHeadersBefore(dropped, 0).ok()) ++refused;
    }
    disk.EndFaults();
    const LogReader reader = *LogReader::Open(files, "/r", kVersions + 1);
    EXPECT_EQ(reader.end(), FileBytes(files, HeadersPath("/r")).size());
    const uint64_t first = reader.empty() ? kVersions + 1 : reader.first_version();
    EXPECT_LE(first, dropped) << "seed " << seed;
    for (uint64_t version = first; version <= kVersions; ++version) {
      EXPECT_EQ(reader.ReadHeader(version)->version(), version) << "seed " << seed;
    }
  }
  EXPECT_GT(refused, 0u);
}

TEST(LogReaderOnDisk, NeverServesAnotherEntryWhileTheLogIsCut) {
  // Broken: beside a live daemon a reader would now and then take one entry for another.
  const TemporaryDirectory directory;
  const std::string dir = directory.File("r");
  PosixFiles files;
  TestRun run;
  OwnedReplica replica = *CreateReplica(files, dir, run);
  constexpr uint64_t kVersions = 60;
  std::atomic<bool> over = false;
  std::atomic<uint64_t> read = 0;
  std::thread reader([&] {
    PosixFiles own;
    LogReader log = *LogReader::Open(own, dir, 1);
    while (!over) {
      EXPECT_EQ(log.Refresh(), absl::OkStatus());
      if (log.empty()) continue;
      for (uint64_t version = log.first_version(); version <= log.last_version(); ++version) {
        const absl::StatusOr<v1::EntryHeader> header = log.ReadHeader(version);
        if (header.ok()) {
          EXPECT_EQ(header->version(), version);
          ++read;
        } else {
          EXPECT_TRUE(absl::IsNotFound(header.status())) << header.status();
        }
      }
    }
  });
  std::thread auditor([&] {
    PosixFiles own;
    while (!over) {
      const absl::StatusOr<VerifyReport> report = VerifyLog(own, dir);
      EXPECT_TRUE(report.ok()) << report.status();
    }
  });
  for (uint64_t version = 1; version <= kVersions; ++version) {
    run.CommitTo(*replica, version);
    EXPECT_EQ(Replica::AdvanceSnapshots(files, dir, {3, 2}, version), absl::OkStatus());
    EXPECT_EQ(replica->CompactLog(0), absl::OkStatus());
  }
  over = true;
  reader.join();
  auditor.join();
  EXPECT_GT(read, 0u);
  EXPECT_EQ((*OpenReplica(files, dir))->StateDigest(), replica->StateDigest());
}

}  // namespace
}  // namespace atolld

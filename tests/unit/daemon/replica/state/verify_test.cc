#include "daemon/replica/state/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/snapshot.h"
#include "daemon/replica/state/state_digest.h"
#include "daemon/replica/state/update_log.h"
#include "tests/sim/sim_disk.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

class VerifyTest : public ::testing::Test {
 protected:
  VerifyTest() {
    run_.elements = 300;
    replica_ = *CreateReplica(files_, "/r", run_);
    run_.CommitTo(*replica_, 4);
  }

  // Changes one byte, expects the fault that names `entry` and `path`, and changes it back.
  void ExpectFault(const std::string& path, uint64_t offset, int bit, const std::string& entry) {
    ASSERT_TRUE(disk_.FlipBit(path, offset, bit));
    const absl::Status status = VerifyLog(files_, "/r").status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << path << " " << offset << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(entry));
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    ASSERT_TRUE(disk_.FlipBit(path, offset, bit));
  }

  SimDisk disk_;
  SimFiles files_{disk_};
  TestRun run_;
  OwnedReplica replica_;
};

TEST_F(VerifyTest, LeadsToTheStateOfTheReplica) {
  // Broken: an audit would not say what the run's result is.
  absl::StatusOr<VerifyReport> report = VerifyLog(files_, "/r");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->first_version, 0u);
  EXPECT_EQ(report->version, 4u);
  EXPECT_EQ(report->state_digest, replica_->StateDigest());
  EXPECT_FALSE(report->sealed);
  ASSERT_TRUE(replica_->WriteSeal(SealOf(*replica_)).ok());
  EXPECT_TRUE(VerifyLog(files_, "/r")->sealed);
}

TEST_F(VerifyTest, FindsEveryChangedByteOfTheHeaders) {
  // Broken: somebody could change the log's history and not be found out.
  const auto log = *LogReader::Open(files_, "/r", 1);
  std::vector<uint64_t> ends;
  const std::string bytes = FileBytes(files_, HeadersPath("/r"));
  for (uint64_t version = 1; version <= 4; ++version) {
    ends.push_back(EncodeRecord(log.ReadHeader(version)->SerializeAsString()).size() +
                   (ends.empty() ? 0 : ends.back()));
  }
  ASSERT_EQ(ends.back(), bytes.size());
  uint64_t version = 1;
  for (uint64_t at = 0; at < bytes.size(); ++at) {
    if (at == ends[version - 1]) ++version;
    ExpectFault(HeadersPath("/r"), at, static_cast<int>(at % 8),
                absl::StrCat("entry ", version, ":"));
  }
}

TEST_F(VerifyTest, FindsEveryChangedByteOfThePayloads) {
  // Broken: as above, for what the replicas stepped by.
  for (uint64_t version = 1; version <= 4; ++version) {
    const std::string path = PayloadPath("/r", version);
    const uint64_t size = FileBytes(files_, path).size();
    for (uint64_t at = 0; at < size; ++at) {
      ExpectFault(path, at, static_cast<int>(at % 8), absl::StrCat("entry ", version, ":"));
    }
  }
}

TEST_F(VerifyTest, FindsEveryChangedByteOfSealGenesisAndSnapshots) {
  // Broken: the ends of the chain would not hold what hangs on them.
  ASSERT_TRUE(replica_->WriteSeal(SealOf(*replica_)).ok());
  for (const std::string& path : {SealPath("/r"), GenesisPath("/r")}) {
    const uint64_t size = FileBytes(files_, path).size();
    for (uint64_t at = 0; at < size; ++at) ExpectFault(path, at, 3, path);
  }
  ASSERT_TRUE(Replica::AdvanceSnapshots(files_, "/r", {3, 2}, 4).ok());
  const std::string path = SnapshotPath("/r", 4);
  const auto snapshot = *SnapshotReader::Open(files_, path);
  for (uint64_t at = 0; at < 300 * sizeof(float); at += 7) {
    ExpectFault(path, snapshot->theta_offset() + at, 6, path);
  }
}

TEST_F(VerifyTest, FindsWhatIsMissing) {
  // Broken: a log that ends early would pass for a whole one.
  const std::string headers = FileBytes(files_, HeadersPath("/r"));
  ASSERT_TRUE(files_.Truncate(HeadersPath("/r"), headers.size() - 1).ok());
  EXPECT_TRUE(absl::IsDataLoss(VerifyLog(files_, "/r").status()));
  ASSERT_TRUE(files_.Truncate(HeadersPath("/r"), headers.size() / 4).ok());
  EXPECT_TRUE(absl::IsDataLoss(VerifyLog(files_, "/r").status()));
  EXPECT_TRUE(absl::IsDataLoss(OpenReplica(files_, "/r").status()));
  ASSERT_TRUE(files_.Remove(HeadersPath("/r")).ok());
  EXPECT_TRUE(absl::IsDataLoss(VerifyLog(files_, "/r").status()));
}

TEST_F(VerifyTest, NamesTheEntryWhosePayloadIsGone) {
  // Broken: an operator would not know what to fetch.
  ASSERT_TRUE(files_.Remove(PayloadPath("/r", 3)).ok());
  const absl::Status status = VerifyLog(files_, "/r").status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("entry 3: "));
  EXPECT_TRUE(absl::IsDataLoss(OpenReplica(files_, "/r").status()));
}

TEST_F(VerifyTest, OpeningRefusesChangedBytesToo) {
  // Broken: a replica would start from a log that the audit refuses, or silently fall back to an
  // older version.
  for (const std::string& path : {HeadersPath("/r"), PayloadPath("/r", 1), PayloadPath("/r", 4)}) {
    const uint64_t size = FileBytes(files_, path).size();
    for (uint64_t at = 0; at < size; at += 3) {
      ASSERT_TRUE(disk_.FlipBit(path, at, 5));
      EXPECT_TRUE(absl::IsDataLoss(OpenReplica(files_, "/r").status())) << path << " " << at;
      ASSERT_TRUE(disk_.FlipBit(path, at, 5));
    }
  }
  EXPECT_EQ((*OpenReplica(files_, "/r"))->version(), 4u);
}

TEST_F(VerifyTest, ListsHeadersWithTheirPayloads) {
  // Broken: `atoll log list` would not show the run's history.
  ASSERT_TRUE(Replica::AdvanceSnapshots(files_, "/r", {2, 1}, 2).ok());
  const auto entries = ListLog(files_, "/r");
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 4u);
  EXPECT_FALSE((*entries)[1].payload_bytes.has_value());
  EXPECT_EQ((*entries)[2].header.version(), 3u);
  EXPECT_EQ((*entries)[2].payload_bytes, run_.Payload(3).size());
}

TEST_F(VerifyTest, MaterializesAnyVersionThatTheLogReaches) {
  // Broken: generate, eval and export would read another state than the run's.
  const auto made = MaterializeSnapshot(files_, "/r", "/out", std::nullopt);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->version, 4u);
  EXPECT_EQ(made->state_digest, replica_->StateDigest());
  const absl::Span<const uint8_t> theta = BytesOf(replica_->theta());
  EXPECT_EQ(FileBytes(files_, "/out").substr(made->theta_offset, theta.size()),
            std::string(reinterpret_cast<const char*>(theta.data()), theta.size()));
  EXPECT_EQ(made->elements, run_.elements);

  const auto first = MaterializeSnapshot(files_, "/r", "/out1", 1);
  ASSERT_TRUE(first.ok()) << first.status();
  SimDisk disk;
  SimFiles files(disk);
  OwnedReplica other = *CreateReplica(files, "/r", run_);
  run_.CommitTo(*other, 1);
  EXPECT_EQ(first->state_digest, other->StateDigest());
  EXPECT_TRUE(absl::IsNotFound(MaterializeSnapshot(files_, "/r", "/out2", 5).status()));
}

}  // namespace
}  // namespace atolld

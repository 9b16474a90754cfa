#include "daemon/replica/state/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/retention_pass.h"
#include "daemon/replica/state/snapshot.h"
#include "daemon/replica/state/state_digest.h"
#include "daemon/replica/state/update_log.h"
#include "daemon/replica/state/verify.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class RetentionTest : public ::testing::Test {
 protected:
  uint64_t Least() {
    const auto newest = *FindSnapshot(files_, "/r", UINT64_MAX);
    const std::string path = SnapshotPath("/r", newest->info().version());
    return LeastKeepBytes(SizesOf(newest->info(), FileBytes(files_, path).size()));
  }
  uint64_t Total() { return MeasureFiles(files_, "/r")->total(); }
  std::vector<uint64_t> Snapshots() { return *ListSnapshots(files_, "/r"); }
  std::vector<uint64_t> Payloads() { return *ListPayloads(files_, "/r"); }

  void Rot(uint64_t version) {
    const std::string path = SnapshotPath("/r", version);
    ASSERT_TRUE(disk_.FlipBit(path, (*SnapshotReader::Open(files_, path))->theta_offset() + 9, 2));
  }

  // Slice by slice; the bytes under /r never pass `most`, stages counted in.
  absl::Status Pass(Replica& replica, const RetentionPolicy& policy, uint64_t most) {
    RetentionPass pass(files_, "/r", policy, replica.version(), replica.StateDigest());
    while (true) {
      const absl::StatusOr<bool> over = pass.Step();
      EXPECT_LE(disk_.used(), most);
      RETURN_IF_ERROR(over.status());
      if (!*over) continue;
      EXPECT_LE(pass.report().bytes, most);
      RETURN_IF_ERROR(replica.CompactLog(HeaderAllowance(policy, pass.report().limit)));
      EXPECT_LE(disk_.used(), most);
      return absl::OkStatus();
    }
  }

  SimDisk disk_;
  SimFiles files_{disk_};
  TestRun run_;
};

TEST_F(RetentionTest, BytesStayWithinTheLimitAtEveryMomentAndTheStateIsKept) {
  // Broken: a peer would fill its owner's disk, or lose its state to keep within the bound.
  for (const uint64_t elements : {1000u, 300000u}) {
    for (const uint64_t percent : {0u, 100u, 130u, 190u, 300u}) {
      for (const uint32_t every : {3u, 50u}) {
        disk_.Wipe();
        SimFiles life(disk_);
        run_.elements = elements;
        OwnedReplica replica = *CreateReplica(life, "/r", run_);
        const auto genesis = *SnapshotReader::Open(life, SnapshotPath("/r", 0));
        const uint64_t least =
            LeastKeepBytes(SizesOf(genesis->info(), FileBytes(life, SnapshotPath("/r", 0)).size()));
        RetentionPolicy policy;
        policy.snapshot_every = every;
        policy.keep_bytes = std::max<uint64_t>(1, percent * least / 100);
        const uint64_t most = std::max(policy.keep_bytes, least) + 4096;  // genesis
        for (uint64_t version = 1; version <= (elements == 1000u ? 60 : 12); ++version) {
          run_.CommitTo(*replica, version);
          ASSERT_LE(disk_.used(), most);
          RetentionPass pass(life, "/r", policy, version, replica->StateDigest());
          for (int slice = 1;; ++slice) {
            const absl::StatusOr<bool> over = pass.Step();
            if (slice == 2 || slice == 4) run_.CommitTo(*replica, ++version);  // rounds go on
            ASSERT_TRUE(over.ok()) << over.status();
            ASSERT_LE(disk_.used(), most) << "version " << version << " percent " << percent;
            if (*over) break;
          }
          ASSERT_TRUE(replica->CompactLog(HeaderAllowance(policy, pass.report().limit)).ok());
          ASSERT_LE(disk_.used(), most);
          const absl::StatusOr<VerifyReport> report = VerifyLog(life, "/r");
          ASSERT_TRUE(report.ok()) << report.status();
          ASSERT_EQ(report->state_digest, replica->StateDigest());
        }
        EXPECT_EQ((*OpenReplica(life, "/r"))->StateDigest(), replica->StateDigest());
      }
    }
  }
}

TEST_F(RetentionTest, AGenerousLimitChangesNothing) {
  // Broken: peers with room would hold shorter logs than they were told, so that who slept a while
  // needs a whole snapshot.
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  RetentionPolicy policy{3, 2, 50 * Least()};
  for (uint64_t version = 1; version <= 11; ++version) {
    run_.CommitTo(*replica, version);
    ASSERT_TRUE(Pass(*replica, policy, policy.keep_bytes).ok());
  }
  EXPECT_THAT(Snapshots(), ElementsAre(6, 9));
  EXPECT_THAT(Payloads(), ElementsAre(7, 8, 9, 10, 11));
}

TEST_F(RetentionTest, ALongTailIsCutByAnEarlySnapshot) {
  // Broken: with rare snapshots the log alone would pass the limit.
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  const RetentionPolicy policy{1000, 2, Least()};
  uint64_t made = 0;
  for (uint64_t version = 1; version <= 20; ++version) {
    run_.CommitTo(*replica, version);
    ASSERT_TRUE(Pass(*replica, policy, Least() + 4096).ok());
    made += Snapshots().back() == version ? 1 : 0;
  }
  EXPECT_GE(made, 4u);
  EXPECT_LE(made, 10u);
}

TEST_F(RetentionTest, NothingIsDroppedForASnapshotThatHasRotted) {
  // Broken: the last state that could be read would be thrown away for bytes that nobody had looked
  // at since they were written.
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  run_.CommitTo(*replica, 3);
  ASSERT_TRUE(Replica::AdvanceSnapshots(files_, "/r", {3, 2}, 3).ok());
  run_.CommitTo(*replica, 4);
  ASSERT_THAT(Snapshots(), ElementsAre(0, 3));
  Rot(3);
  // One is to be kept: 0 would go, but 3 does not hold.
  RetentionPass pass(files_, "/r", {3, 1}, 4, replica->StateDigest());
  absl::StatusOr<bool> over = false;
  while (over.ok() && !*over) over = pass.Step();
  ASSERT_TRUE(over.ok()) << over.status();
  ASSERT_THAT(pass.report().faults, SizeIs(1));
  EXPECT_THAT(std::string(pass.report().faults[0].message()), HasSubstr(SnapshotPath("/r", 3)));
  EXPECT_THAT(Snapshots(), ElementsAre(4));  // made again, from 0
  EXPECT_EQ((*OpenReplica(files_, "/r"))->StateDigest(), replica->StateDigest());
}

TEST_F(RetentionTest, ASnapshotThatTheChainContradictsIsPutAside) {
  // Broken: a forged snapshot, sound in itself, would become the base of all later ones.
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  run_.CommitTo(*replica, 4);
  TestRun other = run_;
  OwnedReplica stranger = *CreateReplica(files_, "/s", other);
  for (uint64_t version = 1; version <= 2; ++version) {
    const SharedBytes payload = other.Payload(70 + version);
    ASSERT_TRUE(stranger->Commit(other.NextHeader(*stranger, payload), &payload, {}).ok());
  }
  ASSERT_TRUE(Replica::AdvanceSnapshots(files_, "/s", {2, 1}, 2).ok());
  ASSERT_TRUE(files_.Rename(SnapshotPath("/s", 2), SnapshotPath("/r", 2)).ok());
  RetentionPass pass(files_, "/r", {2, 2}, 4, replica->StateDigest());
  absl::StatusOr<bool> over = false;
  while (over.ok() && !*over) over = pass.Step();
  ASSERT_TRUE(over.ok()) << over.status();
  ASSERT_THAT(pass.report().faults, SizeIs(1));
  EXPECT_THAT(std::string(pass.report().faults[0].message()), HasSubstr("the header of entry 3"));
  EXPECT_TRUE(files_.Exists(DamagedSnapshotPath("/r", 2)));
  EXPECT_THAT(Snapshots(), ElementsAre(0, 4));
  EXPECT_TRUE(VerifyLog(files_, "/r").ok());
}

TEST_F(RetentionTest, AStateOtherThanTheExpectedIsNeverMadeASnapshot) {
  // Broken: snapshots would not audit the disk: a wrong one would replace the right ones.
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  run_.CommitTo(*replica, 4);
  RetentionPass pass(files_, "/r", {2, 1}, 4, Sha256({}));
  absl::StatusOr<bool> over = false;
  while (over.ok() && !*over) over = pass.Step();
  EXPECT_TRUE(absl::IsDataLoss(over.status())) << over.status();
  EXPECT_THAT(std::string(over.status().message()), HasSubstr(ToHex(Sha256({}))));
  EXPECT_EQ(pass.report().fatal, BuildFault::kState);
  EXPECT_THAT(Snapshots(), ElementsAre(0));
  EXPECT_THAT(Payloads(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(files_.List(SnapshotsDirectory("/r"))->size(), 1u);  // no stage is left
}

TEST_F(RetentionTest, TheLiveStateHealsALogThatHasRotted) {
  // Broken: one bad sector under an entry would end all snapshots of this peer for good, and its
  // next restart.
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  run_.CommitTo(*replica, 5);
  ASSERT_TRUE(replica->Prepare(run_.Payload(6)).ok());
  ASSERT_TRUE(disk_.FlipBit(PayloadPath("/r", 2), 300, 1));
  ASSERT_TRUE(disk_.FlipBit(HeadersPath("/r"), 40, 1));
  const RetentionPolicy policy{2, 2};
  EXPECT_TRUE(
      absl::IsDataLoss(Replica::AdvanceSnapshots(files_, "/r", policy, 5, replica->StateDigest())));
  ASSERT_TRUE(replica->SaveState().ok());
  EXPECT_THAT(Snapshots(), ElementsAre(5));
  EXPECT_THAT(Payloads(), ElementsAre(6));
  EXPECT_EQ(VerifyLog(files_, "/r")->state_digest, replica->StateDigest());
  run_.CommitTo(*replica, 8);
  ASSERT_TRUE(Replica::AdvanceSnapshots(files_, "/r", policy, 8, replica->StateDigest()).ok());
  EXPECT_THAT(Snapshots(), ElementsAre(5, 8));
  EXPECT_EQ((*OpenReplica(files_, "/r"))->StateDigest(), replica->StateDigest());
}

// What a pass over /r, where nothing is due, says of a replica at version 5 whose newest snapshot
// is of `newest`, after `spoil`.
absl::Status PassOverSpoiled(uint64_t newest,
                             const std::function<void(SimFiles&, SimDisk&)>& spoil) {
  SimDisk disk;
  SimFiles files(disk);
  TestRun run;
  OwnedReplica replica = *CreateReplica(files, "/r", run);
  run.CommitTo(*replica, newest);
  EXPECT_TRUE(Replica::AdvanceSnapshots(files, "/r", {1, 1}, newest).ok());
  run.CommitTo(*replica, 5);
  spoil(files, disk);
  EXPECT_FALSE(OpenReplica(files, "/r").ok()) << "nothing is spoiled";
  RetentionPass pass(files, "/r", {100, 1}, 5, replica->StateDigest());
  absl::StatusOr<bool> over = false;
  while (over.ok() && !*over) over = pass.Step();
  EXPECT_NE(pass.report().fatal, BuildFault::kNone);
  // What its owner does then.
  EXPECT_TRUE(replica->SaveState().ok());
  EXPECT_EQ((*OpenReplica(files, "/r"))->StateDigest(), replica->StateDigest());
  return over.status();
}

TEST_F(RetentionTest, ADiskThatLeadsNowhereIsToldAlsoWhereNoSnapshotIsDue) {
  // Broken: a peer whose disk no longer holds its state would go on without a word, and be found
  // out at its next start.
  const auto head_of_first = [](SimFiles&, SimDisk& disk) {
    ASSERT_TRUE(disk.FlipBit(HeadersPath("/r"), 1, 1));
  };
  EXPECT_TRUE(absl::IsDataLoss(PassOverSpoiled(5, head_of_first)));
  EXPECT_TRUE(absl::IsDataLoss(PassOverSpoiled(3, head_of_first)));
  const auto no_payload = [](SimFiles& files, SimDisk&) {
    ASSERT_TRUE(files.Remove(PayloadPath("/r", 4)).ok());
  };
  EXPECT_TRUE(absl::IsDataLoss(PassOverSpoiled(3, no_payload)));
  const auto no_snapshot = [](SimFiles& files, SimDisk&) {
    ASSERT_TRUE(files.Remove(SnapshotPath("/r", 3)).ok());
  };
  EXPECT_TRUE(absl::IsDataLoss(PassOverSpoiled(3, no_snapshot)));
}

TEST_F(RetentionTest, ALogThatBeginsAfterItsSnapshotIsADataLoss) {
  // Broken: a gap between snapshot and log would be taken for a passing fault, and every later
  // snapshot would fail for it.
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  run_.CommitTo(*replica, 5);
  const LogReader log = *LogReader::Open(files_, "/r", 1);
  const std::string headers = FileBytes(files_, HeadersPath("/r"));
  const auto* from = reinterpret_cast<const uint8_t*>(headers.data());
  ASSERT_TRUE(
      WriteFileDurably(files_, HeadersPath("/r"),
                       absl::MakeConstSpan(from, headers.size()).subspan(log.BytesBefore(3)))
          .ok());
  EXPECT_TRUE(
      absl::IsDataLoss(Replica::AdvanceSnapshots(files_, "/r", {2, 2}, 5, replica->StateDigest())));
  ASSERT_TRUE(files_.Remove(PayloadPath("/r", 1)).ok());
  ASSERT_TRUE(
      WriteFileDurably(files_, HeadersPath("/r"), absl::MakeConstSpan(from, headers.size())).ok());
  EXPECT_TRUE(
      absl::IsDataLoss(Replica::AdvanceSnapshots(files_, "/r", {2, 2}, 5, replica->StateDigest())));
}

TEST_F(RetentionTest, AMemoryThatHasChangedIsNotSaved) {
  // Broken: a flipped bit in memory would be made durable and the good history dropped for it.
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  run_.CommitTo(*replica, 2);
  replica->StateDigest();
  (*replica.theta)[17] += 1;
  EXPECT_TRUE(absl::IsDataLoss(replica->SaveState()));
  EXPECT_THAT(Snapshots(), ElementsAre(0));
  EXPECT_TRUE(VerifyLog(files_, "/r").ok());
}

TEST_F(RetentionTest, WhatIsOfferedIsWhatExists) {
  // Broken: a joiner would be sent to a peer that does not have what it needs, or away from one
  // that does.
  OwnedReplica replica = *CreateReplica(files_, "/r", run_);
  v1::Offer offer = *OfferOf(files_, "/r", 0);
  EXPECT_EQ(offer.oldest_entry(), 0u);
  EXPECT_TRUE(offer.has_snapshot());
  EXPECT_EQ(offer.snapshot_version(), 0u);
  run_.CommitTo(*replica, 7);
  ASSERT_TRUE(replica->Prepare(run_.Payload(8)).ok());
  EXPECT_EQ(OfferOf(files_, "/r", 7)->oldest_entry(), 1u);
  ASSERT_TRUE(Replica::AdvanceSnapshots(files_, "/r", {3, 1}, 4).ok());
  offer = *OfferOf(files_, "/r", 7);
  EXPECT_EQ(offer.oldest_entry(), 5u);
  EXPECT_EQ(offer.snapshot_version(), 4u);
  ASSERT_TRUE(files_.Remove(PayloadPath("/r", 6)).ok());
  EXPECT_EQ(OfferOf(files_, "/r", 7)->oldest_entry(), 7u);
  ASSERT_TRUE(files_.Remove(PayloadPath("/r", 7)).ok());
  EXPECT_EQ(OfferOf(files_, "/r", 7)->oldest_entry(), 0u);
  EXPECT_EQ(OfferOf(files_, "/r", 5)->oldest_entry(), 5u);
  ASSERT_TRUE(disk_.FlipBit(SnapshotPath("/r", 4), 40, 0));
  EXPECT_FALSE(OfferOf(files_, "/r", 7)->has_snapshot());
  EXPECT_FALSE(OfferOf(files_, "/nowhere", 7)->has_snapshot());
}

// Retention on a peer's loop: when a pass runs, rests, and what its end says.
class RetentionLoopTest : public ::testing::Test {
 protected:
  RetentionLoopTest() { world_.AddProcess("p"); }

  Env env() { return world_.process("p").env(); }

  std::unique_ptr<Retention> Make(const RetentionPolicy& policy) {
    return std::make_unique<Retention>(
        env(), "/r", policy,
        Retention::Events{[this](const absl::Status& status, const RetentionReport&, uint64_t) {
          ended_.push_back(status);
        }});
  }

  SimWorld world_{7};
  TestRun run_;
  std::vector<absl::Status> ended_;
};

TEST_F(RetentionLoopTest, PassesFollowTheReplicaOneAtATime) {
  // Broken: two passes would move the same files, or the last commit would never be looked at.
  OwnedReplica replica = *CreateReplica(env().files, "/r", run_);
  const auto retention = Make({2, 1});
  for (uint64_t version = 1; version <= 9; ++version) {
    run_.CommitTo(*replica, version);
    retention->Advance(version, replica->StateDigest());  // the first pass is still under way
  }
  ASSERT_TRUE(world_.RunUntil([&] { return retention->idle(); }, absl::Minutes(1)));
  EXPECT_THAT(ended_, ElementsAre(absl::OkStatus(), absl::OkStatus()));
  EXPECT_THAT(*ListSnapshots(env().files, "/r"), ElementsAre(9));
  EXPECT_EQ(retention->offer().snapshot_version(), 9u);
  EXPECT_EQ(retention->offer().oldest_entry(), 0u);
}

TEST_F(RetentionLoopTest, ATooSmallLimitIsToldOnce) {
  // Broken: an operator would not know why the disk holds more than the config says, or would be
  // told at each round.
  OwnedReplica replica = *CreateReplica(env().files, "/r", run_);
  RetentionPolicy policy;
  policy.keep_bytes = 1000;
  const auto retention = Make(policy);
  for (uint64_t version = 1; version <= 3; ++version) {
    run_.CommitTo(*replica, version);
    retention->Advance(version, replica->StateDigest());
    ASSERT_TRUE(world_.RunUntil([&] { return retention->idle(); }, absl::Minutes(1)));
  }
  EXPECT_EQ(world_.LogCount("peer.keep_bytes is 1000; the least that can work"), 1u);
}

TEST_F(RetentionLoopTest, ASnapshotRestsBetweenItsSlicesAndMoreWhileThePeerExchanges) {
  // Broken: a snapshot would take a core from the worker and slow the rounds.
  run_.elements = 20 * kBlockElements;
  run_.chunk_elements = 262144;
  std::vector<absl::Duration> times;
  for (const bool busy : {false, true}) {
    const std::string dir = busy ? "/busy" : "/r";
    OwnedReplica replica = *CreateReplica(env().files, dir, run_);
    run_.CommitTo(*replica, 2);
    Retention retention(env(), dir, {2, 1},
                        Retention::Events{[this](const absl::Status& status, const RetentionReport&,
                                                 uint64_t) { ended_.push_back(status); }});
    retention.SetBusy(busy);
    const absl::Duration began = world_.now();
    retention.Advance(2, replica->StateDigest());
    ASSERT_TRUE(world_.RunUntil([&] { return retention.idle(); }, absl::Hours(1)));
    times.push_back(world_.now() - began);
    ASSERT_THAT(*ListSnapshots(env().files, dir), ElementsAre(2));
  }
  EXPECT_GT(times[1], 2 * times[0]);
  EXPECT_THAT(ended_, ElementsAre(absl::OkStatus(), absl::OkStatus()));
}

TEST_F(RetentionLoopTest, AProcessThatWasStoppedDoesNotRestForIt) {
  // Broken: a peer that slept in the middle of a snapshot would go on with it after three times as
  // long, and everything that waits for the pass with it.
  OwnedReplica replica = *CreateReplica(env().files, "/r", run_);
  run_.CommitTo(*replica, 2);
  const auto retention = Make({2, 1});
  retention->Advance(2, replica->StateDigest());
  world_.Pause("p", absl::Hours(1));
  ASSERT_TRUE(world_.RunUntil([&] { return retention->idle(); }, absl::Minutes(65)));
  EXPECT_THAT(*ListSnapshots(env().files, "/r"), ElementsAre(2));
}

TEST_F(RetentionLoopTest, APassThatIsWaitedForRestsNoMore) {
  // Broken: a replica that has to be opened anew would wait for a snapshot that takes its time.
  run_.elements = 20 * kBlockElements;
  run_.chunk_elements = 262144;
  OwnedReplica replica = *CreateReplica(env().files, "/r", run_);
  run_.CommitTo(*replica, 2);
  const auto retention = Make({2, 1});
  retention->SetBusy(true);
  retention->Hurry();  // there is none
  world_.disk("p").SlowSync(absl::Seconds(1), absl::Seconds(1));
  const absl::Duration began = world_.now();
  retention->Advance(2, replica->StateDigest());
  world_.RunFor(absl::Seconds(2));  // it rests
  retention->Hurry();
  ASSERT_TRUE(world_.RunUntil([&] { return retention->idle(); }, absl::Seconds(8)));
  EXPECT_GT(world_.now() - began, absl::Seconds(3));
  EXPECT_THAT(*ListSnapshots(env().files, "/r"), ElementsAre(2));
}

TEST_F(RetentionLoopTest, ADisagreementOfDiskAndMemoryIsDecidedByTheNextCommit) {
  // Broken: a peer whose memory has drifted would save it over its good history; or one whose disk
  // is wrong would never make a snapshot again.
  OwnedReplica replica = *CreateReplica(env().files, "/r", run_);
  const auto retention = Make({1, 1});
  run_.CommitTo(*replica, 1);
  retention->Advance(1, Sha256({}));
  ASSERT_TRUE(world_.RunUntil([&] { return retention->idle(); }, absl::Minutes(1)));
  ASSERT_THAT(ended_, SizeIs(1));
  EXPECT_TRUE(absl::IsAborted(ended_[0])) << ended_[0];
  EXPECT_EQ(world_.LogCount("disk and memory disagree"), 1u);
  run_.CommitTo(*replica, 2);
  retention->Advance(2, Sha256({}));
  ASSERT_TRUE(world_.RunUntil([&] { return retention->idle(); }, absl::Minutes(1)));
  ASSERT_THAT(ended_, SizeIs(2));
  EXPECT_TRUE(absl::IsDataLoss(ended_[1])) << ended_[1];
  EXPECT_EQ(world_.LogCount("the disk can make no snapshot any more"), 1u);
  EXPECT_THAT(*ListSnapshots(env().files, "/r"), ElementsAre(0));
}

TEST_F(RetentionLoopTest, AFailedPassIsTriedAgainLessAndLessOften) {
  // Broken: a full disk would be filled, and read through, again at every commit.
  OwnedReplica replica = *CreateReplica(env().files, "/r", run_);
  run_.CommitTo(*replica, 32);
  const auto retention = Make({1, 1});
  world_.process("p").disk().SetCapacity(world_.process("p").disk().used() + 100);
  for (uint64_t version = 1; version <= 16; ++version) {
    retention->Advance(version, replica->StateDigest());
    ASSERT_TRUE(world_.RunUntil([&] { return retention->idle(); }, absl::Minutes(1)));
  }
  EXPECT_THAT(ended_, SizeIs(5));  // at 1, 2, 4, 8, 16
  for (const absl::Status& status : ended_) EXPECT_TRUE(absl::IsResourceExhausted(status));
  world_.process("p").disk().SetCapacity(UINT64_MAX);
  retention->Advance(32, replica->StateDigest());
  ASSERT_TRUE(world_.RunUntil([&] { return retention->idle(); }, absl::Minutes(1)));
  EXPECT_THAT(*ListSnapshots(env().files, "/r"), ElementsAre(32));
}

}  // namespace
}  // namespace atolld

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "atoll/v1/replica.pb.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/snapshot.h"
#include "tests/unit/daemon/replica/transfer/transfer_fixture.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

TEST_F(TransferTest, ASnapshotAndTheTailMakeAJoinerARepica) {
  // Broken: nobody could join a run.
  UseLargeState();
  AddDonor("a", 5, {2, 1});
  const absl::Status status = FetchSnapshot({"a"});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(progress_, 2 * run_.elements * sizeof(float));
  OwnedReplica replica = *OpenReplica(joiner().files, "/r");
  EXPECT_EQ(replica->version(), 4u);
  EXPECT_EQ(replica->oldest_entry(), 5u);
  EXPECT_TRUE(FetchEntries(*replica, 5, {"a"}).ok());
  EXPECT_EQ(replica->StateDigest(), digest_);
  EXPECT_EQ((*OpenReplica(joiner().files, "/r"))->StateDigest(), digest_);
}

TEST_F(TransferTest, ASleeperTakesASnapshotOverItsOldLog) {
  // Broken: a peer whose entries nobody holds any more could never come back.
  AddDonor("a", 9, {4, 1});
  {
    OwnedReplica replica = JoinerReplica();
    run_.CommitTo(*replica, 2);
  }
  ASSERT_TRUE(FetchSnapshot({"a"}).ok());
  OwnedReplica replica = *OpenReplica(joiner().files, "/r");
  EXPECT_EQ(replica->version(), 8u);
  EXPECT_TRUE(FetchEntries(*replica, 9, {"a"}).ok());
  EXPECT_EQ((*OpenReplica(joiner().files, "/r"))->StateDigest(), digest_);
  EXPECT_EQ(ListSnapshots(joiner().files, "/r")->size(), 1u);
}

TEST_F(TransferTest, ASnapshotIsGoneOnWithFromTheNextDonorAndAfterARestart) {
  // Broken: a joiner on a bad line would fetch the same blocks for ever.
  UseLargeState();
  AddDonor("a", 4, {4, 1});
  AddDonor("b", 4, {4, 1});
  const uint64_t total = 2 * run_.elements * sizeof(float);
  world_.network().BreakCallsAfter("a", "joiner", total / 2);
  {
    SnapshotFetch fetch(joiner(), Source({"a", "b"}), "/r", Genesis(), {},
                        SnapshotEvents([](absl::Status) { FAIL(); }));
    ASSERT_TRUE(world_.RunUntil([&] { return progress_ > total * 3 / 4; }, absl::Minutes(1)));
  }
  world_.RunFor(absl::Seconds(1));
  const uint64_t before = world_.network().bytes_sent("b", "joiner");
  world_.Kill("joiner");
  world_.RunFor(absl::Seconds(1));
  world_.Restart("joiner");
  world_.RunFor(absl::Seconds(1));
  progress_ = 0;  // what was not durable is fetched again
  ASSERT_TRUE(FetchSnapshot({"b"}).ok());
  EXPECT_EQ((*OpenReplica(joiner().files, "/r"))->StateDigest(), digest_);
  EXPECT_LE(before, total * 2 / 3);
}

TEST_F(TransferTest, ASnapshotThatALiarBeganIsFinishedByAnother) {
  // Broken: a wrong block would be kept, or end the join.
  UseLargeState();
  int frames = 0;
  AddDonor("liar", 4, {4, 1}, [&](Frame frame) {
    if (++frames == 4) {
      std::string bytes(frame.payload.Joined().str());
      bytes[1000] = static_cast<char>(bytes[1000] ^ 4);
      frame.payload = SharedBytes(bytes);
    }
    return frame;
  });
  AddDonor("good", 4, {4, 1});
  ASSERT_TRUE(FetchSnapshot({"liar", "good"}).ok());
  EXPECT_EQ(donors_[0]->calls, 1);
  EXPECT_EQ((*OpenReplica(joiner().files, "/r"))->StateDigest(), digest_);
}

TEST_F(TransferTest, ASnapshotOfAnotherGenesisOrWithALyingInfoIsRefused) {
  // Broken: a joiner would train another model than the run's.
  AddDonor("liar", 4, {4, 1}, [&](Frame frame) {
    v1::SnapshotBlock block;
    CHECK_OK(Unpack(frame, &block));
    if (block.has_leaves()) (*block.mutable_leaves()->mutable_leaves())[3] ^= 1;
    return Pack(block, frame.payload);
  });
  const absl::Status lied = FetchSnapshot({"liar"});
  EXPECT_TRUE(absl::IsUnavailable(lied)) << lied;
  EXPECT_THAT(std::string(lied.message()), HasSubstr("leaves"));
  run_.rule = "average";
  AddDonor("other", 4, {4, 1});
  run_.rule = "nesterov";
  const absl::Status other = FetchSnapshot({"other"});
  EXPECT_TRUE(absl::IsUnavailable(other));
  EXPECT_THAT(std::string(other.message()), HasSubstr("genesis"));
  EXPECT_TRUE(absl::IsNotFound(OpenReplica(joiner().files, "/r").status()));
}

TEST_F(TransferTest, ASnapshotIsNotFetchedOverAReplicaOfAnotherGenesis) {
  // Broken: a joiner in the wrong folder would destroy the replica of another run.
  AddDonor("a", 4, {4, 1});
  {
    TestRun run = run_;
    run.history_key = TestKey('x');
    OwnedReplica replica = *CreateReplica(joiner().files, "/r", run);
    run.CommitTo(*replica, 2);
  }
  const std::map<std::string, std::string> before = FilesBelow(joiner().files, "/r");
  const absl::Status status = FetchSnapshot({"a"});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("with another genesis"));
  EXPECT_EQ(FilesBelow(joiner().files, "/r"), before);
}

TEST_F(TransferTest, ANewerSnapshotIsTakenWhenNobodyHoldsTheOneThatWasBegun) {
  // Broken: a joiner that slept in the middle of a download could never finish it.
  UseLargeState();
  AddDonor("old", 2, {2, 1});
  AddDonor("new", 4, {2, 1});
  {
    SnapshotFetch fetch(joiner(), Source({"old"}), "/r", Genesis(), {},
                        SnapshotEvents([](absl::Status) { FAIL(); }));
    ASSERT_TRUE(world_.RunUntil([&] { return progress_ > 3000000; }, absl::Minutes(1)));
  }
  progress_ = 0;
  confirm_ = [this](const v1::SnapshotInfo&) {
    progress_ = 0;
    return absl::OkStatus();
  };
  ASSERT_TRUE(FetchSnapshot({"new"}).ok());
  EXPECT_EQ((*OpenReplica(joiner().files, "/r"))->version(), 4u);
}

TEST_F(TransferTest, ANewerSnapshotIsTakenThoughSomeDonorsDoNotAnswer) {
  // Broken: with a donor that never answers among the others, a joiner asked for what nobody holds
  // any more for ever.
  UseLargeState();
  AddDonor("old", 2, {2, 1});
  AddDonor("new", 4, {2, 1});
  world_.AddProcess("deaf");
  world_.AddProcess("mute");
  {
    SnapshotFetch fetch(joiner(), Source({"old"}), "/r", Genesis(), {},
                        SnapshotEvents([](absl::Status) { FAIL(); }));
    ASSERT_TRUE(world_.RunUntil([&] { return progress_ > 3000000; }, absl::Minutes(1)));
  }
  progress_ = 0;
  confirm_ = [this](const v1::SnapshotInfo&) {
    progress_ = 0;
    return absl::OkStatus();
  };
  const absl::Status status = FetchSnapshot({"deaf", "new", "mute"}, {4});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ((*OpenReplica(joiner().files, "/r"))->version(), 4u);
}

TEST_F(TransferTest, ASnapshotComesFromSeveralDonorsAtOnce) {
  // Broken: a join would take as long as its slowest donor needs for all of it, or fetch blocks
  // twice.
  UseLargeState();
  std::vector<std::string> names = {"a", "b", "c", "d"};
  for (const std::string& name : names) {
    AddDonor(name, 4, {4, 1});
    world_.network().SetLink(name, "joiner", {absl::Milliseconds(20), absl::ZeroDuration(), 4e6});
  }
  const absl::Duration began = world_.now();
  ASSERT_TRUE(FetchSnapshot(names).ok());
  EXPECT_EQ((*OpenReplica(joiner().files, "/r"))->StateDigest(), digest_);
  EXPECT_EQ(fetched_.donors, 4u);
  EXPECT_EQ(fetched_.blocks_fetched, fetched_.blocks);
  EXPECT_LT(fetched_.received_bytes, fetched_.bytes * 11 / 10);
  // 12 MB at 4 MB/s: 3 s from one donor.
  EXPECT_LT(world_.now() - began, absl::Seconds(1.7));
}

TEST_F(TransferTest, ASlowDonorHoldsNobodyUp) {
  // Broken: one donor that is alive but slow would make every join as slow as itself.
  UseLargeState();
  AddDonor("slow", 4, {4, 1});
  AddDonor("fast", 4, {4, 1});
  // A block takes it 4 s: less than the failure timeout, so it is never left.
  world_.network().SetLink("slow", "joiner", {absl::Milliseconds(20), absl::ZeroDuration(), 2.6e5});
  world_.network().SetLink("fast", "joiner", {absl::Milliseconds(20), absl::ZeroDuration(), 1e7});
  const absl::Duration began = world_.now();
  ASSERT_TRUE(FetchSnapshot({"slow", "fast"}).ok());
  EXPECT_EQ((*OpenReplica(joiner().files, "/r"))->StateDigest(), digest_);
  EXPECT_LT(world_.now() - began, absl::Seconds(5));
}

TEST_F(TransferTest, AForgedSnapshotIsRefusedBeforeItsBlocks) {
  // Broken: a snapshot that agrees with itself but not with the history would be joined from.
  UseLargeState();
  AddDonor("forger", 3, {1, 1});
  AddDonor("honest", 4, {4, 1});
  confirm_ = [](const v1::SnapshotInfo& info) {
    return info.version() == 4 ? absl::OkStatus() : absl::InvalidArgumentError("not of this run");
  };
  ASSERT_TRUE(FetchSnapshot({"forger", "honest"}).ok());
  EXPECT_EQ((*OpenReplica(joiner().files, "/r"))->version(), 4u);
  EXPECT_LT(world_.network().bytes_sent("forger", "joiner"), 100000u);
  EXPECT_EQ(donors_[0]->calls, 1);
}

TEST_F(TransferTest, OnlyTheBlocksThatDifferAreFetched) {
  // Broken: a replica with one bad block would fetch its whole state again.
  UseLargeState();
  AddDonor("a", 4, {4, 1});
  ASSERT_TRUE(FetchSnapshot({"a"}).ok());
  SimDisk& disk = world_.process("joiner").disk();
  ASSERT_TRUE(disk.FlipBit(SnapshotPath("/r", 4), 3000000, 5));
  progress_ = 0;
  ASSERT_TRUE(FetchSnapshot({"a"}).ok());
  EXPECT_EQ(fetched_.blocks, 12u);
  EXPECT_EQ(fetched_.blocks_fetched, 1u);
  EXPECT_LT(fetched_.received_bytes, 1200000u);
  EXPECT_EQ((*OpenReplica(joiner().files, "/r"))->StateDigest(), digest_);
}

TEST_F(TransferTest, ADonorThatComesDuringTheFetchIsUsed) {
  // Broken: a join that began with one slow donor would not profit from those that arrive.
  UseLargeState();
  AddDonor("first", 4, {4, 1});
  AddDonor("second", 4, {4, 1});
  world_.network().SetLink("first", "joiner", {absl::Milliseconds(20), absl::ZeroDuration(), 1e6});
  std::optional<absl::Status> result;
  SnapshotFetch fetch(joiner(), Source({"first"}), "/r", Genesis(), {},
                      SnapshotEvents([&](absl::Status status) { result = status; }));
  ASSERT_TRUE(world_.RunUntil([&] { return progress_ > 0; }, absl::Minutes(1)));
  fetch.SetDonors({"first:1", "second:1"});
  ASSERT_TRUE(world_.RunUntil([&] { return result.has_value(); }, absl::Minutes(1)));
  ASSERT_TRUE(result->ok()) << *result;
  EXPECT_GT(world_.network().bytes_sent("second", "joiner"), 4000000u);
}

}  // namespace
}  // namespace atolld

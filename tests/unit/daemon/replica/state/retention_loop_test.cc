// Retention on a peer's loop: when a pass runs, rests, and what its end says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/retention.h"
#include "daemon/replica/state/state_digest.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

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

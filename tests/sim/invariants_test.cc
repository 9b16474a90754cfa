// Each check against the one violation that it exists to find.
#include "tests/sim/invariants.h"

#include <gtest/gtest.h>

#include "daemon/replica/state/layout.h"
#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

class InvariantsTest : public testing::Test {
 protected:
  InvariantsTest() : invariants_({2, absl::Seconds(1), [this] { return now_; }}) {
    invariants_.OnStart("coordinator");
    invariants_.OnStart("p1");
  }

  void PeerSays(const v1::PeerMessage& message) { invariants_.OnPeerFrame("p1", Pack(message)); }
  void CoordinatorSays(const v1::CoordinatorMessage& message) {
    invariants_.OnCoordinatorFrame(Pack(message));
  }
  void Welcome(uint64_t epoch, uint64_t version) {
    v1::CoordinatorMessage message;
    message.mutable_welcome()->set_epoch(epoch);
    message.mutable_welcome()->set_version(version);
    CoordinatorSays(message);
  }
  void HoldsVersion(uint64_t version) {
    v1::PeerMessage message;
    message.mutable_synced()->set_version(version);
    PeerSays(message);
  }
  void Vote() {
    v1::PeerMessage message;
    message.mutable_vote()->set_version(1);
    message.mutable_vote()->set_epoch(1);
    message.mutable_vote()->set_revision(1);
    message.mutable_vote()->set_payload_digest(std::string(32, 'x'));
    PeerSays(message);
  }
  void Plan() {
    v1::CoordinatorMessage message;
    message.mutable_plan()->set_version(1);
    message.mutable_plan()->set_epoch(1);
    message.mutable_plan()->set_revision(1);
    message.mutable_plan()->set_deadline_milliseconds(1000);
    CoordinatorSays(message);
  }
  void Member(const std::string& state) {
    RunUpdate update;
    update.members.push_back({"p1", "p1:1", state});
    invariants_.OnDurable(update);
  }
  int Violated() const { return invariants_.violation() ? invariants_.violation()->invariant : 0; }

  absl::Duration now_;
  Invariants invariants_;
};

// If this failed, a coordinator could announce what a crash takes back.
TEST_F(InvariantsTest, AnnouncedBeforeDurable) {
  v1::CoordinatorMessage message;
  message.mutable_commit()->mutable_header()->set_version(1);
  CoordinatorSays(message);
  EXPECT_EQ(Violated(), 4);
}

// If this failed, a coordinator that begins again with an old epoch would mix two attempts.
TEST_F(InvariantsTest, EpochThatDoesNotGrow) {
  Welcome(3, 0);
  SimWorld world(1);
  SimFiles files(world.disk("coordinator"));
  invariants_.OnDeath("coordinator", files, "/coordinator");
  invariants_.OnStart("coordinator");
  Welcome(3, 0);
  EXPECT_EQ(Violated(), 3);
}

// If this failed, a peer could forget a version that it had said it holds.
TEST_F(InvariantsTest, VersionThatFalls) {
  HoldsVersion(4);
  HoldsVersion(5);
  EXPECT_EQ(Violated(), 0);
  invariants_.OnWiped("p1");
  HoldsVersion(2);
  EXPECT_EQ(Violated(), 0) << "with an empty disk it may";
  HoldsVersion(1);
  EXPECT_EQ(Violated(), 5);
}

// If this failed, fewer than the quorum could commit.
TEST_F(InvariantsTest, CommitWithoutTheQuorum) {
  Vote();
  RunUpdate update;
  update.headers.emplace_back();
  update.headers[0].set_version(1);
  update.headers[0].set_payload_digest(std::string(32, 'x'));
  invariants_.OnDurable(update);
  EXPECT_EQ(Violated(), 7);
}

// If this failed, an exchange could wait for ever.
TEST_F(InvariantsTest, DeadlineThatPasses) {
  Plan();
  now_ = absl::Seconds(2);
  invariants_.Check();
  EXPECT_EQ(Violated(), 0);
  now_ = absl::Seconds(3);
  invariants_.Check();
  EXPECT_EQ(Violated(), 7);
}

// If this failed, a healthy peer could be removed; one that was disturbed may be.
TEST_F(InvariantsTest, FalseRemoval) {
  Member("live");
  now_ = absl::Minutes(1);
  invariants_.Disturb("p1", absl::Minutes(2));
  Member("dead");
  EXPECT_EQ(Violated(), 0);
  now_ = absl::Minutes(3);
  Member("dead");
  EXPECT_EQ(Violated(), 8);
}

// If this failed, a dead peer could stay a member, and every round would wait for it.
TEST_F(InvariantsTest, DeadPeerThatStays) {
  SimWorld world(1);
  SimFiles files(world.disk("p1"));
  Member("live");
  invariants_.OnDeath("p1", files, "/p1");
  now_ = absl::Seconds(5);
  invariants_.Check();
  EXPECT_EQ(Violated(), 0);
  now_ = absl::Seconds(8);
  invariants_.Check();
  EXPECT_EQ(Violated(), 8);
}

// If this failed, a vote could be lost with the voter.
TEST_F(InvariantsTest, VoteThatACrashTakesBack) {
  Plan();
  Vote();
  SimWorld world(1);
  SimFiles files(world.disk("p1"));
  invariants_.OnDeath("p1", files, "/p1");
  EXPECT_EQ(Violated(), 4);
}

}  // namespace
}  // namespace atolld

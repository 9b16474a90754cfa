// Mode "async": entries of whoever comes, and what age costs an update.
#include <cmath>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;

// Before anybody has joined.
void MakeAsync(SimulatedPeers* peers, float decay, uint32_t cutoff) {
  v1::ModeSpec* const mode = peers->stored.spec->mutable_mode();
  mode->set_kind("async");
  if (decay != 0) mode->set_age_decay_bits(absl::bit_cast<uint32_t>(decay));
  mode->set_age_cutoff(cutoff);
  peers->Restart();
}

// The peer's update makes an entry of its own; the others train on.
void CommitAlone(SimulatedPeers* peers, const std::string& peer) {
  peers->Ready(peer);
  peers->Tick(absl::Seconds(1));
  ASSERT_NE(peers->Plan(peer), nullptr);
  peers->Vote(peer);
}

// Would break: the fast wait for the slow; or an entry names updates without what they have missed,
// by which anybody could weigh them again.
TEST(RunAsync, WhoComesMakesAnEntryAndTheOthersTrainOn) {
  SimulatedPeers peers(3, 1, 10);
  MakeAsync(&peers, 0.5f, 0);
  peers.Begin({"a", "b", "c"});
  peers.Tick(absl::Seconds(10));
  peers.Ready("a");
  EXPECT_EQ(peers.Plan("a"), nullptr);
  peers.Tick(absl::Seconds(0.9));
  peers.Ready("b");  // within the second that 10 s of training give
  EXPECT_EQ(peers.Plan("a"), nullptr);
  peers.Tick(absl::Seconds(0.2));
  ASSERT_NE(peers.Plan("a"), nullptr);
  peers.Vote("a");
  peers.Vote("b");
  ASSERT_EQ(peers.run->version(), 1u);
  EXPECT_THAT(ContributorsOf(peers.stored.headers[0]), ElementsAre("a", "b"));
  // Their next Train follows at once; c goes on, and its update is one commit old.
  EXPECT_EQ(peers.Train("a")->version(), 2u);
  EXPECT_EQ(peers.Train("c")->version(), 1u);
  peers.Synced("c", 1);
  const auto lease = peers.samples.at("c");
  peers.Ready("c", 1);
  peers.Ready("a");
  peers.Tick(absl::Seconds(1));
  for (const char* peer : {"a", "c"}) peers.Vote(peer);
  ASSERT_EQ(peers.run->version(), 2u);
  const v1::EntryHeader& header = peers.stored.headers[1];
  ASSERT_THAT(ContributorsOf(header), ElementsAre("a", "c"));
  EXPECT_EQ(header.contributors(0).age(), 0u);
  EXPECT_EQ(header.contributors(1).age(), 1u);
  EXPECT_EQ(absl::bit_cast<float>(header.contributors(0).weight_bits()), 100);
  EXPECT_EQ(absl::bit_cast<float>(header.contributors(1).weight_bits()),
            static_cast<float>(100 * std::exp(-0.5)));
  // What it was trained on is spent once, in this entry.
  ASSERT_EQ(header.contributors(1).samples_size(), 1);
  EXPECT_EQ(header.contributors(1).samples(0).first(), lease.front().first());
}

float ScalarOf(const v1::EntryHeader& header, const std::string& name) {
  for (const v1::Scalar& scalar : header.scalars()) {
    if (scalar.name() == name) return absl::bit_cast<float>(scalar.bits());
  }
  ADD_FAILURE() << "header " << header.version() << " has no scalar " << name;
  return -1;
}

// Would break: a coordinator that was started again counts from 0, and the next momentum is made of
// more updates than N.
TEST(RunAsync, UpdatesAreCountedOnBehindARestart) {
  SimulatedPeers peers(3, 1, 10);
  peers.stored.spec->mutable_outer()->set_rule("delayed_nesterov");
  peers.stored.spec->mutable_outer()->set_buffer(4);
  MakeAsync(&peers, 0, 0);
  peers.Begin({"a", "b", "c"});
  const auto commit = [&peers](const std::vector<std::string>& ready) {
    peers.Tick(absl::Seconds(5));
    for (const std::string& peer : ready) peers.Ready(peer);
    peers.Tick(absl::Seconds(1));
    for (const std::string& peer : ready) {
      ASSERT_NE(peers.Plan(peer), nullptr);
      peers.Vote(peer);
    }
  };
  commit({"a", "b"});
  ASSERT_EQ(peers.run->version(), 1u);
  EXPECT_EQ(ScalarOf(peers.stored.headers[0], "waiting"), 2);
  peers.Restart();
  peers.ComeBack({"a", "b", "c"});
  commit({"a"});
  ASSERT_EQ(peers.run->version(), 2u);
  EXPECT_EQ(ScalarOf(peers.stored.headers[1], "due"), 0);
  EXPECT_EQ(ScalarOf(peers.stored.headers[1], "waiting"), 3);
}

// Would break: a run in which the announced peers never all come does not begin.
TEST(RunAsync, TheFirstRoundWaitsForOneTrainer) {
  SimulatedPeers peers(3, 1, 10);
  MakeAsync(&peers, 0, 0);
  peers.Begin({"a"});
  ASSERT_NE(peers.Train("a"), nullptr);
  peers.Ready("a");  // nobody else could come: it makes an entry at once
  ASSERT_NE(peers.Plan("a"), nullptr);
  peers.Vote("a");
  EXPECT_EQ(peers.run->version(), 1u);
}

// Would break: what has missed too much moves the state all the same; or its peer waits for ever,
// or is blamed for being slow.
TEST(RunAsync, WhatIsTooOldIsTrainedAnew) {
  SimulatedPeers peers(3, 1, 10);
  MakeAsync(&peers, 0, 2);
  peers.Begin({"a", "b"});
  peers.Tick(absl::Seconds(5));
  CommitAlone(&peers, "a");
  CommitAlone(&peers, "a");
  ASSERT_EQ(peers.run->version(), 2u);
  peers.Synced("b", 2);
  const uint64_t before = peers.Train("b")->number();
  peers.Ready("b", 2);
  EXPECT_TRUE(peers.Said("the update of peer b has missed 2 commits"));
  EXPECT_EQ(peers.Train("b")->version(), 3u);
  EXPECT_NE(peers.Train("b")->number(), before);
  EXPECT_EQ(peers.Plan("b"), nullptr);
  EXPECT_EQ(peers.run->Status(peers.now).peers(1).updates_refused(), 0u);
  CommitAlone(&peers, "a");
  peers.Synced("b", 3);
  peers.Ready("b", 1);  // not too old
  peers.Tick(absl::Seconds(1));
  EXPECT_NE(peers.Plan("b"), nullptr);
}

// Would break: a peer whose updates are always too old does as many steps each time, since its
// speed is known of contributors alone.
TEST(RunAsync, ASlowPeerIsGivenFewerStepsBeforeItHasContributed) {
  SimulatedPeers peers(3, 1, 10);
  peers.settings.pace.kind = PaceSettings::Kind::kAuto;
  peers.stored.spec->mutable_inner()->set_steps(40);
  MakeAsync(&peers, 0, 2);
  peers.train_seconds = {{"a", 5}, {"b", 20}, {"c", 5}};
  peers.Begin({"a", "b", "c"});
  peers.Tick(absl::Seconds(5));
  CommitAlone(&peers, "a");
  peers.Synced("c", 1);
  peers.Ready("c", 1);
  peers.Tick(absl::Seconds(1));
  peers.Vote("c");
  ASSERT_EQ(peers.run->version(), 2u);
  EXPECT_EQ(peers.Train("b")->steps(), 5u);
  peers.Synced("b", 2);
  peers.Ready("b", 2);  // 4 s a step, where the others take 1 s
  EXPECT_EQ(peers.Train("b")->version(), 3u);
  EXPECT_EQ(peers.Train("b")->steps(), 10u);
}

}  // namespace
}  // namespace atolld

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

using testing::HasSubstr;

SimulatedPeers Clipping(uint32_t peers, uint32_t quorum, uint64_t rounds = 40) {
  SimulatedPeers made(peers, quorum, rounds);
  made.settings.judge.clip = 1;
  made.settings.judge.offenders.outsized = 10;
  made.run = std::make_unique<Run>(made.settings, made.stored, made.now);
  return made;
}

void SetNorms(SimulatedPeers* peers, double a, double b, double c) {
  peers->norms = {{"a", a}, {"b", b}, {"c", c}};
}

const v1::PeerStatus& StatusOf(const v1::RunStatus& status, const std::string& peer) {
  for (const v1::PeerStatus& one : status.peers()) {
    if (one.member().peer() == peer) return one;
  }
  static const v1::PeerStatus none;
  return none;
}

// Broken: the header would not say by how much an update was scaled, and nobody could recompute the
// mean; or the scales would change between the revisions of one plan.
TEST(RunJudge, ScalesAreInThePlanAndInTheHeader) {
  SimulatedPeers peers = Clipping(3, 2);
  peers.Begin({"a", "b", "c"});
  SetNorms(&peers, 1, 4, 1);
  for (const char* peer : {"a", "b", "c"}) peers.Ready(peer);
  ASSERT_NE(peers.Plan("a"), nullptr);
  EXPECT_EQ(peers.Plan("a")->contributors(0).scale_bits(), 0u);
  EXPECT_EQ(peers.Plan("a")->contributors(1).scale_bits(), 0x3e800000u);  // 0.25f
  EXPECT_NE(peers.Plan("a")->contributors(1).squared_norm_bits(), 0u);
  // Without c the median would be another: the scales stay.
  peers.Die("c");
  EXPECT_EQ(peers.Plan("a")->revision(), 2u);
  EXPECT_EQ(peers.Plan("a")->contributors(1).scale_bits(), 0x3e800000u);
  for (const char* peer : {"a", "b"}) peers.Vote(peer);
  ASSERT_EQ(peers.run->version(), 1u);
  EXPECT_EQ(peers.Committed("a")->header().contributors(1).scale_bits(), 0x3e800000u);
  EXPECT_EQ(StatusOf(peers.run->Status(peers.now), "b").updates_clipped(), 1u);
  EXPECT_EQ(peers.stored.judged.medians, std::vector<double>({1.0}));
}

// Broken: a NaN would be averaged, or its peer would wait for ever with an update that nobody
// takes.
TEST(RunJudge, AnUpdateOfNoRealNormIsNotTaken) {
  SimulatedPeers peers = Clipping(3, 2);
  peers.Begin({"a", "b", "c"});
  SetNorms(&peers, 1, 1, std::numeric_limits<double>::infinity());
  peers.Clear();
  peers.Ready("c");
  EXPECT_TRUE(peers.Said("the update of peer c is not taken"));
  ASSERT_NE(peers.Train("c"), nullptr) << "it trains anew";
  EXPECT_EQ(StatusOf(peers.run->Status(peers.now), "c").updates_refused(), 1u);
  EXPECT_THAT(StatusOf(peers.run->Status(peers.now), "c").offence(), HasSubstr("inf"));
  SetNorms(&peers, 1, 1, 1);
  for (const char* peer : {"a", "b", "c"}) peers.Ready(peer);
  EXPECT_EQ(peers.Plan("a")->contributors_size(), 3);
}

// Broken: a peer would never learn that its residual makes its updates too long, and offer one like
// that again and again.
TEST(RunJudge, WhoseUpdateIsTooLongForAnyScaleIsToldSo) {
  SimulatedPeers peers = Clipping(3, 3);
  peers.Begin({"a", "b", "c"});
  EXPECT_FALSE(peers.Train("c")->refused());
  SetNorms(&peers, 1, 1, 0x1p120);
  peers.Clear();
  for (const char* peer : {"a", "b", "c"}) peers.Ready(peer);
  EXPECT_TRUE(peers.Said("the update of peer c is not taken: it is too long for any scale"));
  peers.Tick();
  ASSERT_NE(peers.Train("c"), nullptr) << "it trains anew";
  EXPECT_TRUE(peers.Train("c")->refused());
  SetNorms(&peers, 1, 1, 1);
  for (const char* peer : {"a", "b", "c"}) peers.Ready(peer);
  ASSERT_NE(peers.Plan("a"), nullptr);
  for (const char* peer : {"a", "b", "c"}) peers.Vote(peer);
  ASSERT_EQ(peers.run->version(), 1u);
  ASSERT_EQ(peers.Train("c")->version(), 2u);
  EXPECT_FALSE(peers.Train("c")->refused()) << "the next one was taken";
}

// Broken: a worker that hands over what is no update, round by round, would be nobody's business.
TEST(RunJudge, AnUpdateThatIsNoneIsCounted) {
  SimulatedPeers peers = Clipping(3, 2);
  peers.Begin({"a", "b", "c"});
  SetNorms(&peers, 1, 1, 1);
  v1::PeerMessage message;
  message.mutable_worker_lost()->set_reason("value 7 is NaN" + std::string(1000, '!'));
  peers.Say("b", message);
  EXPECT_EQ(StatusOf(peers.run->Status(peers.now), "b").updates_refused(), 0u) << "it only died";
  message.mutable_worker_lost()->set_bad_update(true);
  peers.Say("c", message);
  EXPECT_TRUE(peers.Said("peer c: its worker was ended: value 7 is NaN"));
  const v1::PeerStatus status = StatusOf(peers.run->Status(peers.now), "c");
  EXPECT_EQ(status.updates_refused(), 1u);
  EXPECT_THAT(status.offence(), HasSubstr("value 7 is NaN"));
  EXPECT_LT(status.offence().size(), 300u);
}

// Broken: a peer whose updates do harm round by round would go on for ever; or the run would stop
// for want of it.
TEST(RunJudge, AnOffenderSitsOutWhileTheQuorumIsThere) {
  SimulatedPeers peers = Clipping(3, 2);
  peers.Begin({"a", "b", "c"});
  SetNorms(&peers, 1, 1, 50);
  for (int round = 0; round < 3; ++round) peers.Commit({"a", "b", "c"});
  EXPECT_TRUE(peers.Said("peer c is left out for what its updates were"));
  EXPECT_THAT(StatusOf(peers.run->Status(peers.now), "c").offence(), HasSubstr("left out for"));
  // Neither trained nor waited for.
  peers.Clear();
  peers.Commit({"a", "b"});
  EXPECT_EQ(peers.run->version(), 4u);
  EXPECT_EQ(peers.Train("c"), nullptr);
  EXPECT_NE(peers.Train("a"), nullptr);
  // A restart forgets nothing.
  peers.Restart();
  EXPECT_THAT(peers.stored.judged.peers[0].offence, HasSubstr("50 times"));
  // With one of the others gone the run needs it.
  SimulatedPeers few = Clipping(3, 2);
  few.Begin({"a", "b", "c"});
  SetNorms(&few, 1, 1, 50);
  for (int round = 0; round < 3; ++round) few.Commit({"a", "b", "c"});
  few.Clear();
  few.Die("b");
  EXPECT_NE(few.Train("c"), nullptr);
}

// Broken: what reducers refuse would be forgotten, or an operator would not be told.
TEST(RunJudge, ReportsOfReducersAreCounted) {
  SimulatedPeers peers = Clipping(3, 2);
  peers.Begin({"a", "b", "c"});
  SetNorms(&peers, 1, 1, 1);
  for (const char* peer : {"a", "b", "c"}) peers.Ready(peer);
  v1::PeerMessage message;
  v1::UpdateRefused* refused = message.mutable_update_refused();
  refused->set_version(1);
  refused->set_epoch(peers.stored.epoch);
  refused->set_contributor("c");
  refused->set_chunk(7);
  refused->set_reason("block scale is NaN");
  peers.Say("a", message);
  EXPECT_FALSE(peers.Said("was refused where it was averaged"));
  peers.Say("b", message);
  EXPECT_TRUE(peers.Said("the update of peer c was refused where it was averaged: chunk 7"));
  for (const char* peer : {"a", "b", "c"}) peers.Vote(peer);
  EXPECT_EQ(peers.run->version(), 1u);
  EXPECT_TRUE(peers.Said("offence of peer c"));
  EXPECT_EQ(StatusOf(peers.run->Status(peers.now), "c").updates_refused(), 1u);
}

// -----------------------------------------------------------------------------------------------
// What peers claim of their updates.

v1::PeerMessage Claim(const SimulatedPeers& peers, uint32_t steps, uint64_t tokens) {
  v1::PeerMessage message;
  v1::Ready* ready = message.mutable_ready();
  ready->set_version(1);
  ready->set_epoch(peers.stored.epoch);
  ready->set_steps(steps);
  ready->set_tokens(tokens);
  ready->set_contribution_root(std::string(32, 'r'));
  ready->set_state_digest(std::string(32, 's'));
  return message;
}

// Would break: who claims the most tokens is the mean.
TEST(RunClaims, WhoClaimsMuchCountsAsTheCapAllows) {
  SimulatedPeers peers(3, 2);
  peers.settings.weight_cap = 4;
  peers.Restart();
  peers.Begin({"a", "b", "c"});
  peers.Ready("a");
  peers.Say("b", Claim(peers, 5, 1'000'000'000));
  peers.Ready("c");
  ASSERT_NE(peers.Plan("a"), nullptr);
  EXPECT_EQ(peers.Plan("a")->contributors(0).weight_bits(), 0x42c80000u);  // 100.0f
  EXPECT_EQ(peers.Plan("a")->contributors(1).weight_bits(), 0x43c80000u);  // 400.0f
}

// Would break: an update counts for samples that its peer does not hold.
TEST(RunClaims, AnUpdateOfMoreStepsThanSamplesIsRefused) {
  SimulatedPeers peers(2, 1);
  peers.Begin({"a", "b"});
  const SessionId session = peers.sessions.at("b");
  peers.Say("b", Claim(peers, 6, 120));
  ASSERT_EQ(peers.ended.count(session), 1u);
  EXPECT_THAT(std::string(peers.ended.at(session).message()), HasSubstr("it holds 10"));
}

}  // namespace
}  // namespace atolld

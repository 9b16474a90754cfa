// Aggregators in a run: peers that train nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "membership/trust/contribution.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

void JoinAsAggregator(SimulatedPeers* peers, const std::string& peer) {
  v1::Hello hello = peers->MakeHello(peer);
  hello.set_role("aggregator");
  peers->Join(peer, &hello);
}

// Two peers that nobody can dial and an aggregator, in the exchange of version 1.
void BeginAggregated(SimulatedPeers* peers) {
  JoinAsAggregator(peers, "x");
  for (const char* peer : {"a", "b"}) peers->JoinDialingOut(peer);
  peers->InitialState("a");
  for (const char* peer : {"b", "x"}) peers->Synced(peer, 0);
  for (const char* peer : {"a", "b"}) peers->Evaluate(peer);
  for (const char* peer : {"a", "b"}) peers->Ready(peer);
}

// Would break: a crowd behind NAT cannot train, or an aggregator is taken for one that trains.
TEST(RunAggregator, AnAggregatorReducesForThoseThatNobodyCanDial) {
  SimulatedPeers peers(2, 2);
  BeginAggregated(&peers);
  EXPECT_EQ(peers.Train("x"), nullptr);
  for (const char* peer : {"a", "b", "x"}) {
    ASSERT_NE(peers.Plan(peer), nullptr) << peer;
    EXPECT_EQ(peers.WholePlan(peer)->contributors_size(), 2);
    EXPECT_EQ(IsBrief(*peers.Plan(peer)), std::string(peer) != "x") << peer;
    ASSERT_EQ(peers.Plan(peer)->shards_size(), 1);
    EXPECT_EQ(peers.Plan(peer)->shards(0).reducer(), "x");
    EXPECT_EQ(peers.Plan(peer)->shards(0).address(), peers.MakeHello("x").address());
  }
  // Without its vote nobody could fetch the entry.
  for (const char* peer : {"a", "b"}) peers.Vote(peer);
  EXPECT_EQ(peers.run->version(), 0u);
  peers.Vote("x");
  EXPECT_EQ(peers.run->version(), 1u);
  EXPECT_EQ(peers.stored.headers.back().contributors_size(), 2);
}

// Would break: operators who cannot tell who trains.
TEST(RunAggregator, TheStatusSaysWhoIsWhat) {
  SimulatedPeers peers(2, 2);
  BeginAggregated(&peers);
  std::map<std::string, std::string> roles;
  const v1::RunStatus status = peers.run->Status(peers.now);
  for (const v1::PeerStatus& peer : status.peers()) {
    roles[peer.member().peer()] = peer.role();
  }
  EXPECT_EQ(roles, (std::map<std::string, std::string>{
                       {"a", "peer"}, {"b", "peer"}, {"x", "aggregator"}}));
}

// Would break: an aggregator's vote makes up a quorum, and one peer alone commits.
TEST(RunAggregator, AnAggregatorIsNoneOfTheQuorum) {
  SimulatedPeers peers(2, 2);
  JoinAsAggregator(&peers, "x");
  peers.JoinAndWork("a");
  peers.InitialState("a");
  peers.Synced("x", 0);
  EXPECT_THAT(peers.reason(), HasSubstr("1 of 2 peers is here"));
  peers.JoinDialingOut("b");
  peers.Synced("b", 0);
  for (const char* peer : {"a", "b"}) peers.Evaluate(peer);
  for (const char* peer : {"a", "b"}) peers.Ready(peer);
  // A contributor that can be dialled does it itself.
  EXPECT_EQ(peers.Plan("x"), nullptr);
  EXPECT_EQ(peers.Plan("b")->shards(0).reducer(), "a");
  peers.Die("a");
  peers.Tick(absl::Minutes(1));
  EXPECT_EQ(peers.run->version(), 0u);
}

// Would break: the death of the only reducer that others reach fails the attempt though an
// aggregator stands by; or that of the aggregator is waited for without a word.
TEST(RunAggregator, AnAggregatorTakesOverAndItsDeathIsNamed) {
  SimulatedPeers peers(3, 2);
  JoinAsAggregator(&peers, "x");
  peers.JoinAndWork("c");
  for (const char* peer : {"a", "b"}) peers.JoinDialingOut(peer);
  peers.InitialState("c");
  for (const char* peer : {"a", "b", "x"}) peers.Synced(peer, 0);
  for (const char* peer : {"a", "b", "c"}) peers.Evaluate(peer);
  for (const char* peer : {"a", "b", "c"}) peers.Ready(peer);
  EXPECT_EQ(peers.Plan("a")->shards(0).reducer(), "c");
  peers.Die("c");
  ASSERT_NE(peers.Plan("x"), nullptr);
  EXPECT_EQ(peers.Plan("x")->shards(0).reducer(), "x");
  EXPECT_EQ(peers.Plan("x")->shards(0).attempt(), 2u);
  peers.Clear();
  peers.Die("x");
  EXPECT_TRUE(peers.Said("no reachable reducer is left"));
  for (const char* peer : {"a", "b"}) peers.Ready(peer);
  EXPECT_THAT(peers.reason(), HasSubstr("no reachable reducer: a, b have no address"));
  EXPECT_TRUE(peers.run->LacksReachablePeer());
  // It is back, and still behind.
  JoinAsAggregator(&peers, "x");
  EXPECT_THAT(peers.reason(), HasSubstr("aggregator x does not hold version 0 yet"));
  peers.Synced("x", 0);
  EXPECT_FALSE(peers.run->LacksReachablePeer());
  EXPECT_EQ(peers.Plan("x")->shards(0).reducer(), "x");
}

// Would break: an aggregator whose process was replaced is taken to hold what the former averaged.
TEST(RunAggregator, AnAggregatorThatBeginsAnewAveragesAnew) {
  SimulatedPeers peers(2, 2);
  BeginAggregated(&peers);
  const uint64_t epoch = peers.Plan("x")->epoch();
  peers.Break("x");
  v1::Hello hello = peers.Returning("x", nullptr);
  hello.set_role("aggregator");
  hello.set_instance(hello.instance() + 1);
  peers.Join("x", &hello);
  for (const char* peer : {"a", "b"}) peers.Ready(peer);
  EXPECT_GT(peers.Plan("x")->epoch(), epoch);
}

// Would break: one without a worker is believed to have one, or is let in where nobody can use it.
TEST(RunAggregator, AnAggregatorHasAnAddressAndNoWorker) {
  SimulatedPeers peers(1, 1);
  JoinAsAggregator(&peers, "x");
  peers.WorkerReady("x");
  EXPECT_EQ(peers.StateOf("x"), "left");
  v1::Hello hello = peers.MakeHello("y");
  hello.set_role("aggregator");
  hello.clear_address();
  peers.Join("y", &hello);
  EXPECT_TRUE(peers.Said("peer y is an aggregator and cannot be dialled"));
}

}  // namespace
}  // namespace atolld

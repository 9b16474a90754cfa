// Parties with data of their own: nothing is leased, some are drawn, some updates are dropped.
#include <algorithm>
#include <cmath>

#include "absl/base/casts.h"
#include "gtest/gtest.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

// Before anybody has joined.
void MakePrivate(SimulatedPeers* peers) {
  peers->stored.spec->mutable_data()->set_private_(true);
  peers->Restart();
}

void SetParties(SimulatedPeers* peers, float share, float drop, uint64_t seed = 1) {
  peers->stored.spec->set_seed(seed);
  v1::FederationSpec* const federation = peers->stored.spec->mutable_federation();
  if (share != 1) federation->set_participation_bits(absl::bit_cast<uint32_t>(share));
  federation->set_drop_bits(absl::bit_cast<uint32_t>(drop));
  peers->Restart();
}

std::string WhyOf(const SimulatedPeers& peers, const std::string& peer) {
  const v1::RunStatus status = peers.run->Status(peers.now);
  for (const v1::PeerStatus& one : status.peers()) {
    if (one.member().peer() == peer) return one.why();
  }
  return "";
}

std::vector<std::string> WhoTrains(const SimulatedPeers& peers, uint64_t version,
                                   const std::vector<std::string>& names) {
  std::vector<std::string> training;
  for (const std::string& name : names) {
    const v1::Train* const train = peers.Train(name);
    if (train != nullptr && train->version() == version) training.push_back(name);
  }
  return training;
}

// Broken: private data would be leased by numbers that mean nothing there, or the header would
// spend them.
TEST(RunParties, OfPrivateDataNothingIsLeased) {
  SimulatedPeers peers(2, 2);
  MakePrivate(&peers);
  peers.Begin({"a", "b"});
  ASSERT_NE(peers.Train("a"), nullptr);
  EXPECT_EQ(peers.Train("a")->steps(), 5u);
  EXPECT_EQ(peers.Train("a")->samples_size(), 0);
  peers.Commit({"a", "b"});
  ASSERT_EQ(peers.stored.headers.size(), 1u);
  for (const v1::Contributor& one : peers.stored.headers[0].contributors()) {
    EXPECT_EQ(one.samples_size(), 0);
    EXPECT_EQ(one.parties(), 0u);
  }
  EXPECT_EQ(peers.stored.leases.next, 0u);
  EXPECT_EQ(peers.run->Status(peers.now).data().samples_a_pass(), 0u);
}

// Broken: an update that an entry has taken would be waited for, or taken again, after a restart of
// the coordinator.
TEST(RunParties, AnUpdateIsTakenOnce) {
  SimulatedPeers peers(2, 1);
  MakePrivate(&peers);
  peers.Begin({"a", "b"});
  peers.Commit({"a", "b"});
  ASSERT_EQ(peers.run->version(), 1u);
  peers.Restart();
  v1::Hello hello = peers.Returning("a", nullptr);  // it has not heard of the commit
  hello.set_training(true);
  peers.Join("a", &hello);
  peers.WorkerReady("a");
  peers.ComeBack({"b"});
  peers.Ready("a");
  EXPECT_TRUE(peers.Said("no longer its own"));
  peers.Ready("b");
  ASSERT_NE(peers.Plan("b"), nullptr) << "nobody waits for what is in the history";
  EXPECT_EQ(peers.Plan("b")->contributors_size(), 1);
}

// Broken: an update that was refused, said again before its peer hears that it is to train anew,
// would be planned for with the weight of one and the bytes of another.
TEST(RunParties, AnUpdateThatAnswersAnOlderTrainDoesNotCount) {
  SimulatedPeers peers(2, 2);
  MakePrivate(&peers);
  peers.Begin({"a", "b"});
  const uint64_t newest = peers.trains.at("a");
  peers.trains["a"] = newest - 1;
  peers.Ready("a");
  peers.Ready("b");
  EXPECT_EQ(peers.Plan("b"), nullptr);
  peers.trains["a"] = newest;
  peers.Ready("a");
  EXPECT_NE(peers.Plan("b"), nullptr);
}

// Broken: a restart of the coordinator would cost every peer its training.
TEST(RunParties, TrainingGoesOnOverARestartOfTheCoordinator) {
  SimulatedPeers peers(2, 2);
  MakePrivate(&peers);
  peers.Begin({"a", "b"});
  peers.Commit({"a", "b"});
  for (const char* peer : {"a", "b"}) peers.Synced(peer, 1);
  ASSERT_EQ(WhoTrains(peers, 2, {"a", "b"}).size(), 2u);
  peers.Restart();
  peers.ComeBack({"a", "b"});
  EXPECT_EQ(peers.Train("a"), nullptr) << "it trains on";
  peers.Commit({"a", "b"});
  EXPECT_EQ(peers.run->version(), 2u);
  EXPECT_FALSE(peers.Said("no longer its own"));
}

// Broken: a peer that was never asked for an update would have one in the mean.
TEST(RunParties, WhoWasNotAskedOffersNothing) {
  SimulatedPeers peers(2, 1);
  MakePrivate(&peers);
  peers.Begin({"a", "b"});
  peers.JoinAndWork("c");  // without a state
  peers.Ready("c");
  EXPECT_TRUE(peers.Said("no longer its own"));
}

// Broken: losses of parties would not be told, or be weighed by who holds much data.
TEST(RunParties, EachIsEvaluatedOnItsOwn) {
  SimulatedPeers peers(2, 2);
  MakePrivate(&peers);
  peers.own_losses = {{"a", {1, 2}}, {"b", {6}}};
  peers.Begin({"a", "b"});
  ASSERT_EQ(peers.stored.evaluations.size(), 1u);
  const v1::EvaluationRecord& record = peers.stored.evaluations[0];
  EXPECT_EQ(record.own_parties(), 3u);
  EXPECT_EQ(record.own_mean(), 3);
  EXPECT_EQ(record.loss(), 3);
  EXPECT_EQ(record.own_tenth(), 1);
  EXPECT_EQ(record.own_ninetieth(), 6);
  EXPECT_TRUE(peers.Said("own data of 3 parties"));
}

// Broken: the common set would not be evaluated where there is one, or its loss be another's.
TEST(RunParties, TheCommonSetIsEvaluatedInSharesBesides) {
  SimulatedPeers peers(2, 2);
  peers.stored.spec->mutable_data()->set_common_validation(true);
  MakePrivate(&peers);
  peers.own_losses = {{"a", {5}}, {"b", {7}}};
  peers.Begin({"a", "b"});
  ASSERT_EQ(peers.stored.evaluations.size(), 1u);
  EXPECT_EQ(peers.stored.evaluations[0].loss(), 3);
  EXPECT_EQ(peers.stored.evaluations[0].own_mean(), 6);
}

// Broken: one that dies over its own data, or has none, would hold the run's end up.
TEST(RunParties, TheDeadAndThoseWithoutDataAreNotWaitedFor) {
  SimulatedPeers peers(3, 2, /*rounds=*/1);
  MakePrivate(&peers);
  peers.own_losses = {{"a", {4}}};
  for (const char* peer : {"a", "b", "c"}) peers.JoinAndWork(peer);
  peers.InitialState("a");
  for (const char* peer : {"b", "c"}) peers.Synced(peer, 0);
  peers.Evaluate("a");
  peers.Evaluate("b");  // holds nothing out
  EXPECT_TRUE(peers.stored.evaluations.empty());
  peers.Die("c");
  ASSERT_EQ(peers.stored.evaluations.size(), 1u);
  EXPECT_EQ(peers.stored.evaluations[0].own_parties(), 1u);
  EXPECT_EQ(peers.stored.evaluations[0].loss(), 4);
}

// Broken: a run in which nobody has held anything out would never end.
TEST(RunParties, WhereNobodyHoldsDataOutTheRunIsSealedWithoutALoss) {
  SimulatedPeers peers(2, 2, /*rounds=*/1);
  MakePrivate(&peers);
  peers.Begin({"a", "b"});
  peers.Commit({"a", "b"});
  for (const char* peer : {"a", "b"}) peers.Synced(peer, 1);
  for (const char* peer : {"a", "b"}) peers.Evaluate(peer);
  for (const char* peer : {"a", "b"}) peers.Report(peer);
  peers.Tick(absl::Seconds(60));
  EXPECT_TRUE(peers.stored.seal);
  EXPECT_TRUE(peers.stored.evaluations.empty());
}

// Broken: everybody would train, or other peers than the draw's; nobody would see why the others
// are idle; or one that is drawn and dies would be waited for.
TEST(RunParties, OnlyThoseTrainThatAreDrawn) {
  SimulatedPeers peers(4, 2);
  SetParties(&peers, 0.5f, 0);
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  peers.Begin(names);
  const std::vector<std::string> order = Participation(*peers.stored.spec).Order(1, names);
  std::vector<std::string> drawn = {order[0], order[1]};
  std::sort(drawn.begin(), drawn.end());
  EXPECT_EQ(WhoTrains(peers, 1, names), drawn);
  EXPECT_EQ(WhyOf(peers, order[0]), "");
  EXPECT_EQ(WhyOf(peers, order[2]), "not drawn for round 1");
  peers.Die(order[0]);
  EXPECT_NE(peers.Train(order[2]), nullptr) << "the next one is";
  EXPECT_EQ(peers.Train(order[3]), nullptr);
}

// Broken: those that took part in a round would be drawn for the next as well, since they hold its
// base first; or the quorum of all would be waited for.
TEST(RunParties, WhoFollowsTheCommitsIsDrawnLikeTheOthers) {
  SimulatedPeers peers(4, 3, /*rounds=*/9);
  SetParties(&peers, 0.25f, 0);
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  peers.Begin(names);
  const Participation parties(*peers.stored.spec);
  std::set<std::string> took_part;
  for (uint64_t version = 1; version < 9; ++version) {
    const std::string drawn = parties.Order(version, names)[0];
    EXPECT_EQ(WhoTrains(peers, version, names), std::vector<std::string>{drawn});
    peers.Commit({drawn});
    ASSERT_EQ(peers.run->version(), version);
    took_part.insert(drawn);
    for (const std::string& name : names) peers.Synced(name, version);
  }
  EXPECT_GT(took_part.size(), 1u);
}

// Broken: after a restart others would be drawn beside those that train already.
TEST(RunParties, ARestartedCoordinatorDrawsTheSame) {
  SimulatedPeers peers(4, 2);
  peers.stored.spec->mutable_data()->set_private_(true);
  SetParties(&peers, 0.5f, 0);
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  peers.Begin(names);
  const std::vector<std::string> drawn = WhoTrains(peers, 1, names);
  ASSERT_EQ(drawn.size(), 2u);
  peers.Restart();
  peers.ComeBack(names);
  EXPECT_TRUE(WhoTrains(peers, 1, names).empty()) << "those that are drawn train on";
  peers.Commit(drawn);
  EXPECT_EQ(peers.run->version(), 1u);
}

// Broken: the last entry of few would wait for the votes of a quorum that was never asked.
TEST(RunParties, ARunOfDrawnPeersIsSealed) {
  SimulatedPeers peers(4, 3, /*rounds=*/1);
  SetParties(&peers, 0.25f, 0);
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  peers.Begin(names);
  const std::vector<std::string> drawn = WhoTrains(peers, 1, names);
  peers.Commit(drawn);
  for (const std::string& name : names) peers.Synced(name, 1);
  for (const std::string& name : names) peers.Evaluate(name);
  for (const std::string& name : names) peers.Report(name);
  peers.Tick(absl::Seconds(60));
  EXPECT_TRUE(peers.stored.seal) << peers.reason();
}

// The first seed by which of a and b only those named are dropped in rounds 1 and 2.
uint64_t SeedOfDrops(const std::string& in_first, const std::string& in_second) {
  for (uint64_t seed = 1;; ++seed) {
    v1::RunSpec spec;
    spec.set_seed(seed);
    spec.mutable_federation()->set_drop_bits(absl::bit_cast<uint32_t>(0.5f));
    const Participation parties(spec);
    std::string first, second;
    for (const char* peer : {"a", "b"}) {
      if (parties.Dropped(1, peer)) first += peer;
      if (parties.Dropped(2, peer)) second += peer;
    }
    if (first == in_first && second == in_second) return seed;
  }
}

// Broken: a dropped update would be waited for, counted, or lost instead of carried along.
TEST(RunParties, ADroppedUpdateIsNotWaitedForAndComesWithTheNext) {
  SimulatedPeers peers(2, 2);
  SetParties(&peers, 1, 0.5f, SeedOfDrops("a", ""));
  peers.Begin({"a", "b"});
  EXPECT_EQ(peers.Train("a")->steps(), 10u) << "two rounds at once";
  EXPECT_EQ(peers.Train("b")->steps(), 5u);
  EXPECT_EQ(WhyOf(peers, "a"), "its update is dropped in round 1; it trains on");
  peers.Ready("a");  // it is quick
  peers.Ready("b");
  ASSERT_NE(peers.Plan("b"), nullptr);
  EXPECT_EQ(peers.Plan("b")->contributors_size(), 1);
  peers.Vote("b");
  ASSERT_EQ(peers.run->version(), 1u);
  for (const char* peer : {"a", "b"}) peers.Synced(peer, 1);
  EXPECT_EQ(peers.Train("a")->version(), 1u) << "it trains on";
  peers.Ready("a", /*age=*/1);
  peers.Ready("b");
  for (const char* peer : {"a", "b"}) peers.Vote(peer);
  ASSERT_EQ(peers.stored.headers.size(), 2u);
  EXPECT_EQ(ContributorsOf(peers.stored.headers[1]), (std::vector<std::string>{"a", "b"}));
}

// Broken: a round in which everybody is dropped would never end.
TEST(RunParties, WhereEverybodyIsDroppedNobodyIs) {
  SimulatedPeers peers(2, 2);
  SetParties(&peers, 1, 0.5f, SeedOfDrops("ab", ""));
  peers.Begin({"a", "b"});
  peers.Commit({"a", "b"});
  ASSERT_EQ(peers.stored.headers.size(), 1u);
  EXPECT_EQ(ContributorsOf(peers.stored.headers[0]), (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace atolld

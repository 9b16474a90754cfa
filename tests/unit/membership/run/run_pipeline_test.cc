// Rounds that overlap: who trains ahead, on which samples, and what becomes of it.
#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;

// Before anybody has joined.
void SetMode(SimulatedPeers* peers, const std::string& kind, uint32_t overlap = 0) {
  v1::ModeSpec* const mode = peers->stored.spec->mutable_mode();
  mode->set_kind(kind);
  mode->set_overlap_steps(overlap);
  peers->Restart();
}

// Samples that this holder has leased, as the store has it.
uint64_t Leased(const SimulatedPeers& peers, const std::string& holder) {
  uint64_t held = 0;
  for (const LeaseRecord& range : peers.stored.leases.ranges) {
    if (range.holder == holder) held += range.count;
  }
  return held;
}

// Since Clear.
size_t TrainsTold(SimulatedPeers* peers, const std::string& peer) {
  const auto& told = peers->inbox[peer];
  return static_cast<size_t>(std::count_if(
      told.begin(), told.end(), [](const auto& message) { return message.has_train(); }));
}

std::vector<uint64_t> FirstSamples(const v1::EntryHeader& header) {
  std::vector<uint64_t> firsts;
  for (const v1::Contributor& one : header.contributors()) {
    EXPECT_EQ(one.samples_size(), 1);
    EXPECT_EQ(one.samples(0).count(), 10u);
    firsts.push_back(one.samples(0).first());
  }
  return firsts;
}

void LoseWorkerOf(SimulatedPeers* peers, const std::string& peer) {
  v1::PeerMessage message;
  message.mutable_worker_lost()->set_reason("out of memory");
  peers->Say(peer, message);
}

// As a Ready, for the version before the current one: it crossed the commit.
void LateReady(SimulatedPeers* peers, const std::string& peer) {
  v1::PeerMessage message;
  v1::Ready* const ready = message.mutable_ready();
  ready->set_version(peers->run->version());
  ready->set_base_version(peers->run->version() - 1);
  ready->set_train_number(peers->trains[peer]);
  for (const v1::SampleRange& range : peers->samples[peer]) *ready->add_samples() = range;
  peers->Say(peer, message);
}

v1::Hello HelloWithBoth(const SimulatedPeers& peers, const std::string& peer,
                        const v1::EntryHeader* header) {
  v1::Hello hello = peers.Returning(peer, header);
  const auto& offered = peers.samples.at(peer);
  *hello.mutable_samples() = {offered.begin(), offered.end()};
  *hello.mutable_ahead_samples() = peers.ahead.at(peer).samples();
  hello.set_offers(true);
  return hello;
}

// A run of three in which c is late: a and b exchange, and their deadline has passed.
void ExchangeWithoutC(SimulatedPeers* peers) {
  peers->Begin({"a", "b", "c"});
  peers->Tick(absl::Seconds(10));
  peers->Ready("a");
  peers->Ready("b");
  peers->Tick(absl::Seconds(3.5));
  ASSERT_NE(peers->WholePlan("a"), nullptr);
  ASSERT_EQ(peers->WholePlan("a")->contributors_size(), 2);
}

// Would break: peers wait for the exchange as in mode "sync", or for a round trip to the
// coordinator; or an entry spends what it was not trained on, or the training ahead is begun twice,
// or its age is not told.
TEST(RunPipeline, WhoeverTrainsHasTheTrainingForTheNextEntryToo) {
  SimulatedPeers peers(2, 2);
  SetMode(&peers, "delayed");
  peers.Begin({"a", "b"});
  EXPECT_EQ(TrainsTold(&peers, "a"), 2u);
  const v1::Train ahead = *peers.Train("a");
  EXPECT_TRUE(ahead.ahead());
  EXPECT_EQ(ahead.version(), 2u);
  EXPECT_EQ(ahead.first_step(), 5u);
  EXPECT_EQ(ahead.samples(0).first(), 20u);
  EXPECT_NE(ahead.number(), peers.trains["a"]);
  EXPECT_EQ(Leased(peers, "a"), 10u);
  EXPECT_EQ(Leased(peers, AheadHolder("a")), 10u);
  peers.Clear();
  peers.Ready("a");
  EXPECT_EQ(peers.phase(), "training");
  peers.Ready("b");
  ASSERT_NE(peers.Plan("a"), nullptr);
  EXPECT_EQ(TrainsTold(&peers, "a"), 0u) << "it has it";

  peers.Vote("a");
  peers.Vote("b");
  ASSERT_EQ(peers.run->version(), 1u);
  EXPECT_THAT(FirstSamples(peers.stored.headers[0]), ElementsAre(0u, 10u));
  EXPECT_EQ(peers.stored.headers[0].base_version(), 0u);
  EXPECT_EQ(peers.trains["a"], ahead.number()) << "it goes on";
  EXPECT_EQ(peers.Train("a")->version(), 3u) << "with the commit";
  EXPECT_TRUE(peers.Train("a")->ahead());
  EXPECT_EQ(Leased(peers, "a"), 10u);
  EXPECT_EQ(Leased(peers, AheadHolder("a")), 10u);

  for (const char* peer : {"a", "b"}) peers.missed[peer] = 1;
  peers.Clear();
  peers.Ready("b", 1);
  peers.Ready("a", 0);  // an update that has missed an entry is at least one commit old
  EXPECT_EQ(peers.Plan("a"), nullptr);
  peers.Ready("a", 1);
  ASSERT_NE(peers.Plan("a"), nullptr);
  peers.Vote("a");
  peers.Vote("b");
  ASSERT_EQ(peers.run->version(), 2u);
  EXPECT_THAT(FirstSamples(peers.stored.headers[1]), ElementsAre(20u, 30u));
  EXPECT_EQ(peers.stored.headers[1].base_version(), 0u) << "the state before the entry before it";
}

// Would break: a run without a pipeline has one, or believes an update of an older state.
TEST(RunPipeline, WithoutOneNobodyTrainsAhead) {
  for (const char* kind : {"sync", "streaming"}) {
    SimulatedPeers peers(2, 2);
    SetMode(&peers, kind);
    peers.Begin({"a", "b"});
    peers.Ready("a");
    EXPECT_EQ(peers.Train("a")->version(), 1u) << kind;
    peers.Ready("b");
    peers.Vote("a");
    peers.Vote("b");
    ASSERT_EQ(peers.run->version(), 1u) << kind;
    ASSERT_EQ(peers.Train("a")->version(), 2u) << kind;
    EXPECT_FALSE(peers.Train("a")->ahead()) << kind;
    for (const char* peer : {"a", "b"}) peers.missed[peer] = 1;
    peers.Clear();
    for (const char* peer : {"a", "b"}) peers.Ready(peer, 1);
    EXPECT_EQ(peers.Plan("a"), nullptr) << kind;
  }
}

// Would break: work that no entry will take, or that keeps a peer which is to leave.
TEST(RunPipeline, NobodyTrainsForARoundThatWillNotBe) {
  SimulatedPeers last(1, 1, 2);
  SetMode(&last, "delayed");
  last.Begin({"a"});
  last.Ready("a");
  EXPECT_EQ(last.Train("a")->version(), 2u);
  last.Vote("a");
  last.missed["a"] = 1;
  last.Clear();
  last.Ready("a", 1);
  ASSERT_NE(last.Plan("a"), nullptr);
  EXPECT_EQ(TrainsTold(&last, "a"), 0u);

  for (const auto verb : {RunOrder::Verb::kPause, RunOrder::Verb::kDrain}) {
    SimulatedPeers peers(2, 2);
    SetMode(&peers, "delayed");
    peers.Begin({"a", "b"});
    peers.Clear();
    peers.Ready("a");
    peers.Ready("b");
    const bool pauses = verb == RunOrder::Verb::kPause;
    EXPECT_EQ(pauses ? peers.Order(verb) : peers.Order(verb, "a"), absl::OkStatus());
    peers.Vote("a");
    peers.Vote("b");
    ASSERT_EQ(peers.run->version(), 1u);
    EXPECT_EQ(TrainsTold(&peers, "a"), 0u) << pauses;
    EXPECT_EQ(TrainsTold(&peers, "b"), pauses ? 0u : 1u);
    if (!pauses) continue;
    EXPECT_EQ(peers.Order(RunOrder::Verb::kResume), absl::OkStatus());
    EXPECT_EQ(peers.Train("a")->version(), 3u);
  }
}

// Would break: samples of a peer that died with both are lost, or are trained on twice, since some
// of its chunks were averaged.
TEST(RunPipeline, OfWhoDiesInAnExchangeTheTrainingAheadIsFreeAtOnce) {
  SimulatedPeers peers(3, 2);
  SetMode(&peers, "delayed");
  peers.Begin({"a", "b", "c"});
  for (const char* peer : {"a", "b", "c"}) peers.Ready(peer);
  EXPECT_EQ(Leased(peers, AheadHolder("b")), 10u);
  peers.Die("b");
  EXPECT_EQ(Leased(peers, AheadHolder("b")), 0u);
  EXPECT_EQ(Leased(peers, "b"), 10u);
  EXPECT_EQ(Leased(peers, ""), 10u);
  peers.Vote("a");
  peers.Vote("c");
  ASSERT_THAT(ContributorsOf(peers.stored.headers.at(0)), ElementsAre("a", "c"));
  EXPECT_EQ(Leased(peers, "b"), 0u);
  EXPECT_EQ(Leased(peers, "a"), 10u);
  EXPECT_EQ(Leased(peers, "c"), 10u);
}

// Would break: a worker that dies while it trains ahead costs the update that stands.
TEST(RunPipeline, AWorkerThatDiesAheadTakesNothingOfTheUpdateThatStands) {
  SimulatedPeers peers(2, 2);
  SetMode(&peers, "delayed");
  peers.Begin({"a", "b"});
  peers.Ready("a");
  LoseWorkerOf(&peers, "a");
  EXPECT_EQ(Leased(peers, "a"), 10u);
  EXPECT_EQ(Leased(peers, AheadHolder("a")), 0u);
  peers.Clear();
  peers.Ready("b");
  ASSERT_NE(peers.WholePlan("a"), nullptr);
  EXPECT_EQ(peers.WholePlan("a")->contributors_size(), 2);
  EXPECT_EQ(TrainsTold(&peers, "a"), 0u);
  peers.WorkerReady("a");  // in the middle of the exchange
  ASSERT_EQ(TrainsTold(&peers, "a"), 1u);
  EXPECT_TRUE(peers.Train("a")->ahead());
  EXPECT_EQ(peers.Train("a")->samples(0).first(), 20u) << "those that came back";
  EXPECT_EQ(peers.ahead.at("b").samples(0).first(), 30u);
  peers.Vote("a");
  peers.Vote("b");
  EXPECT_THAT(ContributorsOf(peers.stored.headers.at(0)), ElementsAre("a", "b"));
}

// Would break: an exchange that comes to nothing costs the training beside it, or begins it again.
TEST(RunPipeline, WhatIsTrainedAheadOutlivesAnExchangeThatIsGivenUp) {
  SimulatedPeers peers(2, 2);
  SetMode(&peers, "delayed");
  peers.Begin({"a", "b"});
  for (int attempt = 1; attempt <= 3; ++attempt) {
    peers.Ready("a");
    peers.Ready("b");
    ASSERT_NE(peers.Plan("a"), nullptr) << attempt;
    const uint64_t number = peers.ahead.at("a").number();
    peers.Clear();
    peers.Die("b");
    ASSERT_NE(peers.Last("a", &v1::CoordinatorMessage::has_welcome), nullptr) << attempt;
    EXPECT_EQ(Leased(peers, AheadHolder("a")), 10u);
    const v1::Hello hello = peers.Returning("b", nullptr);
    peers.Join("b", &hello);
    peers.WorkerReady("b");
    EXPECT_EQ(TrainsTold(&peers, "b"), 2u) << "both anew";
    EXPECT_NE(peers.trains["b"], peers.ahead.at("b").number());
    EXPECT_EQ(TrainsTold(&peers, "a"), 0u);
    EXPECT_EQ(peers.ahead.at("a").number(), number);
  }
  peers.Ready("a");
  peers.Ready("b");
  peers.Vote("a");
  peers.Vote("b");
  EXPECT_EQ(peers.run->version(), 1u);
  EXPECT_EQ(TrainsTold(&peers, "a"), 1u);
  EXPECT_EQ(peers.Train("a")->version(), 3u);
  EXPECT_EQ(Leased(peers, "a"), 10u);
}

// Would break: a straggler's update is lost in mode "delayed", or it holds more than one training.
TEST(RunPipeline, AnUpdateThatIsLeftOutStandsOnBesideTheTrainingAhead) {
  SimulatedPeers peers(3, 2);
  SetMode(&peers, "delayed");
  ExchangeWithoutC(&peers);
  peers.Ready("c");  // too late for this plan
  EXPECT_TRUE(peers.Train("c")->ahead());
  peers.Vote("a");
  peers.Vote("b");
  ASSERT_THAT(ContributorsOf(peers.stored.headers.at(0)), ElementsAre("a", "b"));
  EXPECT_EQ(Leased(peers, "c"), 10u);
  EXPECT_EQ(Leased(peers, AheadHolder("c")), 10u);
  peers.Synced("c", 1);
  peers.Clear();
  peers.Ready("c", 1);
  EXPECT_EQ(TrainsTold(&peers, "c"), 0u) << "it trains ahead already";
  for (const char* peer : {"a", "b"}) peers.missed[peer] = 1;
  peers.Ready("a", 1);
  peers.Ready("b", 1);
  ASSERT_EQ(peers.WholePlan("c")->version(), 2u);
  for (const char* peer : {"a", "b", "c"}) peers.Vote(peer);
  ASSERT_EQ(peers.run->version(), 2u);
  EXPECT_EQ(FirstSamples(peers.stored.headers.at(1)).back(), 20u) << "of its first training";
  EXPECT_EQ(Leased(peers, "c"), 10u);
  EXPECT_EQ(Leased(peers, AheadHolder("c")), 10u);
  EXPECT_EQ(peers.Train("c")->version(), 4u);
}

// Would break: an update of a passed fragment is waited for, or its samples are never trained on.
TEST(RunPipeline, InModeStreamingAnUpdateThatIsLeftOutIsDropped) {
  SimulatedPeers peers(3, 2);
  SetMode(&peers, "streaming", 2);
  ExchangeWithoutC(&peers);
  peers.Ready("c");
  const uint64_t number = peers.ahead.at("c").number();
  peers.Vote("a");
  peers.Vote("b");
  ASSERT_THAT(ContributorsOf(peers.stored.headers.at(0)), ElementsAre("a", "b"));
  EXPECT_EQ(Leased(peers, "c"), 10u) << "of the training ahead";
  EXPECT_EQ(Leased(peers, AheadHolder("c")), 0u) << "it has not heard of the commit";
  EXPECT_EQ(peers.ahead.at("a").samples(0).first(), 20u) << "of the update that was dropped";
  peers.TakeAhead("c");
  peers.Clear();
  for (const char* peer : {"a", "b", "c"}) peers.Ready(peer);
  ASSERT_NE(peers.WholePlan("c"), nullptr);
  EXPECT_EQ(peers.trains["c"], number);
  EXPECT_EQ(peers.WholePlan("c")->contributors_size(), 3);
  for (const char* peer : {"a", "b", "c"}) peers.Vote(peer);
  EXPECT_EQ(peers.run->version(), 2u);
  EXPECT_EQ(peers.stored.headers.at(1).base_version(), 1u) << "nothing was missed";
}

// Would break: a peer whose update came a moment after the commit is waited for until it dies: it
// has dropped that update, and nobody tells it to train.
TEST(RunPipeline, AnUpdateThatCrossesTheCommitFreesItsPeerWhereItIsDropped) {
  for (const char* kind : {"streaming", "delayed"}) {
    SimulatedPeers peers(3, 2);
    SetMode(&peers, kind, 2);
    ExchangeWithoutC(&peers);
    peers.Vote("a");
    peers.Vote("b");
    ASSERT_EQ(peers.run->version(), 1u) << kind;
    peers.Synced("c", 1);
    const uint64_t ahead = peers.ahead.at("c").number();
    LateReady(&peers, "c");
    const bool dropped = std::string(kind) == "streaming";
    EXPECT_EQ(peers.Train("c")->version(), dropped ? 3u : 2u) << kind;
    EXPECT_EQ(peers.trains["c"] == ahead, dropped) << kind;
    EXPECT_EQ(Leased(peers, "c"), 10u) << kind;
    EXPECT_EQ(Leased(peers, AheadHolder("c")), 10u) << kind;
  }
}

// Would break: a restart of the coordinator costs the training ahead, or gives its samples to
// others as well.
TEST(RunPipeline, ARestartedCoordinatorKnowsBoth) {
  SimulatedPeers peers(2, 2);
  SetMode(&peers, "delayed");
  peers.Begin({"a", "b"});
  peers.Ready("a");
  const v1::Hello both = HelloWithBoth(peers, "a", nullptr);
  v1::Hello trains = peers.Returning("b", nullptr);
  *trains.mutable_samples() = {peers.samples.at("b").begin(), peers.samples.at("b").end()};
  peers.Restart();
  EXPECT_EQ(Leased(peers, AheadHolder("a")), 10u) << "durable";
  peers.Join("a", &both);
  peers.Join("b", &trains);
  for (const char* peer : {"a", "b"}) peers.WorkerReady(peer);
  peers.Ready("a");
  peers.Ready("b");
  ASSERT_NE(peers.Plan("a"), nullptr);
  EXPECT_EQ(TrainsTold(&peers, "a"), 0u);
  EXPECT_EQ(TrainsTold(&peers, "b"), 1u);
  peers.Vote("a");
  peers.Vote("b");
  EXPECT_THAT(FirstSamples(peers.stored.headers.at(0)), ElementsAre(0u, 10u));
  EXPECT_EQ(Leased(peers, "a"), 10u);
  EXPECT_EQ(peers.stored.leases.next, 60u);
}

// Would break: a peer that missed the commit of its own update loses what it has trained since.
TEST(RunPipeline, WhoMissedTheCommitOfItsUpdateGoesOnWithWhatItTrainsAhead) {
  SimulatedPeers peers(2, 2);
  SetMode(&peers, "delayed");
  peers.Begin({"a", "b"});
  peers.Ready("a");
  peers.Ready("b");
  const v1::Hello before = HelloWithBoth(peers, "a", nullptr);  // of version 0
  peers.Vote("a");
  peers.Break("a");
  peers.Vote("b");
  ASSERT_EQ(peers.run->version(), 1u);
  peers.Clear();
  peers.Join("a", &before);
  peers.Synced("a", 1);
  EXPECT_EQ(TrainsTold(&peers, "a"), 1u) << "it goes on";
  EXPECT_EQ(peers.Train("a")->version(), 3u);
  EXPECT_EQ(Leased(peers, "a"), 10u);
  for (const char* peer : {"a", "b"}) peers.missed[peer] = 1;
  peers.Ready("a", 1);
  peers.Ready("b", 1);
  ASSERT_NE(peers.Plan("a"), nullptr);
  peers.Vote("a");
  peers.Vote("b");
  EXPECT_THAT(FirstSamples(peers.stored.headers.at(1)), ElementsAre(20u, 30u));
}

// Would break: a contributor that has lost its update, and says so, is waited for; or samples of
// chunks that may have been averaged are trained on by others.
TEST(RunPipeline, WhoLostTheUpdateThatIsExchangedIsLostToTheExchange) {
  SimulatedPeers peers(3, 2);
  SetMode(&peers, "delayed");
  peers.Begin({"a", "b", "c"});
  for (const char* peer : {"a", "b", "c"}) peers.Ready(peer);
  v1::Hello hello = peers.Returning("b", nullptr);
  *hello.mutable_samples() = peers.ahead.at("b").samples();  // all that it has
  peers.Join("b", &hello);
  EXPECT_THAT(peers.WholePlan("a")->lost(), ElementsAre("b"));
  EXPECT_EQ(Leased(peers, "b"), 10u);
  EXPECT_EQ(Leased(peers, AheadHolder("b")), 0u);
  peers.Vote("a");
  peers.Vote("c");
  EXPECT_THAT(ContributorsOf(peers.stored.headers.at(0)), ElementsAre("a", "c"));
  EXPECT_EQ(Leased(peers, "b"), 0u);
}

// Would break: with private data, of which nothing is leased, an update would count twice or the
// training ahead be forgotten.
TEST(RunPipeline, WithPrivateDataTheHelloSaysThatItTrainsAhead) {
  SimulatedPeers peers(2, 2);
  peers.stored.spec->mutable_data()->set_private_(true);
  SetMode(&peers, "delayed");
  peers.Begin({"a", "b"});
  peers.Ready("a");
  EXPECT_TRUE(peers.Train("a")->ahead());
  EXPECT_EQ(peers.Train("a")->samples_size(), 0);
  peers.Ready("b");
  v1::Hello hello = peers.Returning("a", nullptr);
  hello.set_training(true);
  hello.set_training_ahead(true);
  hello.set_offers(true);
  peers.Vote("a");
  peers.Break("a");
  peers.Vote("b");
  ASSERT_EQ(peers.run->version(), 1u);
  peers.Clear();
  peers.Join("a", &hello);  // it has not heard of the commit
  peers.Synced("a", 1);
  EXPECT_EQ(TrainsTold(&peers, "a"), 1u);
  EXPECT_EQ(peers.Train("a")->version(), 3u);
  for (const char* peer : {"a", "b"}) peers.missed[peer] = 1;
  peers.Ready("a", 1);
  peers.Ready("b", 1);
  EXPECT_NE(peers.Plan("a"), nullptr);
}

}  // namespace
}  // namespace atolld

// Rounds: training, exchange, commit, and what happens when peers go.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Would break: the run's main path.
TEST(RunRounds, AllTrainExchangeAndCommit) {
  SimulatedPeers peers(3, 2);
  peers.Begin({"a", "b", "c"});
  EXPECT_EQ(peers.phase(), "training");
  ASSERT_NE(peers.Train("a"), nullptr);
  EXPECT_EQ(peers.Train("a")->first_step(), 0u);
  EXPECT_EQ(peers.Train("a")->steps(), 5u);
  EXPECT_EQ(peers.Train("c")->samples(0).first(), 20u);
  EXPECT_EQ(peers.Train("c")->samples(0).count(), 10u);
  for (const char* peer : {"a", "b", "c"}) peers.Ready(peer);
  EXPECT_EQ(peers.phase(), "exchanging");
  ASSERT_NE(peers.Plan("b"), nullptr);
  EXPECT_EQ(peers.Plan("b")->shards_size(), 3);
  EXPECT_EQ(peers.Plan("b")->contributors(0).weight_bits(), 0x42c80000u);  // 100.0f
  for (const char* peer : {"a", "b"}) peers.Vote(peer);
  EXPECT_EQ(peers.run->version(), 0u);
  peers.Vote("c");
  EXPECT_EQ(peers.run->version(), 1u);
  const v1::EntryHeader& header = peers.Committed("a")->header();
  EXPECT_THAT(ContributorsOf(header), ElementsAre("a", "b", "c"));
  EXPECT_EQ(header.SerializeAsString(), peers.stored.headers[0].SerializeAsString());
  EXPECT_EQ(header.previous_state_digest().substr(0, 7), "state 0");
  // The next Train follows without waiting for Synced, on fresh samples; the old ones are spent.
  EXPECT_EQ(peers.Train("a")->version(), 2u);
  EXPECT_EQ(peers.Train("a")->first_step(), 5u);
  EXPECT_EQ(peers.Train("a")->samples(0).first(), 30u);
  EXPECT_EQ(peers.stored.leases.next, 60u);
  EXPECT_EQ(peers.stored.rounds[0].tokens(), 300u);
  EXPECT_EQ(peers.stored.rounds[0].train_loss(), 2.5);
  EXPECT_EQ(peers.run->Status(peers.now).peers(0).rounds_contributed(), 1u);
}

// Would break: the run begins without the peers that were announced, or says nothing while it
// waits.
TEST(RunRounds, TheFirstRoundWaitsForAllAndSaysSo) {
  SimulatedPeers peers(3, 2);
  peers.Begin({"a", "b"});
  EXPECT_EQ(peers.phase(), "waiting");
  EXPECT_EQ(peers.reason(), "2 of 3 peers are here; waiting for one more");
  EXPECT_EQ(peers.Train("a"), nullptr);
  EXPECT_FALSE(peers.stored.started);
  peers.JoinAndWork("c");
  EXPECT_EQ(peers.Train("a"), nullptr);
  peers.Synced("c", 0);
  EXPECT_NE(peers.Train("a"), nullptr);
  EXPECT_TRUE(peers.stored.started);
}

// Would break: a straggler that holds up the others, or whose work is lost.
TEST(RunRounds, AStragglerContributesLaterWithLessWeight) {
  SimulatedPeers peers(3, 2);
  peers.Begin({"a", "b", "c"});
  const auto lease = peers.samples.at("c");
  peers.Tick(absl::Seconds(10));
  peers.Ready("a");
  peers.Ready("b");
  EXPECT_EQ(peers.Plan("a"), nullptr);
  peers.Tick(absl::Seconds(3.4));
  EXPECT_EQ(peers.Plan("a"), nullptr);
  peers.Tick(absl::Seconds(0.1));
  ASSERT_NE(peers.Plan("a"), nullptr);
  peers.Ready("c");  // too late for this plan
  peers.Vote("a");
  peers.Vote("b");
  EXPECT_THAT(ContributorsOf(peers.Committed("c")->header()), ElementsAre("a", "b"));
  EXPECT_EQ(peers.Train("c")->version(), 1u);  // nothing new: it goes on
  peers.Synced("c", 1);
  EXPECT_EQ(peers.Train("c")->version(), 1u);
  EXPECT_EQ(peers.samples.at("c")[0].first(), lease[0].first());
  peers.Ready("c", 1);
  peers.Ready("a");
  peers.Ready("b");
  ASSERT_EQ(peers.Plan("c")->version(), 2u);
  EXPECT_EQ(peers.Plan("c")->contributors(2).weight_bits(), 0x42a00000u);  // 80.0f
}

// Would break: a Ready that was on its way when the coordinator restarted costs a whole round of
// training.
TEST(RunRounds, AReadyOfAnOlderEpochCountsForTheCurrentVersionAlone) {
  SimulatedPeers peers(1, 1);
  peers.Begin({"a"});
  v1::PeerMessage stale;
  v1::Ready* ready = stale.mutable_ready();
  ready->set_version(2);  // not the current one
  ready->set_base_version(1);
  peers.Say("a", stale);
  EXPECT_EQ(peers.Plan("a"), nullptr);
  peers.stored.epoch = 0;  // what Ready() below will name
  peers.Ready("a");
  EXPECT_NE(peers.Plan("a"), nullptr);
}

// Would break: a death in the exchange stops the round (it must commit by those that remain).
TEST(RunExchange, ADeathIsRevisedAndTheOthersCommit) {
  SimulatedPeers peers(3, 2);
  peers.Begin({"a", "b", "c"});
  for (const char* peer : {"a", "b", "c"}) peers.Ready(peer);
  peers.Die("b");
  ASSERT_EQ(peers.Plan("a")->revision(), 2u);
  EXPECT_THAT(peers.Plan("a")->lost(), ElementsAre("b"));
  EXPECT_TRUE(peers.Said("round 1: the shards of b go to a"));
  peers.Vote("a");
  peers.Vote("c");
  EXPECT_EQ(peers.run->version(), 1u);
  EXPECT_THAT(ContributorsOf(peers.stored.headers[0]), ElementsAre("a", "c"));
  EXPECT_EQ(peers.stored.rounds[0].revisions(), 2u);
  // Its samples were not used, so somebody else gets them.
  EXPECT_EQ(peers.Train("a")->samples(0).first(), 10u);
}

// Would break: chunks of a dead peer that were averaged are trained on a second time.
TEST(RunExchange, SamplesOfADeadContributorWhoseChunksCountAreSpent) {
  SimulatedPeers peers(3, 2);
  peers.Begin({"a", "b", "c"});
  for (const char* peer : {"a", "b", "c"}) peers.Ready(peer);
  peers.Vote("a");
  peers.Vote("c");
  peers.Die("b");  // all others have voted, with its chunks
  EXPECT_EQ(peers.run->version(), 1u);
  EXPECT_THAT(ContributorsOf(peers.stored.headers[0]), ElementsAre("a", "b", "c"));
  EXPECT_EQ(peers.Train("a")->samples(0).first(), 30u);
}

// Would break: fewer than the quorum commit, or the work of those that stay is lost.
TEST(RunExchange, WithoutAQuorumAllTryAgainUnderANewEpoch) {
  SimulatedPeers peers(2, 2);
  peers.Begin({"a", "b"});
  const auto lease = peers.samples.at("a");
  for (const char* peer : {"a", "b"}) peers.Ready(peer);
  peers.Clear();
  peers.Die("b");
  EXPECT_EQ(peers.phase(), "waiting");
  EXPECT_EQ(peers.reason(), "1 of 2 peers is here; waiting for one more");
  EXPECT_EQ(peers.stored.epoch, 2u);
  ASSERT_NE(peers.Last("a", &v1::CoordinatorMessage::has_welcome), nullptr);
  EXPECT_EQ(peers.Last("a", &v1::CoordinatorMessage::has_welcome)->welcome().epoch(), 2u);
  peers.Ready("a");  // as after every Welcome
  EXPECT_EQ(peers.Plan("a"), nullptr);
  v1::Hello back = peers.MakeHello("b");
  back.set_pid(9);
  back.set_run_id("r1");
  back.set_has_state(true);
  back.set_header_digest(peers.settings.genesis_digest(*peers.stored.genesis));
  peers.Join("b", &back);
  peers.WorkerReady("b");
  ASSERT_NE(peers.Train("b"), nullptr);  // its contribution is gone: it trains anew
  peers.Ready("b");
  ASSERT_NE(peers.Plan("a"), nullptr);
  EXPECT_EQ(peers.Plan("a")->epoch(), 2u);
  EXPECT_EQ(peers.Plan("a")->revision(), 1u);
  peers.Vote("a");
  peers.Vote("b");
  EXPECT_EQ(peers.run->version(), 1u);
  EXPECT_EQ(peers.samples.at("a")[0].first(), 20u);
  EXPECT_EQ(lease[0].first(), 0u);
}

// Would break: a peer whose stream broke for a second in the exchange never votes.
TEST(RunExchange, AContributorThatResumesIsToldThePlanAgain) {
  SimulatedPeers peers(2, 2);
  peers.Begin({"a", "b"});
  for (const char* peer : {"a", "b"}) peers.Ready(peer);
  peers.Break("b");
  peers.inbox["b"].clear();
  v1::Hello hello = peers.MakeHello("b");
  for (const auto& range : peers.samples.at("b")) *hello.add_samples() = range;
  peers.Join("b", &hello);
  ASSERT_NE(peers.Plan("b"), nullptr);
  EXPECT_EQ(peers.Plan("b")->revision(), 1u);
  peers.Ready("b");  // said again: it is in the plan already
  peers.Vote("a");
  peers.Vote("b");
  EXPECT_EQ(peers.run->version(), 1u);
}

// Would break: an exchange with a hung contributor never ends.
TEST(RunExchange, AtTheDeadlineTheQuorumCommits) {
  SimulatedPeers peers(3, 2);
  peers.Begin({"a", "b", "c"});
  for (const char* peer : {"a", "b", "c"}) peers.Ready(peer);
  peers.Vote("a");
  peers.Vote("c");
  const absl::Duration deadline = absl::Milliseconds(peers.Plan("a")->deadline_milliseconds());
  peers.Tick(deadline - absl::Milliseconds(1));
  EXPECT_EQ(peers.run->version(), 0u);
  EXPECT_EQ(peers.run->NextWake(peers.now), peers.now + absl::Milliseconds(1));
  peers.Tick(absl::Milliseconds(1));
  EXPECT_EQ(peers.run->version(), 1u);
}

bool AskedForVersionZero(const SimulatedPeers& peers, const std::string& peer) {
  return peers.Last(peer, &v1::CoordinatorMessage::has_make_initial_state) != nullptr;
}

// Would break: version 0 is made where nobody can fetch it, and the run never starts.
TEST(RunRounds, VersionZeroIsMadeByAPeerThatOthersCanDial) {
  SimulatedPeers peers(2, 2);
  peers.JoinDialingOut("a");
  EXPECT_EQ(peers.phase(), "waiting");
  EXPECT_EQ(peers.reason(),
            "no reachable peer to make version 0: a has no address that others can dial");
  EXPECT_FALSE(AskedForVersionZero(peers, "a"));
  peers.JoinAndWork("b");
  EXPECT_FALSE(AskedForVersionZero(peers, "a"));
  EXPECT_TRUE(AskedForVersionZero(peers, "b"));
  EXPECT_EQ(peers.phase(), "initializing");
}

// Would break: a branch whose first trainer lacks the file never begins, or asks it without end.
TEST(RunRounds, VersionZeroOfABranchIsMadeByAPeerThatHasItsFile) {
  SimulatedPeers peers(2, 2);
  peers.JoinAndWork("a");
  ASSERT_TRUE(AskedForVersionZero(peers, "a"));
  v1::PeerMessage cannot;
  cannot.mutable_initial_state();
  peers.Clear();
  peers.Say("a", cannot);
  EXPECT_FALSE(AskedForVersionZero(peers, "a"));
  EXPECT_THAT(peers.reason(), HasSubstr("no peer that is here has the file"));
  peers.Tick(absl::Minutes(1));
  EXPECT_FALSE(AskedForVersionZero(peers, "a"));
  peers.JoinAndWork("b");
  EXPECT_TRUE(AskedForVersionZero(peers, "b"));
  peers.InitialState("b");
  EXPECT_TRUE(peers.run->Status(peers.now).parameters() > 0);
}

// Would break: a branch trains again on what its parent has spent of their corpus.
TEST(RunRounds, ABranchGrantsSamplesBehindItsParents) {
  SimulatedPeers peers(1, 1);
  peers.JoinAndWork("a");
  v1::PeerMessage message;
  v1::Genesis* genesis = message.mutable_initial_state()->mutable_genesis();
  peers.InitialState("a");
  ASSERT_TRUE(peers.stored.genesis.has_value());
  StoredRun branch = peers.stored;
  *genesis = *branch.genesis;
  branch.genesis.reset();
  branch.started = false;
  branch.leases = LeaseRecords();
  branch.spec->mutable_data()->clear_digest();
  v1::Lineage* parent = branch.spec->mutable_parent();
  parent->set_run_id("parent");
  *genesis->mutable_spec()->mutable_parent() = *parent;
  genesis->mutable_spec()->mutable_parent()->set_next_sample(7000);
  peers.Restart(branch);
  peers.JoinAndWork("a");
  peers.Say("a", message);
  peers.Evaluate("a");
  ASSERT_NE(peers.Train("a"), nullptr);
  EXPECT_EQ(peers.Train("a")->samples(0).first(), 7000u);
  EXPECT_EQ(peers.stored.genesis->spec().parent().next_sample(), 7000u);
  EXPECT_EQ(peers.stored.leases.next, 7000 + peers.Train("a")->samples(0).count());
}

// Would break: one who trains alone behind NAT cannot.
TEST(RunRounds, ARunOfOneNeedsNobodyWhoCanBeDialled) {
  SimulatedPeers peers(1, 1);
  peers.JoinDialingOut("a");
  EXPECT_TRUE(AskedForVersionZero(peers, "a"));
  peers.InitialState("a");
  peers.Evaluate("a");
  peers.Ready("a");
  peers.Vote("a");
  EXPECT_EQ(peers.run->version(), 1u);
}

// Would break: a peer that can be dialled loses its worker for a moment, and finds the run gone on
// without it, with nobody to fetch from.
TEST(RunRounds, WhoDialsOutOnlyDoesNotLeaveBehindWhoCanBeDialled) {
  SimulatedPeers peers(1, 1);
  peers.Begin({"b"});
  peers.JoinDialingOut("a");
  peers.Synced("a", 0);
  v1::PeerMessage lost;
  lost.mutable_worker_lost()->set_reason("killed");
  peers.Say("b", lost);
  peers.Ready("a");
  peers.Tick(absl::Minutes(1));
  EXPECT_EQ(peers.run->version(), 0u);
  EXPECT_THAT(peers.reason(), HasSubstr("no reachable reducer"));
  peers.WorkerReady("b");
  peers.Ready("b");
  ASSERT_NE(peers.Plan("a"), nullptr);
  EXPECT_EQ(peers.Plan("a")->shards_size(), 1);
  EXPECT_EQ(peers.Plan("a")->shards(0).reducer(), "b");
}

// Would break: each round would wait for a peer whose owner needs the machine, or the samples that
// it was leased would be trained by nobody.
TEST(RunRounds, NobodyWaitsForAPeerThatItsOwnerHoldsBack) {
  SimulatedPeers peers(3, 2);
  peers.Begin({"a", "b", "c"});
  peers.Tick(absl::Seconds(10));
  peers.Commit({"a", "b", "c"});  // how long it takes is known now
  const v1::SampleRange given = peers.Train("c")->samples(0);
  v1::PeerMessage lost;
  lost.mutable_worker_lost()->set_reason("paused by its owner");
  lost.mutable_worker_lost()->set_by_owner(true);
  peers.Say("c", lost);
  EXPECT_TRUE(peers.run->Status(peers.now).phase() == "training");
  peers.Clear();
  peers.Commit({"a", "b"});  // at once, without a deadline
  EXPECT_EQ(peers.run->version(), 2u);
  bool trained = false;
  for (const char* peer : {"a", "b"}) {
    for (const v1::SampleRange& range : peers.Train(peer)->samples()) {
      trained = trained || range.first() == given.first();
    }
  }
  EXPECT_TRUE(trained) << "sample " << given.first();
  peers.WorkerReady("c");
  EXPECT_EQ(peers.Train("c"), nullptr) << "it holds an older version";
  peers.Synced("c", 2);
  ASSERT_NE(peers.Train("c"), nullptr);
}

// Would break: a run of peers behind NAT hangs without a word, or stays so when it could go on.
TEST(RunExchange, WithoutAReachableReducerItSaysSoUntilOneIsThere) {
  SimulatedPeers peers(2, 2);
  for (const char* peer : {"a", "b"}) peers.JoinDialingOut(peer);
  peers.InitialState("a");
  peers.Synced("b", 0);
  for (const char* peer : {"a", "b"}) peers.Evaluate(peer);
  for (const char* peer : {"a", "b"}) peers.Ready(peer);
  EXPECT_EQ(peers.phase(), "waiting");
  EXPECT_THAT(peers.reason(), HasSubstr("no reachable reducer"));
  peers.Clear();
  peers.Tick(absl::Minutes(1));
  EXPECT_TRUE(peers.events.empty()) << peers.events[0];
  peers.JoinAndWork("c");
  peers.Synced("c", 0);
  ASSERT_NE(peers.Train("c"), nullptr);
  peers.Ready("c");
  ASSERT_NE(peers.Plan("a"), nullptr);
  EXPECT_EQ(peers.WholePlan("a")->contributors_size(), 3);
  for (const v1::Shard& shard : peers.Plan("a")->shards()) EXPECT_EQ(shard.reducer(), "c");
}

// Would break: where nobody reaches the only reducer, attempt after attempt fails without a pause,
// and the run never says what it lacks.
TEST(RunExchange, AReducerThatNobodyReachesIsWaitedForByName) {
  SimulatedPeers peers(2, 2);
  peers.JoinDialingOut("a");
  peers.JoinAndWork("b");
  peers.InitialState("b");
  peers.Synced("a", 0);
  for (const char* peer : {"a", "b"}) peers.Evaluate(peer);
  for (const char* peer : {"a", "b"}) peers.Ready(peer);
  ASSERT_NE(peers.Plan("a"), nullptr);
  const absl::Duration deadline = absl::Milliseconds(peers.Plan("a")->deadline_milliseconds());
  v1::PeerMessage message;
  v1::ReducerUnreachable* report = message.mutable_reducer_unreachable();
  report->set_version(1);
  report->set_epoch(1);
  report->set_revision(1);
  report->set_reducer("b");
  peers.Say("a", message);
  peers.Tick(deadline);
  for (const char* peer : {"a", "b"}) peers.Ready(peer);  // as their Welcome asks them to
  EXPECT_EQ(peers.phase(), "waiting");
  EXPECT_EQ(peers.reason(),
            "no reachable reducer: a has no address that others can dial; b was dialled without "
            "success and will be tried again");
  peers.Clear();
  peers.Tick(peers.settings.failure_timeout);
  ASSERT_NE(peers.Plan("a"), nullptr);
  EXPECT_EQ(peers.Plan("a")->shards(0).reducer(), "b");
}

// Would break: a reducer that cannot be reached slows every round down.
TEST(RunExchange, AnUnreachableReducerIsSparedForSomeRounds) {
  SimulatedPeers peers(2, 2);
  peers.Begin({"a", "b"});
  for (const char* peer : {"a", "b"}) peers.Ready(peer);
  v1::PeerMessage message;
  v1::ReducerUnreachable* report = message.mutable_reducer_unreachable();
  report->set_version(1);
  report->set_epoch(1);
  report->set_revision(1);
  report->set_reducer("b");
  peers.probes.clear();
  peers.Say("a", message);
  EXPECT_THAT(peers.probes, ElementsAre("b"));
  peers.Probed("b", ProbeResult::kSilent);  // the coordinator finds the same
  ASSERT_EQ(peers.Plan("a")->revision(), 2u);
  peers.Vote("a");
  peers.Vote("b");
  for (const char* peer : {"a", "b"}) peers.Ready(peer);
  ASSERT_EQ(peers.Plan("a")->version(), 2u);
  ASSERT_EQ(peers.Plan("a")->shards_size(), 1);
  EXPECT_EQ(peers.Plan("a")->shards(0).reducer(), "a");
}

// Would break: what an attempt has shown is forgotten if its header was not valid, and the next one
// goes the same way.
TEST(RunExchange, AnAttemptWhoseHeaderIsNotValidIsOneThatWasGivenUp) {
  SimulatedPeers peers(2, 2);
  bool valid = true;
  peers.settings.check_header = [&valid](const v1::Genesis&, uint64_t, const std::string&,
                                         const v1::EntryHeader&) {
    return valid ? absl::OkStatus() : absl::InvalidArgumentError("not valid");
  };
  peers.Restart();
  peers.Begin({"a", "b"});
  for (const char* peer : {"a", "b"}) peers.Ready(peer);
  v1::PeerMessage message;
  v1::ReducerUnreachable* report = message.mutable_reducer_unreachable();
  report->set_version(1);
  report->set_epoch(peers.stored.epoch);
  report->set_revision(1);
  report->set_reducer("b");
  peers.Say("a", message);
  peers.Probed("b", ProbeResult::kSilent);
  valid = false;
  for (const char* peer : {"a", "b"}) peers.Vote(peer);
  EXPECT_TRUE(peers.Said("the voters agreed on an entry that is not valid"));
  EXPECT_EQ(peers.run->version(), 0u);
  for (const char* peer : {"a", "b"}) peers.Ready(peer);
  ASSERT_EQ(peers.Plan("a")->revision(), 1u);
  ASSERT_EQ(peers.Plan("a")->shards_size(), 1) << "b is spared";
  EXPECT_EQ(peers.Plan("a")->shards(0).reducer(), "a");
}

// Would break: a worker's crash costs its peer the round, or its samples.
TEST(RunRounds, AWorkerThatComesBackTrainsInTheSameRound) {
  SimulatedPeers peers(2, 2);
  peers.Begin({"a", "b"});
  v1::PeerMessage lost;
  lost.mutable_worker_lost()->set_reason("signal 9");
  peers.Say("b", lost);
  EXPECT_TRUE(peers.Said("its worker died: signal 9"));
  peers.Clear();
  peers.WorkerReady("b");
  ASSERT_NE(peers.Train("b"), nullptr);
  EXPECT_EQ(peers.Train("b")->samples(0).first(), 10u);  // its own again
  peers.Commit({"a", "b"});
}

// Would break: two peers train on the same samples and both count.
TEST(RunRounds, SamplesThatWentToSomebodyElseAreNotCountedTwice) {
  SimulatedPeers peers(2, 1);
  peers.Begin({"a", "b"});
  const auto lease = peers.samples.at("b");
  peers.Die("b");
  peers.JoinAndWork("c");
  peers.Synced("c", 0);
  ASSERT_EQ(peers.samples.at("c")[0].first(), lease[0].first());
  v1::Hello hello = peers.MakeHello("b");
  hello.set_run_id("r1");
  hello.set_has_state(true);
  hello.set_header_digest(peers.settings.genesis_digest(*peers.stored.genesis));
  for (const auto& range : lease) *hello.add_samples() = range;
  peers.Clear();
  peers.Join("b", &hello);
  peers.WorkerReady("b");
  ASSERT_NE(peers.Train("b"), nullptr);
  EXPECT_EQ(peers.Train("b")->samples(0).first(), 20u);
}

// Would break: a peer that leaves is waited for, or its leaving looks like a death.
TEST(RunMembers, ALeaverIsNotWaitedFor) {
  SimulatedPeers peers(3, 2);
  peers.Begin({"a", "b", "c"});
  peers.Ready("a");
  peers.Ready("b");
  peers.Leave("c");
  EXPECT_EQ(peers.StateOf("c"), "left");
  EXPECT_TRUE(peers.ended.at(peers.sessions.at("c")).ok());
  EXPECT_NE(peers.Plan("a"), nullptr);
}

// Would break: of n updates each would store the leases of all n peers.
TEST(RunLeases, AnUpdateThatNamesItsOwnSamplesStoresNothing) {
  SimulatedPeers peers(3, 2);
  peers.Begin({"a", "b", "c"});
  const int stored = peers.leases_stored;
  for (const char* peer : {"a", "b", "c"}) {
    ASSERT_FALSE(peers.samples[peer].empty());
    peers.Ready(peer);
  }
  EXPECT_NE(peers.Plan("a"), nullptr);
  EXPECT_EQ(peers.leases_stored, stored);
  for (const char* peer : {"a", "b", "c"}) peers.Vote(peer);
  EXPECT_EQ(peers.run->version(), 1u);
  EXPECT_EQ(peers.leases_stored, stored + 1) << "by the commit";
}

// Would break: a worker that steps a copy of the parameters trains for days, and nobody is told
// that nothing moves.
TEST(RunRounds, AnUpdateOfLengthZeroIsSaidOnceByName) {
  SimulatedPeers peers(2, 2, 9);
  peers.Begin({"a", "b"});
  peers.norms["b"] = 0;
  peers.Commit({"a", "b"});
  EXPECT_TRUE(
      peers.Said("round 1: the update of peer b has length 0: nothing that it trained has"));
  EXPECT_FALSE(peers.Said("update of peer a has length 0"));
  peers.Clear();
  peers.Commit({"a", "b"});
  EXPECT_FALSE(peers.Said("length 0")) << "it is said once";
}

}  // namespace
}  // namespace atolld

#include "membership/run/training.h"

#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace atolld {
namespace {

absl::Time AtSecond(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

struct TrainingFixture {
  TrainingFixture(uint32_t peers, uint32_t quorum, bool started = false)
      : roster(absl::Seconds(1000), AtSecond(0), {}), round({peers, quorum}, started, 1) {}
  explicit TrainingFixture(const RoundSettings& settings)
      : roster(absl::Seconds(1000), AtSecond(0), {}), round(settings, false, 1) {}

  void Join(const std::string& peer, const std::string& address = "") {
    v1::Hello hello;
    hello.set_peer(peer);
    hello.set_address(address);
    hello.set_has_state(true);
    hello.set_version(round.version() - 1);
    roster.Join(AtSecond(0), ++sessions, hello);
    round.trainer(peer).worker_ready = true;
  }
  void TrainAll(double time) {
    for (const std::string& peer : round.Idle(roster)) round.Assign(AtSecond(time), peer);
  }
  void Ready(const std::string& peer, double time) {
    round.SetReady(AtSecond(time), peer, v1::Ready());
  }

  SessionId sessions = 0;
  Roster roster;
  Round round;
};

// Would break: a run that begins before its peers are there, or never begins again after one has
// gone for good.
TEST(Round, TheFirstWaitsForAllAndLaterOnesForTheQuorum) {
  TrainingFixture f(3, 2);
  EXPECT_FALSE(f.round.TryOpen(AtSecond(0), f.roster));
  EXPECT_EQ(f.round.reason(), "0 of 3 peers are here; waiting for 3 more");
  f.Join("a");
  f.Join("b");
  EXPECT_FALSE(f.round.TryOpen(AtSecond(0), f.roster));
  EXPECT_EQ(f.round.reason(), "2 of 3 peers are here; waiting for one more");
  f.Join("c");
  EXPECT_TRUE(f.round.TryOpen(AtSecond(0), f.roster));
  EXPECT_TRUE(f.round.started());

  TrainingFixture later(3, 2, true);
  later.Join("a");
  EXPECT_FALSE(later.round.TryOpen(AtSecond(0), later.roster));
  EXPECT_EQ(later.round.reason(), "1 of 2 peers is here; waiting for one more");
  later.Join("b");
  EXPECT_TRUE(later.round.TryOpen(AtSecond(0), later.roster));
}

// Would break: a run stands still since the only reducer that others reach is left out.
TEST(Round, WhoIsLeftOutIsNotTheLastThatOthersCanDial) {
  TrainingFixture f(4, 1, true);
  f.Join("a", "a:1");
  f.Join("b", "b:1");
  f.Join("c");
  f.Join("d");
  const std::vector<std::string> all = {"a", "b", "c", "d"};
  EXPECT_EQ(f.round.LeaveOut(f.roster, all, 1), (std::vector<std::string>{"a", "c", "d"}));
  EXPECT_EQ(f.round.LeaveOut(f.roster, {"b", "c"}, 1), std::vector<std::string>{"b"});
}

// Would break: a peer trains from a state that it does not have yet.
TEST(Round, OnlyThoseAtTheBaseAreGivenWork) {
  TrainingFixture f(1, 1);
  f.Join("a");
  f.Join("b");
  f.round.trainer("b").worker_ready = false;
  ASSERT_TRUE(f.round.TryOpen(AtSecond(0), f.roster));
  EXPECT_EQ(f.round.Idle(f.roster), std::vector<std::string>{"a"});
  f.TrainAll(0);
  EXPECT_TRUE(f.round.Idle(f.roster).empty());
  f.Ready("a", 5);
  f.round.Next({"a"});
  ASSERT_FALSE(f.round.TryOpen(AtSecond(6), f.roster));  // nobody is at version 1 yet
  f.roster.SetState("a", 1);
  ASSERT_TRUE(f.round.TryOpen(AtSecond(6), f.roster));
  EXPECT_EQ(f.round.Idle(f.roster), std::vector<std::string>{"a"});
}

// Would break: the first round closed without a slow peer, or a straggler that stops every later
// one.
TEST(Round, ClosesWhenAllAreReadyOrTheQuorumAtTheDeadline) {
  TrainingFixture f(3, 2);
  for (const char* peer : {"a", "b", "c"}) f.Join(peer);
  ASSERT_TRUE(f.round.TryOpen(AtSecond(0), f.roster));
  EXPECT_EQ(f.round.CloseDeadline(),
            absl::InfiniteFuture());  // no time is known: only death ends the wait
  f.TrainAll(0);
  EXPECT_FALSE(f.round.MayClose(AtSecond(9), f.roster));
  f.Ready("a", 10);
  EXPECT_FALSE(f.round.MayClose(AtSecond(1000), f.roster));  // no quorum
  EXPECT_EQ(f.round.CloseDeadline(), AtSecond(13.5));
  f.Ready("b", 10);
  EXPECT_FALSE(f.round.MayClose(AtSecond(13.4), f.roster));
  EXPECT_TRUE(f.round.MayClose(AtSecond(13.5), f.roster));
  f.Ready("c", 12);
  EXPECT_TRUE(f.round.MayClose(AtSecond(12), f.roster));
  EXPECT_EQ(f.round.Ready(f.roster), (std::vector<std::string>{"a", "b", "c"}));
}

// Would break: an experiment whose result says how busy its machine was, since those who were late
// are left out; or one that a dead peer stops.
TEST(Round, WaitsForStragglersWhereItIsToldTo) {
  RoundSettings settings{3, 1};
  settings.waits = true;
  TrainingFixture f(settings);
  for (const char* peer : {"a", "b", "c"}) f.Join(peer);
  ASSERT_TRUE(f.round.TryOpen(AtSecond(0), f.roster));
  f.round.Assign(AtSecond(0), "a");
  f.round.Assign(AtSecond(0), "b");
  f.Ready("a", 10);
  f.round.Assign(AtSecond(50), "c");  // later than anybody would be waited for
  f.Ready("b", 60);
  EXPECT_EQ(f.round.CloseDeadline(), absl::InfiniteFuture());
  EXPECT_FALSE(f.round.MayClose(AtSecond(900), f.roster));
  f.roster.Leave(AtSecond(901), "c", "it has gone");
  EXPECT_TRUE(f.round.MayClose(AtSecond(901), f.roster));
}

// Would break: in mode "async" the fast wait for the slow, each update makes an entry of its own
// though others come with it, or a run begins only when all are there.
TEST(Round, OfAsyncClosesShortlyAfterItsFirstUpdate) {
  RoundSettings settings{3, 1};
  settings.async = true;
  TrainingFixture f(settings);
  f.Join("a");
  ASSERT_TRUE(f.round.TryOpen(AtSecond(0), f.roster));
  f.Join("b");
  f.Join("c");
  f.TrainAll(0);
  EXPECT_FALSE(f.round.MayClose(AtSecond(1), f.roster));
  EXPECT_EQ(f.round.CloseDeadline(), absl::InfiniteFuture());
  f.Ready("a", 4);
  EXPECT_FALSE(f.round.MayClose(AtSecond(4), f.roster));
  EXPECT_EQ(f.round.CloseDeadline(), AtSecond(4.4));  // a tenth of 4 s
  f.Ready("b", 4.3);
  EXPECT_FALSE(f.round.MayClose(AtSecond(4.3), f.roster));
  EXPECT_TRUE(f.round.MayClose(AtSecond(4.5), f.roster));
  EXPECT_EQ(f.round.Ready(f.roster), (std::vector<std::string>{"a", "b"}));
  f.round.Next({"a", "b"});
  for (const char* peer : {"a", "b", "c"}) f.roster.SetState(peer, 1);
  ASSERT_TRUE(f.round.TryOpen(AtSecond(5), f.roster));
  EXPECT_EQ(f.round.Idle(f.roster), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(f.round.CloseDeadline(), absl::InfiniteFuture());  // c trains on, however long
  f.TrainAll(5);
  for (const char* peer : {"a", "b", "c"}) f.Ready(peer, 9);
  EXPECT_TRUE(f.round.MayClose(AtSecond(9), f.roster));  // nobody is left to wait for
}

// Would break: a round that closes without a peer whose session broke a moment ago, or one that
// waits for the dead.
TEST(Round, SuspectsAreAwaitedAndTheDeadAreNot) {
  TrainingFixture f(3, 2);
  for (const char* peer : {"a", "b", "c"}) f.Join(peer);
  ASSERT_TRUE(f.round.TryOpen(AtSecond(0), f.roster));
  f.TrainAll(0);
  for (const char* peer : {"a", "b", "c"}) f.Ready(peer, 1);
  f.roster.Break(AtSecond(1), 3);
  EXPECT_FALSE(f.round.MayClose(AtSecond(1), f.roster));
  f.roster.Refused(AtSecond(1000), "c");
  EXPECT_TRUE(f.round.MayClose(AtSecond(1000), f.roster));
  EXPECT_EQ(f.round.Ready(f.roster), (std::vector<std::string>{"a", "b"}));
}

// Would break: a round goes by without a peer whose worker is back at once, or waits for one that
// cannot be ready with the others any more.
TEST(Round, ALostWorkerIsAwaitedWhileItCanStillBeReadyWithTheOthers) {
  for (const bool is_back : {false, true}) {
    TrainingFixture f(3, 2);
    for (const char* peer : {"a", "b", "c"}) f.Join(peer);
    ASSERT_TRUE(f.round.TryOpen(AtSecond(0), f.roster));
    f.TrainAll(0);
    EXPECT_TRUE(f.round.LoseWorker("c"));
    f.Ready("a", 10);
    f.Ready("b", 10);
    EXPECT_TRUE(f.round.MayClose(AtSecond(10), f.roster));
    f.round.Next({"a", "b"});
    for (const char* peer : {"a", "b", "c"}) f.roster.SetState(peer, 1);
    f.round.trainer("c").worker_ready = true;
    ASSERT_TRUE(f.round.TryOpen(AtSecond(20), f.roster));
    f.TrainAll(20);
    EXPECT_TRUE(f.round.LoseWorker("c"));
    f.Ready("a", 21);
    f.Ready("b", 21);
    EXPECT_FALSE(
        f.round.MayClose(AtSecond(21), f.roster));  // a quarter of the median, 5.5: until 21.4
    if (is_back) {
      f.round.trainer("c").worker_ready = true;
      EXPECT_EQ(f.round.Idle(f.roster), std::vector<std::string>{"c"});
      f.round.Assign(AtSecond(21.2), "c");
      EXPECT_FALSE(f.round.MayClose(AtSecond(22.6), f.roster));
      f.Ready("c", 31);
      EXPECT_TRUE(f.round.MayClose(AtSecond(31), f.roster));
    }
    EXPECT_TRUE(f.round.MayClose(AtSecond(22.6), f.roster) || is_back);
    f.round.Next({"a", "b"});
    for (const char* peer : {"a", "b"}) f.roster.SetState(peer, 2);
    ASSERT_TRUE(f.round.TryOpen(AtSecond(40), f.roster));
    if (is_back) continue;
    f.TrainAll(40);
    for (const char* peer : {"a", "b"}) f.Ready(peer, 41);
    EXPECT_TRUE(f.round.MayClose(AtSecond(41), f.roster));  // lost in an earlier round: not awaited
  }
}

// Would break: a joiner, or a peer that is back in mid-round, keeps all others waiting for its
// whole training.
TEST(Round, NobodyWaitsForWhoBeginsLate) {
  TrainingFixture f(3, 2);
  for (const char* peer : {"a", "b"}) f.Join(peer);
  f.Join("c");
  ASSERT_TRUE(f.round.TryOpen(AtSecond(0), f.roster));
  f.TrainAll(0);
  for (const char* peer : {"a", "b", "c"}) f.Ready(peer, 10);
  f.round.Next({"a", "b", "c"});
  for (const char* peer : {"a", "b", "c"}) f.roster.SetState(peer, 1);
  ASSERT_TRUE(f.round.TryOpen(AtSecond(10), f.roster));
  f.round.Assign(AtSecond(10), "a");
  f.round.Assign(AtSecond(12), "b");  // its replica was a little late
  f.round.Assign(AtSecond(13), "c");
  f.Ready("a", 20);
  EXPECT_FALSE(f.round.MayClose(AtSecond(20), f.roster));  // b began in time
  f.Ready("b", 22);
  EXPECT_TRUE(f.round.MayClose(AtSecond(22), f.roster));
}

// Would break: the first round hangs for a worker that never comes back: no deadline is known yet.
TEST(Round, NobodyWaitsForALineThatNothingPassesButAHello) {
  // Broken: a peer whose update never comes through would cost each round the whole wait for a
  // straggler: it is never away for long.
  TrainingFixture f(3, 2);
  for (const char* peer : {"a", "b", "c"}) f.Join(peer);
  ASSERT_TRUE(f.round.TryOpen(AtSecond(0), f.roster));
  f.TrainAll(0);
  f.Ready("a", 10);
  f.Ready("b", 10);
  for (int hellos = 1; hellos < kMostHellos; ++hellos) {
    f.round.trainer("c").hellos = hellos;
    f.Join("c");
    EXPECT_FALSE(f.round.MayClose(AtSecond(10), f.roster)) << hellos;
  }
  f.round.trainer("c").hellos = kMostHellos;
  f.Join("c");
  EXPECT_TRUE(f.round.MayClose(AtSecond(10), f.roster));
  f.Ready("c", 11);  // it came through: the next training is awaited again
  EXPECT_EQ(f.round.trainer("c").hellos, 0);
}

TEST(Training, EachHelloByWhichItGoesOnIsCounted) {
  // Broken: nobody would ever be seen to have such a line.
  Training training({1, 1}, false, 1, {});
  v1::RunSpec spec;
  spec.set_rounds(9);
  spec.mutable_inner()->set_batch(1);
  const v1::Train train = training.Assign(AtSecond(0), "a", 1, PacedSteps{4}, spec);
  HeldTraining held;
  held.trains = true;
  held.samples.assign(train.samples().begin(), train.samples().end());
  ASSERT_TRUE(training.Resume("a", held));
  ASSERT_TRUE(training.Resume("a", held));
  EXPECT_EQ(training.round().Find("a")->hellos, 2);
  training.Assign(AtSecond(1), "a", 1, PacedSteps{4}, spec);
  EXPECT_EQ(training.round().Find("a")->hellos, 0);
}

TEST(Round, WithoutADeadlineALostWorkerIsNotAwaited) {
  TrainingFixture f(2, 1);
  for (const char* peer : {"a", "b"}) f.Join(peer);
  ASSERT_TRUE(f.round.TryOpen(AtSecond(0), f.roster));
  f.TrainAll(0);
  f.round.trainer("a").train_started.reset();  // as after a restart of the coordinator
  f.round.LoseWorker("b");
  f.Ready("a", 10);
  EXPECT_EQ(f.round.CloseDeadline(), absl::InfiniteFuture());
  EXPECT_TRUE(f.round.MayClose(AtSecond(10), f.roster));
}

// Would break: after a restart of the coordinator nothing is known, and a worker that hangs holds
// the round for ever.
TEST(Round, AfterARestartWhatWasMeasuredBeforeCounts) {
  TrainingFixture f(3, 2);
  for (const char* peer : {"a", "b", "c"}) f.Join(peer);
  v1::RoundRecord before;
  before.set_train_seconds(10);
  f.round.Remember({before, before, before});
  ASSERT_TRUE(f.round.TryOpen(AtSecond(0), f.roster));
  f.TrainAll(0);
  for (const char* peer : {"a", "b"}) f.Ready(peer, 1);
  f.round.trainer("c").train_started.reset();  // as of one that resumes
  EXPECT_FALSE(f.round.MayClose(AtSecond(13.4), f.roster));
  EXPECT_TRUE(f.round.MayClose(AtSecond(13.5), f.roster));
}

// Would break: deadlines forget how slow the slow ones are, and leave them out for ever.
TEST(Round, ALateReadyIsMeasuredOnceAndCountsInTheNextRound) {
  TrainingFixture f(3, 2);
  for (const char* peer : {"a", "b", "c"}) f.Join(peer);
  ASSERT_TRUE(f.round.TryOpen(AtSecond(0), f.roster));
  f.TrainAll(0);
  for (const char* peer : {"a", "b"}) f.Ready(peer, 10);
  EXPECT_EQ(f.round.CloseDeadline(), AtSecond(13.5));
  f.Ready("c", 20);  // after the plan
  f.round.Next({"a", "b"});
  for (const char* peer : {"a", "b"}) f.roster.SetState(peer, 1);
  ASSERT_TRUE(f.round.TryOpen(AtSecond(21), f.roster));
  EXPECT_EQ(f.round.CloseDeadline(), AtSecond(34.5));  // the median is 10 still; the deviation is 0
  f.TrainAll(21);
  f.roster.SetState("c", 1);
  f.Ready("c", 22);  // says it again, for this round
  EXPECT_EQ(f.round.CloseDeadline(), AtSecond(34.5));
  for (const char* peer : {"a", "b"}) f.Ready(peer, 41);  // 20 s each
  EXPECT_EQ(f.round.CloseDeadline(), AtSecond(47));       // of 10, 10, 20, 20, 20
  EXPECT_TRUE(f.round.MayClose(AtSecond(41), f.roster));
  EXPECT_EQ(f.round.Ready(f.roster), (std::vector<std::string>{"a", "b", "c"}));
}

// Would break: a history that was adopted leaves the round at an old version, or drops updates.
TEST(Round, SkipGoesOnWithTheUpdatesThatStand) {
  TrainingFixture f(2, 2);
  for (const char* peer : {"a", "b"}) f.Join(peer);
  ASSERT_TRUE(f.round.TryOpen(AtSecond(0), f.roster));
  f.TrainAll(0);
  f.Ready("a", 1);
  f.round.Skip(7);
  EXPECT_EQ(f.round.version(), 7u);
  EXPECT_FALSE(f.round.open());
  EXPECT_EQ(f.round.Find("a")->activity, Activity::kTraining);
  EXPECT_TRUE(f.round.Ready(f.roster).empty());
}

v1::Ready ReadyFor(uint64_t version, uint64_t train_number) {
  v1::Ready ready;
  ready.set_version(version);
  ready.set_train_number(train_number);
  return ready;
}

// Would break: an update that was still being encoded when its worker died is taken for the answer
// to the Train that has replaced its own, with the same samples; its peer drops it for that Train,
// and the exchange waits for what nobody holds.
TEST(Training, AnUpdateOfAReplacedTrainIsNoAnswer) {
  v1::RunSpec spec;
  spec.mutable_inner()->set_steps(4);
  spec.mutable_inner()->set_batch(2);
  Training training(WithParties({1, 1}, spec), true, 1, LeaseRecords());
  const v1::Train lost = training.Assign(AtSecond(0), "a", 1, {4}, spec);
  training.LoseWorker("a");
  const v1::Train again = training.Assign(AtSecond(1), "a", 1, {4}, spec);
  ASSERT_EQ(lost.samples(0).first(), again.samples(0).first());
  EXPECT_FALSE(training.Answers("a", ReadyFor(1, lost.number())));
  EXPECT_TRUE(training.Answers("a", ReadyFor(1, again.number())));
}

// Would break: an update of one fragment counts in another's entry; or its peer, which has dropped
// it, is waited for as if it trained, and its samples are in no entry.
TEST(Training, WithFragmentsWhoeverWasLeftOutTrainsAnew) {
  v1::RunSpec spec;
  spec.mutable_inner()->set_steps(4);
  spec.mutable_inner()->set_batch(2);
  for (const uint32_t fragments : {1u, 2u}) {
    spec.mutable_mode()->set_kind("streaming");
    spec.mutable_mode()->set_fragments(fragments);
    Training training(WithParties({3, 1}, spec), true, 1, LeaseRecords());
    std::map<std::string, uint64_t> numbers;
    for (const char* peer : {"a", "b", "c"}) {
      numbers[peer] = training.Assign(AtSecond(0), peer, 1, {4}, spec).number();
    }
    for (const char* peer : {"a", "b"}) {
      training.SetReady(AtSecond(1), peer, ReadyFor(1, numbers[peer]));
    }
    v1::EntryHeader header;
    header.add_contributors()->set_peer("a");
    EXPECT_EQ(training.Settle(header, v1::Plan()), std::vector<std::string>{"a"});
    for (const char* gone : {"a", "b"}) {
      EXPECT_EQ(training.round().Find(gone)->activity, Activity::kIdle);
      EXPECT_EQ(training.Held(gone), 0u);
    }
    // c has not been heard of; its update to version 1 was on its way.
    const auto of = [&](uint64_t train_number) {
      v1::Ready ready = ReadyFor(1, train_number);
      *ready.add_samples() = training.leases().Held("c").front();
      return ready;
    };
    v1::Ready another = of(numbers["c"]);
    another.mutable_samples(0)->set_first(99);
    training.DropLate("c", another);
    EXPECT_EQ(training.round().Find("c")->activity, Activity::kTraining) << "of another Train";
    EXPECT_EQ(training.Held("c"), 8u);
    training.DropLate("c", of(numbers["c"]));
    EXPECT_EQ(training.round().Find("c")->activity, Activity::kIdle);
    EXPECT_EQ(training.Held("c"), 0u);
  }
}

// Would break: a history that was adopted leaves updates to be waited for that their peers drop.
TEST(Training, WithFragmentsAnAdoptedHistoryLeavesNoUpdate) {
  v1::RunSpec spec;
  spec.mutable_inner()->set_steps(4);
  spec.mutable_inner()->set_batch(2);
  spec.mutable_mode()->set_kind("streaming");
  spec.mutable_mode()->set_fragments(3);
  Training training(WithParties({2, 1}, spec), true, 1, LeaseRecords());
  const uint64_t number = training.Assign(AtSecond(0), "a", 1, {4}, spec).number();
  training.SetReady(AtSecond(1), "a", ReadyFor(1, number));
  Roster roster(absl::Seconds(1000), AtSecond(0), {});
  v1::Hello hello;
  hello.set_peer("a");
  roster.Join(AtSecond(0), 1, hello);
  training.AdoptHistory(LeaseBook(LeaseRecords{100, {}}), 4, roster, v1::Headers());
  EXPECT_EQ(training.round().Find("a")->activity, Activity::kIdle);
  EXPECT_EQ(training.round().version(), 4u);
}

// Would break: a peer whose Train was lost with its session, and that goes on ahead by the one
// before, would answer none that the coordinator knows of, and be waited for in vain from then on.
TEST(Training, WhatAPeerSaysThatItTrainsAheadAnswersWhicheverTrainItWasOf) {
  v1::RunSpec spec;
  spec.mutable_inner()->set_steps(4);
  spec.mutable_inner()->set_batch(2);
  spec.mutable_mode()->set_kind("delayed");
  for (const bool own_data : {false, true}) {
    spec.mutable_data()->set_private_(own_data);
    Training training(WithParties({2, 1}, spec), true, 1, LeaseRecords());
    const v1::Train first = training.Assign(AtSecond(0), "a", 1, {4}, spec);
    training.SetReady(AtSecond(1), "a", ReadyFor(1, first.number()));
    const v1::Train ahead = training.AssignAhead(AtSecond(1), "a", 1, {4}, spec);
    training.LoseWorker("a");
    training.AssignAhead(AtSecond(2), "a", 1, {4}, spec);  // does not get there
    HeldTraining held;
    held.offers = held.trains = held.trains_ahead = true;
    held.samples = {first.samples().begin(), first.samples().end()};
    held.ahead = {ahead.samples().begin(), ahead.samples().end()};
    ASSERT_TRUE(training.Resume("a", held));
    v1::EntryHeader header;
    header.add_contributors()->set_peer("a");
    training.Settle(header, v1::Plan());
    EXPECT_EQ(training.round().Find("a")->activity, Activity::kTraining);
    EXPECT_TRUE(training.Answers("a", ReadyFor(2, ahead.number()))) << own_data;
  }
}

// Would break: how long a training took would be measured from when it was given, a round too
// early, so that nobody would ever be late.
TEST(Training, OneThatWaitsIsTimedFromTheUpdateBeforeIt) {
  v1::RunSpec spec;
  spec.mutable_inner()->set_steps(4);
  spec.mutable_inner()->set_batch(2);
  spec.mutable_mode()->set_kind("delayed");
  for (const bool early : {true, false}) {
    Training training(WithParties({1, 1}, spec), true, 1, LeaseRecords());
    const v1::Train first = training.Assign(AtSecond(0), "a", 1, {4}, spec);
    v1::Train ahead;
    if (early) ahead = training.AssignAhead(AtSecond(0), "a", 1, {4}, spec);
    training.SetReady(AtSecond(10), "a", ReadyFor(1, first.number()));
    if (!early) ahead = training.AssignAhead(AtSecond(10), "a", 1, {4}, spec);
    EXPECT_EQ(training.round().ReadyAfter("a"), absl::Seconds(10)) << early;
    v1::EntryHeader header;
    header.add_contributors()->set_peer("a");
    training.Settle(header, v1::Plan());
    training.SetReady(AtSecond(17), "a", ReadyFor(2, ahead.number()));
    EXPECT_EQ(training.round().ReadyAfter("a"), absl::Seconds(7)) << early;
  }
}

// Would break: a worker that dies before its peer has offered its update again, after an attempt
// that failed or an entry that left it out, would take that update along.
TEST(Training, AWorkerThatDiesLeavesTheUpdateThatIsToBeOfferedAgain) {
  v1::RunSpec spec;
  spec.mutable_inner()->set_steps(4);
  spec.mutable_inner()->set_batch(2);
  for (const char* kind : {"delayed", "sync"}) {
    spec.mutable_mode()->set_kind(kind);
    const bool ahead = std::string(kind) == "delayed";
    Training training(WithParties({2, 1}, spec), true, 1, LeaseRecords());
    training.round().trainer("a").worker_ready = true;
    const uint64_t number = training.Assign(AtSecond(0), "a", 1, {4}, spec).number();
    training.SetReady(AtSecond(1), "a", ReadyFor(1, number));
    if (ahead) training.AssignAhead(AtSecond(1), "a", 1, {4}, spec);
    training.round().Again(AtSecond(2));
    training.LoseWorker("a");
    EXPECT_EQ(training.Held("a"), ahead ? 8u : 0u) << kind;
    EXPECT_EQ(training.round().Find("a")->activity, ahead ? Activity::kTraining : Activity::kIdle);
    EXPECT_FALSE(training.leases().holds(AheadHolder("a"))) << "its steps are lost";
  }
}

// Would break: a straggler's training thrown away at a commit that it missed.
TEST(Round, AStragglerKeepsItsActivityOverCommits) {
  TrainingFixture f(3, 2);
  for (const char* peer : {"a", "b", "c"}) f.Join(peer);
  ASSERT_TRUE(f.round.TryOpen(AtSecond(0), f.roster));
  f.TrainAll(0);
  f.Ready("a", 1);
  f.Ready("b", 1);
  f.round.Next({"a", "b"});
  for (const char* peer : {"a", "b"}) f.roster.SetState(peer, 1);
  ASSERT_TRUE(f.round.TryOpen(AtSecond(2), f.roster));
  EXPECT_EQ(f.round.Idle(f.roster), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(f.round.Find("c")->activity, Activity::kTraining);
}

}  // namespace
}  // namespace atolld

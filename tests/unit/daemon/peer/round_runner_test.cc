// A peer's rounds where they overlap: which message goes when, to the worker and the coordinator.
#include "daemon/peer/round_runner.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/peer/told_history.h"

namespace atolld {
namespace {

// Hears what it is told, and does nothing.
class QuietWorker final : public Worker {
 public:
  void Start(const v1::RunSpec&, Events) override {}
  void Renew(const v1::RunSpec&, const std::string&) override {}
  void Send(const v1::DaemonMessage& message) override { told.push_back(message); }
  void Restart(const absl::Status&) override {}
  void Pause() override {}
  void Resume() override {}
  void Stop(Task) override {}

  std::vector<v1::DaemonMessage> told;
};

// A peer at version 2, to which entry 3 can be told: p1 is one of its contributors, x is none.
struct Rounds {
  explicit Rounds(const std::string& self, const std::string& kind, uint32_t overlap = 0,
                  bool variates = false, bool masked = false)
      : world(1), env(world.AddProcess(self).env()), told(env.files, 2) {
    ReplicaKeeper::Events events;
    events.on_skipped = [this](const v1::EntryHeader& header) { runner->OnSkipped(header); };
    events.on_opened = [this] { runner->OnOpened(); };
    events.on_committed = [this](const v1::EntryHeader& header) { runner->OnCommitted(header); };
    events.on_digest = [this](uint64_t version, const Digest&) {
      if (version == keeper->version()) runner->OnDigest();
    };
    events.on_offer = [] {};
    events.on_broken = [](absl::Status why) { ADD_FAILURE() << why; };
    events.on_refused = [](absl::Status why) { ADD_FAILURE() << why; };
    keeper = std::make_unique<ReplicaKeeper>(env, "/r", RetentionPolicy(), std::move(events));
    EXPECT_TRUE(keeper->Load().ok());
    RoundRunner::Events heard;
    heard.send = [this](const v1::PeerMessage& message) {
      if (message.has_ready()) readies.push_back(message.ready());
    };
    heard.on_idle = [this] { ++idle; };
    heard.on_busy = [](bool) {};
    heard.on_update_lost = [this] { ++hellos; };
    heard.on_refused = [](absl::Status why) { ADD_FAILURE() << why; };
    heard.sign = [](v1::Ready*) {};
    runner = std::make_unique<RoundRunner>(env, self, "/r", *keeper, worker, std::move(heard));
    runner->LoadResidual();
    v1::RunSpec spec = told.genesis.spec();
    if (!kind.empty()) spec.mutable_mode()->set_kind(kind);
    spec.mutable_inner()->set_control_variates(variates);
    spec.mutable_privacy()->set_masked(masked);
    if (kind == "streaming") {
      spec.mutable_mode()->set_fragments(1);
      spec.mutable_mode()->set_overlap_steps(overlap);
      spec.mutable_mode()->set_merge_bits(kShare);
    }
    runner->Follow(spec, 5, absl::Seconds(10));
    keeper->Follow(told.Welcome(2));
    runner->OnWorkerReady();
    world.RunFor(absl::Seconds(1));
  }

  void Train(uint64_t version, bool ahead, bool refused = false) {
    v1::Train train;
    train.set_refused(refused);
    train.set_version(version);
    train.set_steps(5);
    train.set_number(++trains);
    train.set_ahead(ahead);
    v1::SampleRange* const samples = train.add_samples();
    samples->set_first(100 * trains);
    samples->set_count(10);
    runner->OnTrain(train);
    world.RunFor(absl::Seconds(1));
  }
  // The worker hands over.
  void Hand(uint64_t version) {
    v1::Boundary boundary;
    boundary.set_version(version);
    boundary.set_steps(5);
    boundary.set_tokens(50);
    runner->OnBoundary(boundary);
    world.RunFor(absl::Seconds(1));
  }
  // An update for entry 3 stands, and the worker trains for entry 4.
  void OfferAndTrainAhead() {
    Train(3, false);
    Hand(3);
    ASSERT_EQ(readies.size(), 1u);
    Train(4, true);
  }
  // The entry has the update of this peer scaled down to `scale`, and all others as they are.
  void Commit(float scale = 1) {
    v1::EntryHeader next = told.next;
    for (v1::Contributor& one : *next.mutable_contributors()) {
      if (one.peer() == "p1" && scale != 1) one.set_scale_bits(absl::bit_cast<uint32_t>(scale));
    }
    next.set_signature(SignHeader(told.key, next));
    keeper->Prepare(told.run.Payload(3),
                    [](const absl::Status& status) { EXPECT_TRUE(status.ok()); });
    world.RunFor(absl::Seconds(1));
    EXPECT_TRUE(keeper->Announce(next));
    world.RunFor(absl::Seconds(1));
    ASSERT_EQ(keeper->version(), 3u);
  }
  size_t Number(v1::DaemonMessage::MessageCase kind) const {
    size_t number = 0;
    for (const v1::DaemonMessage& message : worker.told) number += message.message_case() == kind;
    return number;
  }
  const v1::TrainSteps& Steps() const {
    for (auto it = worker.told.rbegin(); it != worker.told.rend(); ++it) {
      if (it->has_train()) return it->train();
    }
    return v1::TrainSteps::default_instance();
  }
  std::string phase() const { return runner->progress().phase(); }
  uint64_t Samples() const { return runner->samples().empty() ? 0 : runner->samples()[0].first(); }
  uint64_t Ahead() const {
    return runner->ahead_samples().empty() ? 0 : runner->ahead_samples()[0].first();
  }

  static constexpr uint32_t kShare = 0x3e800000;  // 0.25f

  SimWorld world;
  const Env env;
  const ToldHistory told;
  QuietWorker worker;
  std::unique_ptr<ReplicaKeeper> keeper;
  std::unique_ptr<RoundRunner> runner;
  std::vector<v1::Ready> readies;
  uint64_t trains = 0;
  int idle = 0;
  int hellos = 0;  // that are to be said again
};

// Broken: what is trained instead of an update that may be in a sum would be the same update.
TEST(RoundRunnerShown, AWorkerIsToldHowManyUpdatesWereShown) {
  Rounds rounds("p1", "");
  const SigningKey key = TestKey('k');
  ASSERT_TRUE(WriteFileDurably(rounds.env.files, "/r/mask_shown", BytesOf("3 2\n")).ok());
  ASSERT_TRUE(rounds.runner->LoadMaskKeys(&key).ok());
  rounds.Train(3, false);
  EXPECT_EQ(rounds.Steps().version(), 3u);
  EXPECT_EQ(rounds.Steps().again(), 2u);
  rounds.Hand(3);
  rounds.Commit();
  rounds.Train(4, false);
  EXPECT_EQ(rounds.Steps().version(), 4u);
  EXPECT_EQ(rounds.Steps().again(), 0u);
}

// Broken: nobody but the peer's own log would know that it trains nothing; or in a run with masks
// the coordinator would learn the length of one update.
TEST(RoundRunnerStill, TheCoordinatorIsToldUnlessUpdatesAreMasked) {
  for (const bool masked : {false, true}) {
    Rounds rounds("p1", "", 0, false, masked);
    EXPECT_EQ(rounds.runner->progress().still_tensors(), "");
    rounds.Train(3, false);
    rounds.Hand(3);
    EXPECT_EQ(rounds.runner->progress().still_tensors(),
              masked ? ""
                     : "the update has length 0: none of the model's 2 tensors has moved; does "
                       "its optimiser step a copy of the parameters?");
  }
}

// Broken: virtual parties would keep the residuals that made their mean too long for any scale.
TEST(RoundRunnerRefused, AWorkerIsToldUntilItsNextUpdateStands) {
  Rounds peer("p1", "");
  peer.Train(3, false);
  EXPECT_FALSE(peer.Steps().refused());
  peer.Hand(3);
  peer.Train(3, false, /*refused=*/true);
  EXPECT_TRUE(peer.Steps().refused());
  peer.runner->OnWorkerLost();
  peer.runner->OnWorkerReady();  // which trains it anew
  EXPECT_EQ(peer.Number(v1::DaemonMessage::kTrain), 3u);
  EXPECT_TRUE(peer.Steps().refused());
  peer.Hand(3);
  peer.Train(3, false);
  EXPECT_FALSE(peer.Steps().refused());
}

// Would break: a worker waits while an entry is made; or its update is encoded before the residual
// of the one before is settled, over the one that stands, or for the wrong entry.
TEST(RoundRunnerAhead, TheWorkerTrainsOnAndItsUpdateWaitsForTheEntry) {
  Rounds p("p1", "delayed");
  p.OfferAndTrainAhead();
  EXPECT_EQ(p.readies[0].version(), 3u);
  EXPECT_EQ(p.readies[0].base_version(), 2u);
  EXPECT_EQ(p.readies[0].train_number(), 1u);
  EXPECT_EQ(p.Number(v1::DaemonMessage::kTrain), 2u);
  EXPECT_EQ(p.Steps().version(), 4u);
  EXPECT_EQ(p.Steps().start(), "");
  EXPECT_EQ(p.phase(), "training");
  EXPECT_EQ(p.Samples(), 100u);
  EXPECT_EQ(p.Ahead(), 200u);
  EXPECT_TRUE(p.runner->offers());

  p.Hand(4);
  EXPECT_EQ(p.readies.size(), 1u);
  EXPECT_EQ(p.phase(), "waiting");
  EXPECT_TRUE(p.runner->trains_ahead()) << "it is still to be offered";
  p.Commit();
  ASSERT_EQ(p.readies.size(), 2u);
  EXPECT_EQ(p.readies[1].version(), 4u);
  EXPECT_EQ(p.readies[1].base_version(), 2u) << "it was not rebased";
  EXPECT_EQ(p.readies[1].age(), 1u);
  EXPECT_EQ(p.readies[1].train_number(), 2u);
  EXPECT_EQ(p.Number(v1::DaemonMessage::kRebase), 0u);
  EXPECT_EQ(p.Samples(), 200u);
  EXPECT_EQ(p.Ahead(), 0u);
}

// Would break: a worker would wait for a round trip to the coordinator between two rounds; or the
// training that was given early would take the place of the one before it, or begin twice.
TEST(RoundRunnerAhead, WhatIsGivenEarlyBeginsWhenTheUpdateIsOffered) {
  for (const char* kind : {"delayed", "streaming"}) {
    Rounds p("p1", kind, 2);
    p.Train(3, false);
    p.Train(4, true);
    EXPECT_EQ(p.Number(v1::DaemonMessage::kTrain), 1u) << kind;
    EXPECT_EQ(p.Steps().version(), 3u);
    EXPECT_EQ(p.Samples(), 100u);
    EXPECT_EQ(p.Ahead(), 0u) << "it has not begun";
    p.Hand(3);
    ASSERT_EQ(p.readies.size(), 1u) << kind;
    EXPECT_EQ(p.readies[0].train_number(), 1u);
    EXPECT_EQ(p.Number(v1::DaemonMessage::kTrain), 2u) << kind;
    EXPECT_EQ(p.Steps().version(), 4u);
    EXPECT_EQ(p.Steps().merge_version(), 3u);
    EXPECT_EQ(p.Ahead(), 200u);

    p.Train(5, true);  // with the commit, which is not applied here yet
    EXPECT_EQ(p.Steps().version(), 4u) << kind;
    p.Commit();
    EXPECT_EQ(p.Number(v1::DaemonMessage::kTrain), 2u) << kind;
    p.Hand(4);
    ASSERT_EQ(p.readies.size(), 2u) << kind;
    EXPECT_EQ(p.readies[1].train_number(), 2u);
    EXPECT_EQ(p.Steps().version(), 5u);
    EXPECT_EQ(p.Ahead(), 300u);
  }
}

// Would break: of two Trains whose base is still to come the first is lost, or the second is.
TEST(RoundRunnerAhead, BothWaitForTheCommit) {
  Rounds p("p1", "delayed");
  p.Train(4, false);
  p.Train(5, true);
  EXPECT_EQ(p.Number(v1::DaemonMessage::kTrain), 0u);
  p.Commit();
  EXPECT_EQ(p.Number(v1::DaemonMessage::kTrain), 1u);
  EXPECT_EQ(p.Steps().version(), 4u);
  p.Hand(4);
  ASSERT_EQ(p.readies.size(), 1u);
  EXPECT_EQ(p.Steps().version(), 5u);
  EXPECT_EQ(p.Ahead(), 200u);
}

// Would break: a peer trains on samples that the coordinator has given to others since.
TEST(RoundRunnerAhead, WhatWaitsIsForgottenWithWhatItWaitsFor) {
  const auto left = [](void (*lose)(Rounds * p)) {
    Rounds p("p1", "delayed");
    p.Train(3, false);
    p.Train(4, true);
    lose(&p);
    p.Hand(3);
    return p.Number(v1::DaemonMessage::kTrain);
  };
  EXPECT_EQ(left([](Rounds*) {}), 2u);
  EXPECT_EQ(left([](Rounds* p) { p->runner->OnSessionDown(); }), 1u);
  EXPECT_EQ(left([](Rounds* p) { p->Train(3, false); }), 2u) << "begun anew, and nothing behind it";
  EXPECT_EQ(left([](Rounds* p) { p->runner->Drain(); }), 1u);
  EXPECT_EQ(left([](Rounds* p) {
              p->runner->OnWorkerLost();
              p->runner->OnWorkerReady();
            }),
            2u)
      << "begun anew, and nothing behind it";
  Rounds rests("p1", "delayed");
  rests.Train(3, false);
  rests.Train(4, true);
  rests.runner->Rest([] {});
  rests.Hand(3);
  EXPECT_EQ(rests.Number(v1::DaemonMessage::kTrain), 1u);
  rests.runner->Rest(nullptr);
  EXPECT_EQ(rests.hellos, 1) << "the coordinator counts on it";
}

// Would break: an update whose entry came before it was ready would be held back, or would count
// again what that entry has brought in.
TEST(RoundRunnerAhead, AnEntryThatComesFirstIsTheWorkersBase) {
  Rounds p("p1", "delayed");
  p.OfferAndTrainAhead();
  p.Commit();
  EXPECT_EQ(p.readies.size(), 1u);
  EXPECT_EQ(p.Samples(), 200u);
  EXPECT_FALSE(p.runner->offers());
  ASSERT_EQ(p.Number(v1::DaemonMessage::kMerge), 1u);
  const v1::Merge& merge = p.worker.told.back().merge();
  EXPECT_EQ(merge.version(), 3u);
  EXPECT_EQ(absl::bit_cast<float>(merge.own_share_bits()), 1.0f);
  EXPECT_EQ(merge.ranges_size(), 0);
  p.Hand(4);
  ASSERT_EQ(p.readies.size(), 2u);
  EXPECT_EQ(p.readies[1].base_version(), 3u);
  EXPECT_EQ(p.readies[1].age(), 1u);
}

// Would break: a late update would count again what others have brought in meanwhile; or a party's
// control variate would hold the way that the state has gone.
TEST(RoundRunnerLate, AStragglersParametersStayWhereTheyAre) {
  for (const bool variates : {false, true}) {
    Rounds x("x", "", 0, variates);
    x.Train(3, false);
    x.Commit();
    ASSERT_EQ(x.Number(v1::DaemonMessage::kRebase), 1u);
    EXPECT_EQ(x.worker.told.back().rebase().keep_parameters(), !variates);
  }
}

// Would break: whoever was left out would miss two entries, or lose one of its two trainings.
TEST(RoundRunnerAhead, LeftOutItOffersTheSameAgainAndTheWorkerIsRebased) {
  Rounds x("x", "delayed");
  x.OfferAndTrainAhead();
  x.Hand(4);
  x.Commit();
  EXPECT_EQ(x.Number(v1::DaemonMessage::kMerge), 1u);
  ASSERT_EQ(x.readies.size(), 2u);
  EXPECT_EQ(x.readies[1].version(), 4u);
  EXPECT_EQ(x.readies[1].train_number(), 1u) << "the first";
  EXPECT_EQ(x.readies[1].age(), 1u);
  EXPECT_EQ(x.readies[1].base_version(), 3u);
  EXPECT_EQ(x.Samples(), 100u);
  EXPECT_EQ(x.Ahead(), 200u);
}

// Would break: eager training would start from theta, as if it were delayed.
TEST(RoundRunnerAhead, InModeEagerTheWorkerStartsFromAGuess) {
  Rounds p("p1", "eager");
  p.Train(3, false);
  EXPECT_EQ(p.Steps().start(), "");
  p.Hand(3);
  p.Train(4, true);
  EXPECT_EQ(p.Steps().version(), 4u);
  EXPECT_EQ(p.Steps().start(), "guess");
  p.Commit();
  EXPECT_EQ(p.Number(v1::DaemonMessage::kRebase), 0u);
  p.Hand(4);
  ASSERT_EQ(p.readies.size(), 2u);
  EXPECT_EQ(p.readies[1].base_version(), 2u);
}

// Would break: after one huge update, of which the entry took next to nothing, the same peer would
// go on from a state that has the whole of it, and bring it again from round to round.
TEST(RoundRunnerAhead, WhatTheEntryHardlyTookIsNotTrainedFrom) {
  for (const char* kind : {"eager", "streaming", "delayed"}) {
    for (const float scale : {0.5f, 0x1p-20f}) {
      Rounds p("p1", kind, 2);
      p.OfferAndTrainAhead();
      p.Commit(scale);
      const bool anew = scale < 0.125f && std::string(kind) != "delayed";
      EXPECT_EQ(p.Number(v1::DaemonMessage::kTrain), 2u) << kind;
      if (anew) p.Hand(4);  // what the worker was at; its boundary may have been under way
      EXPECT_EQ(p.readies.size(), 1u) << kind;
      EXPECT_EQ(p.Number(v1::DaemonMessage::kTrain), anew ? 3u : 2u) << kind;
      EXPECT_EQ(p.Steps().version(), 4u);
      EXPECT_EQ(p.Steps().start() == "", anew || std::string(kind) == "delayed") << kind;
      EXPECT_EQ(p.Samples(), 200u) << "the same samples";
      p.Hand(4);
      ASSERT_EQ(p.readies.size(), 2u) << kind;
      EXPECT_EQ(p.readies[1].version(), 4u);
      EXPECT_EQ(p.readies[1].age(), anew || std::string(kind) == "streaming" ? 0u : 1u) << kind;
    }
  }
}

// Would break: a fragment would never be merged, or at another step; or what a peer that was left
// out has learnt would be thrown away, or given to an entry of another fragment.
TEST(RoundRunnerAhead, InModeStreamingAnEntryIsMerged) {
  for (const char* self : {"p1", "x"}) {
    const bool included = std::string(self) == "p1";
    Rounds p(self, "streaming", 2);
    p.Train(3, false);
    EXPECT_EQ(p.Steps().start(), "own");
    EXPECT_EQ(p.Steps().merge_version(), 0u);
    p.Hand(3);
    p.Train(4, true);
    EXPECT_EQ(p.Steps().start(), "own");
    EXPECT_EQ(p.Steps().merge_after(), 2u);
    EXPECT_EQ(p.Steps().merge_version(), 3u);
    p.Commit();
    ASSERT_EQ(p.Number(v1::DaemonMessage::kMerge), 1u);
    const v1::Merge& merge = p.worker.told.back().merge();
    EXPECT_EQ(merge.version(), 3u);
    EXPECT_EQ(merge.rebase(), !included);
    EXPECT_EQ(merge.own_share_bits(), Rounds::kShare);
    ASSERT_EQ(merge.ranges_size(), 1);
    EXPECT_EQ(merge.ranges(0).first(), 0u);
    EXPECT_EQ(merge.ranges(0).count(), p.told.run.elements);
    EXPECT_FALSE(p.runner->offers()) << self;
    EXPECT_EQ(p.Samples(), 200u) << self;
    p.Hand(4);
    ASSERT_EQ(p.readies.size(), 2u) << self;
    EXPECT_EQ(p.readies[1].version(), 4u);
    EXPECT_EQ(p.readies[1].base_version(), 3u);
    EXPECT_EQ(p.readies[1].age(), 0u);
    EXPECT_EQ(p.readies[1].train_number(), 2u);
    EXPECT_EQ(p.Number(v1::DaemonMessage::kRebase), 0u);
  }
}

// Would break: without overlap a worker would begin the next round before it has the entry.
TEST(RoundRunnerAhead, WithoutOverlapTheMergeComesBeforeTheNextSteps) {
  Rounds p("p1", "streaming", 0);
  p.Train(3, false);
  p.Hand(3);
  p.Train(4, false);  // told with the commit, which is not applied here yet
  EXPECT_EQ(p.Number(v1::DaemonMessage::kTrain), 1u);
  p.Commit();
  ASSERT_GE(p.worker.told.size(), 3u);
  const size_t last = p.worker.told.size() - 1;
  EXPECT_TRUE(p.worker.told[last - 1].has_merge());
  ASSERT_TRUE(p.worker.told[last].has_train());
  EXPECT_EQ(p.worker.told[last].train().merge_version(), 0u);
  EXPECT_EQ(p.worker.told[last].train().start(), "own");
}

// Would break: a worker that dies beside an update would take it along, or its own lost steps would
// be offered.
TEST(RoundRunnerAhead, AWorkerThatDiesTakesItsTrainingAloneAndBeginsItAgain) {
  Rounds p("p1", "delayed");
  p.OfferAndTrainAhead();
  p.Hand(4);
  p.runner->OnWorkerLost();
  EXPECT_TRUE(p.runner->offers());
  p.runner->OnWorkerReady();
  EXPECT_EQ(p.Number(v1::DaemonMessage::kTrain), 3u);
  EXPECT_EQ(p.Steps().version(), 4u);
  p.Commit();
  EXPECT_EQ(p.readies.size(), 1u) << "its new steps are not done";
  p.Hand(4);
  EXPECT_EQ(p.readies.size(), 2u);

  // One that is back after the commit has missed nothing.
  Rounds late("p1", "delayed");
  late.OfferAndTrainAhead();
  late.runner->OnWorkerLost();
  late.Commit();
  late.runner->OnWorkerReady();
  late.Hand(4);
  ASSERT_EQ(late.readies.size(), 2u);
  EXPECT_EQ(late.readies[1].base_version(), 3u);
  EXPECT_EQ(late.readies[1].age(), 0u);
}

// Would break: half of what a worker has learnt would be taken from it for an update that another
// one has made.
TEST(RoundRunnerAhead, AWorkerThatHasNotMadeTheUpdateKeepsAllThatItLearnt) {
  Rounds p("p1", "streaming", 2);
  p.OfferAndTrainAhead();
  p.runner->OnWorkerLost();
  p.runner->OnWorkerReady();
  EXPECT_EQ(p.Steps().merge_version(), 3u);
  p.Commit();
  ASSERT_TRUE(p.worker.told.back().has_merge());
  EXPECT_TRUE(p.worker.told.back().merge().rebase());
}

// Would break: an owner that takes a pause back would leave a peer that nobody gives work, since
// the coordinator counts on what it was given meanwhile.
TEST(RoundRunnerAhead, WhatItRefusedWhileItRestsIsSaid) {
  Rounds p("p1", "delayed");
  p.Train(3, false);
  p.runner->Rest([] {});
  p.Hand(3);
  p.Train(4, true);
  EXPECT_EQ(p.Number(v1::DaemonMessage::kTrain), 1u);
  EXPECT_EQ(p.hellos, 0);
  p.runner->Rest(nullptr);
  EXPECT_EQ(p.hellos, 1);
  EXPECT_TRUE(p.runner->offers());
  EXPECT_FALSE(p.runner->trains_ahead());
}

// Would break: a peer that is to leave would train for a round that it does not take part in, and
// leave only after that.
TEST(RoundRunnerAhead, DrainedItLeavesWithTheEntryOfItsUpdate) {
  Rounds p("p1", "delayed");
  p.OfferAndTrainAhead();
  p.runner->Drain();
  EXPECT_EQ(p.Ahead(), 0u);
  EXPECT_EQ(p.Samples(), 100u);
  EXPECT_EQ(p.idle, 0);
  p.Hand(4);  // nobody wants it
  p.Commit();
  EXPECT_EQ(p.readies.size(), 1u);
  EXPECT_GE(p.idle, 1);
}

// Would break: a Train that replaces an update would be taken for one beside it.
TEST(RoundRunnerAhead, APlainTrainReplacesBoth) {
  Rounds p("p1", "delayed");
  p.OfferAndTrainAhead();
  p.Train(3, false);
  EXPECT_FALSE(p.runner->offers());
  EXPECT_EQ(p.Samples(), 300u);
  EXPECT_EQ(p.Ahead(), 0u);
  p.Hand(4);  // the replaced one's
  EXPECT_EQ(p.readies.size(), 1u);
  p.Hand(3);
  ASSERT_EQ(p.readies.size(), 2u);
  EXPECT_EQ(p.readies[1].train_number(), 3u);
  EXPECT_EQ(p.readies[1].base_version(), 2u);
}

// Would break: what was refused would come again with the next update, and be refused again.
TEST(RoundRunnerAhead, InModeStreamingARefusedUpdateIsForgottenByTheWorker) {
  Rounds p("p1", "streaming", 2);
  p.OfferAndTrainAhead();
  p.Train(3, false);
  EXPECT_FALSE(p.runner->offers());
  EXPECT_EQ(p.Steps().version(), 3u);
  EXPECT_EQ(p.Steps().start(), "");
  EXPECT_EQ(p.Steps().merge_version(), 0u) << "no entry of it is on its way";
  p.Hand(3);
  p.Train(4, true);
  EXPECT_EQ(p.Steps().start(), "own") << "once is enough";
  EXPECT_EQ(p.Steps().merge_version(), 3u);
}

// Would break: a run whose version 0 was made anew would hold what a worker learnt from the other.
TEST(RoundRunnerAhead, InModeStreamingAWorkerForgetsAReplicaThatWasDropped) {
  Rounds p("p1", "streaming", 2);
  p.Train(3, false);
  EXPECT_EQ(p.Steps().start(), "own");
  p.runner->OnDropped();
  p.runner->OnOpened();
  p.Train(3, false);
  EXPECT_EQ(p.Steps().start(), "");
  p.Hand(3);
  p.Train(4, true);
  EXPECT_EQ(p.Steps().start(), "own");
}

// Would break: an update that an entry has taken which a snapshot passed over would stay in the
// worker's parameters whole, and be in a later update once more; or the worker would wait for ever.
TEST(RoundRunnerAhead, InModeStreamingAnEntryThatASnapshotPassesOverIsMergedBeforeTheState) {
  for (const char* self : {"p1", "x"}) {
    const bool included = std::string(self) == "p1";
    Rounds p(self, "streaming", 2);
    p.OfferAndTrainAhead();
    p.runner->OnSkipped(p.told.next);
    p.runner->OnOpened();
    ASSERT_EQ(p.Number(v1::DaemonMessage::kMerge), included ? 2u : 1u);
    const v1::Merge& whole = p.worker.told.back().merge();
    EXPECT_EQ(whole.ranges_size(), 0) << self;
    EXPECT_TRUE(whole.rebase()) << self;
    if (!included) continue;
    const v1::Merge& entry = p.worker.told[p.worker.told.size() - 2].merge();
    EXPECT_EQ(entry.version(), 3u);
    EXPECT_EQ(entry.ranges_size(), 1);
    EXPECT_FALSE(entry.rebase());
  }
}

}  // namespace
}  // namespace atolld

#include "daemon/peer/coordinator_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compression/base/check.h"
#include "daemon/env/posix_files.h"
#include "daemon/replica/state/update_log.h"
#include "membership/history/header.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/env/temporary_directory.h"
#include "tests/unit/daemon/peer/told_history.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

// A coordinator that says what the test wants.
struct World {
  // `addresses`: of the coordinator, or of several.
  // `away`: why it is to stay away from the beginning; empty: it is not.
  explicit World(std::vector<std::string> addresses = {"coordinator:1"},
                 const std::string& away = "")
      : world(1) {
    SimProcess& coordinator = world.AddProcess("coordinator");
    auto listening = coordinator.env().transport.Listen(
        "coordinator:1", [this](const std::string&, std::unique_ptr<Call> accepted) {
          call = std::move(accepted);
          ++sessions;
          call->Start({[this](Frame frame) {
                         CHECK_OK(Unpack(frame, &heard));
                         if (heard.has_leaving() && polite) return call->Finish(absl::OkStatus());
                         call->Read();
                       },
                       nullptr, nullptr});
          if (!turned_away.empty()) return call->Finish(absl::UnavailableError(turned_away));
          call->Read();
          v1::CoordinatorMessage welcome;
          welcome.mutable_welcome()->set_epoch(1);
          call->Write(Pack(welcome));
        });
    CHECK_OK(listening.status());
    listener = *std::move(listening);
    CoordinatorLink::Events events;
    events.hello = [] { return v1::Hello(); };
    events.progress = [] { return v1::PeerProgress(); };
    events.on_message = [this](const v1::CoordinatorMessage&) {
      ++messages;
      return answer;
    };
    events.on_down = [this] { ++downs; };
    events.on_refused = [this](absl::Status status) { refused = status; };
    events.waits_for = [] { return std::string("It waits for a test"); };
    link = std::make_unique<CoordinatorLink>(world.AddProcess("peer").env(), std::move(addresses),
                                             absl::Seconds(10), events);
    link->Start();
    if (!away.empty()) link->Rest(away);
    world.RunFor(absl::Seconds(1));
  }
  void Beat(const std::string& waiting_for) {
    v1::CoordinatorMessage message;
    message.mutable_heartbeat()->set_waiting_for(waiting_for);
    call->Write(Pack(message));
    world.RunFor(absl::Seconds(1));
  }

  SimWorld world;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Call> call;
  std::unique_ptr<CoordinatorLink> link;
  v1::PeerMessage heard;    // by the coordinator, last
  std::string turned_away;  // why nobody is welcome, if so
  bool polite = true;       // it closes what has said goodbye
  absl::Status answer;      // to what the coordinator says
  int messages = 0;
  int sessions = 0;
  int downs = 0;
  absl::Status refused;
};

// Broken: a volunteer would not see why the machine is idle, or see it in every line of the log.
TEST(CoordinatorLinkTest, WhyTheRunWaitsIsLoggedOnceAtEachChange) {
  World w;
  w.Beat("");
  for (int i = 0; i < 3; ++i) w.Beat("2 of 3 peers are here; waiting for one more");
  for (int i = 0; i < 3; ++i) w.Beat("an operator has paused it");
  EXPECT_EQ(w.world.LogCount("the run waits: 2 of 3 peers are here; waiting for one more"), 1u);
  EXPECT_EQ(w.world.LogCount("the run waits: an operator has paused it"), 1u);
  EXPECT_EQ(w.world.LogCount("the run goes on"), 0u);
  for (int i = 0; i < 3; ++i) w.Beat("");
  EXPECT_EQ(w.world.LogCount("the run goes on"), 1u);
  EXPECT_EQ(w.messages, 1);  // the Welcome: heartbeats are the link's own
}

// Broken: a report that is ready a moment after the goodbye would end the process in a crash.
TEST(CoordinatorLinkTest, NothingIsSaidAfterTheGoodbye) {
  World w;
  bool left = false;
  w.link->Leave("drained", [&] { left = true; });
  v1::PeerMessage late;
  late.mutable_state_report()->set_version(1);
  w.link->Send(late);
  w.link->SendProgress();
  w.world.RunFor(absl::Seconds(2));
  EXPECT_TRUE(left);
}

// Broken: a peer outside its network hours would dial on, or never come back.
TEST(CoordinatorLinkTest, ItStaysAwayAsLongAsItIsToAndComesBack) {
  World w;
  w.link->Rest("outside its network hours");
  w.link->SendProgress();  // nothing is said after the goodbye
  w.world.RunFor(absl::Minutes(10));
  EXPECT_EQ(w.heard.leaving().reason(), "outside its network hours");
  EXPECT_FALSE(w.link->up());
  EXPECT_EQ(w.sessions, 1);
  EXPECT_EQ(w.downs, 1);
  w.link->Return();
  w.world.RunFor(absl::Seconds(1));
  EXPECT_TRUE(w.link->up());
  EXPECT_EQ(w.sessions, 2);
  // A coordinator that does not close what has said goodbye is not waited for.
  w.polite = false;
  w.link->Rest("once more");
  w.link->Return();
  w.world.RunFor(absl::Seconds(1));
  EXPECT_TRUE(w.link->up());
  EXPECT_EQ(w.sessions, 3);
  EXPECT_EQ(w.downs, 2);
  EXPECT_TRUE(w.refused.ok());
}

// Broken: a run would wait for a peer that is away from the beginning, and nobody could tell why.
TEST(CoordinatorLinkTest, OneThatIsAwayFromTheBeginningSaysSoFirst) {
  World w({"coordinator:1"}, "away by its trace for good");
  w.world.RunFor(absl::Minutes(10));
  EXPECT_EQ(w.heard.leaving().reason(), "away by its trace for good");
  EXPECT_FALSE(w.link->up());
  EXPECT_EQ(w.sessions, 1);
  w.link->Return();
  w.world.RunFor(absl::Seconds(1));
  EXPECT_TRUE(w.link->up());
}

// Broken: a peer whose coordinator is gone would not find the one that took over, or only after
// long pauses.
TEST(CoordinatorLinkTest, ItGoesOnToTheNextAddressUntilOneLeads) {
  World w({"gone:1", "standby:1", "coordinator:1"});
  EXPECT_TRUE(w.link->up());  // within a second, and with two that do not lead before it
  EXPECT_EQ(w.link->address(), "coordinator:1");
  w.turned_away = "this coordinator is not the leader";
  w.link->Redial("a test");
  w.world.RunFor(absl::Seconds(5));
  EXPECT_FALSE(w.link->up());
  EXPECT_GE(w.sessions, 15);
  w.turned_away.clear();
  w.world.RunFor(absl::Milliseconds(500));
  EXPECT_TRUE(w.link->up());
  EXPECT_TRUE(w.refused.ok());
  // One that nobody has replaced for long is not hammered.
  w.turned_away = "nobody leads";
  w.link->Redial("a test");
  w.world.RunFor(absl::Minutes(10));
  const int before = w.sessions;
  w.world.RunFor(absl::Minutes(1));
  EXPECT_LE(w.sessions, before + 13);
}

// A second coordinator, which does not lead at first.
struct Standby {
  explicit Standby(World& w) {
    auto listening = w.world.AddProcess("standby").env().transport.Listen(
        "standby:1", [this](const std::string&, std::unique_ptr<Call> accepted) {
          ++asked;
          call = std::move(accepted);
          call->Start({[this](const Frame&) { call->Read(); }, nullptr, nullptr});
          if (mute) return;
          if (!leads) return call->Finish(absl::UnavailableError("not the leader"));
          call->Read();
          v1::CoordinatorMessage welcome;
          welcome.mutable_welcome()->set_epoch(2);
          call->Write(Pack(welcome));
        });
    CHECK_OK(listening.status());
    listener = *std::move(listening);
  }

  std::unique_ptr<Listener> listener;
  std::unique_ptr<Call> call;
  bool leads = false;
  bool mute = false;
  int asked = 0;
};

// Broken: where the one that leads hangs, its peers would hear of its successor only when they give
// it up, a whole failure_timeout (10 s here) later; or they would leave one that is slow.
TEST(CoordinatorLinkTest, ItAsksTheOthersWhileItsCoordinatorIsSilent) {
  World w({"coordinator:1", "standby:1", "gone:1"});
  Standby standby(w);
  for (int i = 0; i < 20; ++i) w.Beat("");
  EXPECT_EQ(standby.asked, 0);  // one that speaks is not doubted
  w.world.RunFor(absl::Seconds(7));
  EXPECT_GE(standby.asked, 5);
  EXPECT_TRUE(w.link->up());  // the others do not lead
  EXPECT_EQ(w.link->address(), "coordinator:1");
  w.Beat("");
  const int asked = standby.asked;
  w.world.RunFor(absl::Seconds(4));
  EXPECT_EQ(standby.asked, asked);  // it was slow
  standby.leads = true;
  w.world.RunFor(absl::Seconds(2));
  EXPECT_TRUE(w.link->up());
  EXPECT_EQ(w.link->address(), "standby:1");
  EXPECT_EQ(w.downs, 1);
  EXPECT_EQ(w.messages, 2);  // a Welcome of each
  // One that hangs takes a call and does not answer it.
  standby.mute = true;
  w.turned_away = "this coordinator is not the leader";
  w.link->Redial("a test");
  w.world.RunFor(absl::Seconds(1));
  EXPECT_FALSE(w.link->up());
  w.turned_away.clear();
  w.world.RunFor(absl::Seconds(1));
  EXPECT_TRUE(w.link->up());
  EXPECT_EQ(w.link->address(), "coordinator:1");
  EXPECT_EQ(w.downs, 2);
}

// Broken: whoever looks at a peer without a coordinator would not see what it waits for, or see
// little else.
TEST(CoordinatorLinkTest, WhatItWaitsForIsSaidOnceAMinute) {
  World w;
  w.world.Kill("coordinator");
  w.world.RunFor(absl::Minutes(10));
  EXPECT_EQ(w.world.LogCount("lost the coordinator"), 1u);
  EXPECT_GE(w.world.LogCount("no coordinator at coordinator:1 yet"), 9u);
  EXPECT_LE(w.world.LogCount("no coordinator at coordinator:1 yet"), 12u);
  EXPECT_EQ(w.world.LogCount("It waits for a test"),
            1 + w.world.LogCount("no coordinator at coordinator:1 yet"));
}

// Broken: the log would say that the coordinator was lost, and not that what answers since then is
// another run, for as long as somebody has patience.
TEST(CoordinatorLinkTest, WhyItIsNotWelcomeIsSaidAtEachChange) {
  World w;
  w.turned_away = "wrong run: one that was begun anew?";
  w.call->Finish(absl::UnavailableError("gone"));
  w.world.RunFor(absl::Seconds(5));
  EXPECT_GE(w.sessions, 4);
  EXPECT_EQ(w.world.LogCount("(wrong run: one that was begun anew?)"), 1u);
  w.turned_away = "wrong certificate";
  w.world.RunFor(absl::Seconds(10));
  EXPECT_EQ(w.world.LogCount("(wrong certificate)"), 1u);
  EXPECT_EQ(w.world.LogCount("(wrong run: one that was begun anew?)"), 1u);
}

// Broken: a peer would end for a coordinator that lies, hang on it, hammer it, or keep to itself
// why.
TEST(CoordinatorLinkTest, ACoordinatorThatIsNotBelievedIsToldWhyAndDialledSeldom) {
  for (const bool polite : {true, false}) {
    World w;
    w.polite = polite;
    w.answer = absl::FailedPreconditionError("the history is forked");
    w.call->Finish(absl::UnavailableError("another one comes"));
    w.world.RunFor(absl::Minutes(5));
    EXPECT_TRUE(w.refused.ok());
    EXPECT_GE(w.sessions, 45);
    EXPECT_LE(w.sessions, 70);  // one in 5 s
    EXPECT_NEAR(w.messages, w.sessions, 1);
    EXPECT_NEAR(w.downs, w.sessions, 1);
    EXPECT_EQ(w.heard.leaving().reason(),
              "it does not believe the coordinator: the history is forked");
    const size_t lines = w.world.LogCount("is not believed: the history is forked");
    EXPECT_GE(lines, 4u);  // one a minute
    EXPECT_LE(lines, 8u);
    // One that is believed is kept, and after a while all is forgotten.
    w.answer = absl::OkStatus();
    w.world.RunFor(absl::Seconds(8));
    for (int second = 0; second < 20; ++second) w.Beat("");
    const int sessions = w.sessions;
    EXPECT_TRUE(w.link->up());
    w.call->Finish(absl::UnavailableError("gone for a moment"));
    w.world.RunFor(absl::Seconds(1));
    EXPECT_EQ(w.sessions, sessions + 1);
    EXPECT_TRUE(w.link->up());
  }
}

// Broken: an evicted peer would dial for ever instead of ending with the reason.
TEST(CoordinatorLinkTest, AnEvictionIsFinal) {
  World w;
  w.call->Finish(absl::PermissionDeniedError("peer p was evicted: it lies"));
  w.world.RunFor(absl::Seconds(30));
  EXPECT_EQ(w.refused, absl::PermissionDeniedError("peer p was evicted: it lies"));
  EXPECT_EQ(w.messages, 1);  // it did not dial again
}

using ::testing::HasSubstr;

class CoordinatorCheckTest : public ::testing::Test {
 protected:
  CoordinatorCheckTest() : told_(files_, 3) {
    held_.spec = &told_.genesis.spec();
    held_.genesis = &told_.genesis;
    held_.version = 3;
    held_.header_digest = told_.digest;
    held_.epoch = 5;
  }

  // One change of an honest Welcome, and a part of what is said of it.
  void ExpectRefused(const std::function<void(v1::Welcome*)>& change, const std::string& why) {
    v1::Welcome welcome = told_.Welcome(3);
    change(&welcome);
    const absl::Status status = CheckWelcome(held_, welcome);
    EXPECT_FALSE(status.ok()) << why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }

  SimDisk disk_;
  SimFiles files_{disk_};
  const ToldHistory told_;
  HeldHistory held_;
};

TEST_F(CoordinatorCheckTest, AnHonestWelcomeIsBelieved) {
  // Broken: no peer could follow its run.
  for (const uint64_t version : {0, 1, 3}) {
    EXPECT_TRUE(CheckWelcome(HeldHistory(), told_.Welcome(version)).ok());
    EXPECT_TRUE(CheckWelcome(held_, told_.Welcome(version)).ok()) << "a store that is behind";
  }
  v1::Welcome lost = told_.Welcome(0);
  lost.clear_genesis();
  EXPECT_TRUE(CheckWelcome(held_, lost).ok()) << "a store that is lost";
  v1::Welcome sealed = told_.Welcome(3);
  *sealed.mutable_seal() = told_.seal;
  sealed.set_epoch(9);
  sealed.clear_failure_timeout_milliseconds();
  EXPECT_TRUE(CheckWelcome(held_, sealed).ok());
}

TEST_F(CoordinatorCheckTest, BeforeTheFirstEntryTheHistoryKeySaysWhichVersionZeroIsTheRuns) {
  // Broken: whoever made a version 0 that did not become the run's never follows the run; or
  // whoever poses as the coordinator can take a replica's version 0 away, or one with entries.
  v1::Welcome welcome = told_.Welcome(0);
  welcome.mutable_genesis()->set_state_digest(std::string(32, 's'));
  held_.version = 0;
  EXPECT_FALSE(CheckWelcome(held_, welcome).ok()) << "no signature";
  welcome.set_genesis_proof(SignGenesis(TestKey('x'), welcome.genesis()));
  EXPECT_FALSE(CheckWelcome(held_, welcome).ok()) << "another key's";
  welcome.set_genesis_proof(SignGenesis(told_.key, told_.genesis));
  EXPECT_FALSE(CheckWelcome(held_, welcome).ok()) << "of another version 0";
  welcome.set_genesis_proof(SignGenesis(told_.key, welcome.genesis()));
  EXPECT_TRUE(CheckWelcome(held_, welcome).ok());
  held_.version = 1;
  EXPECT_FALSE(CheckWelcome(held_, welcome).ok()) << "it holds an entry";
}

TEST_F(CoordinatorCheckTest, AForkedOrForeignHistoryIsNot) {
  // Broken: a peer would follow another history than the one it holds.
  ExpectRefused([](v1::Welcome* w) { w->mutable_spec()->set_run_id("other"); },
                "it leads run other");
  ExpectRefused(
      [](v1::Welcome* w) { w->mutable_spec()->set_history_key(TestKey('x').public_key()); },
      "another history key");
  ExpectRefused(
      [](v1::Welcome* w) {
        w->mutable_genesis()->mutable_spec()->set_history_key(TestKey('x').public_key());
      },
      "another history key");
  ExpectRefused(
      [](v1::Welcome* w) { w->mutable_genesis()->set_state_digest(std::string(32, 's')); },
      "another version 0");
  ExpectRefused([](v1::Welcome* w) { w->mutable_genesis()->mutable_spec()->set_rounds(2000); },
                "another version 0");
  ExpectRefused(
      [this](v1::Welcome* w) { *w->mutable_header() = told_.Forked(w->header(), told_.key); },
      "forked");
  ExpectRefused(
      [this](v1::Welcome* w) { *w->mutable_header() = told_.Forked(w->header(), TestKey('x')); },
      "entry 3: its signature is not by the history key");
  ExpectRefused([](v1::Welcome* w) { w->mutable_header()->clear_signature(); },
                "entry 3: it is not signed");
  ExpectRefused([](v1::Welcome* w) { w->set_epoch(4); }, "epoch 5 was there already");
}

TEST_F(CoordinatorCheckTest, AnAbsurdWelcomeIsNot) {
  // Broken: a peer would take a silent coordinator for dead at once, or never.
  ExpectRefused([](v1::Welcome* w) { w->set_failure_timeout_milliseconds(1); },
                "failure_timeout is 1ms");
  ExpectRefused([](v1::Welcome* w) { w->set_failure_timeout_milliseconds(~uint64_t{0}); },
                "failure_timeout is");
  ExpectRefused([](v1::Welcome* w) { w->set_version(1001); }, "of a run of 1000");
  ExpectRefused([](v1::Welcome* w) { w->set_version(2); }, "does not give that version's header");
  ExpectRefused([](v1::Welcome* w) { w->clear_header(); }, "does not give that version's header");
  ExpectRefused([](v1::Welcome* w) { w->clear_genesis(); }, "the run's version 0");
  ExpectRefused([](v1::Welcome* w) { w->mutable_genesis()->mutable_manifest()->set_elements(7); },
                "its version 0");
}

TEST_F(CoordinatorCheckTest, ASealIsSignedAndOfThisRun) {
  // Broken: anybody could end a run.
  EXPECT_TRUE(CheckSealTold(told_.genesis, told_.seal).ok());
  v1::Seal seal = told_.seal;
  seal.clear_signature();
  EXPECT_TRUE(absl::IsPermissionDenied(CheckSealTold(told_.genesis, seal)));
  seal.set_version(2000);
  seal.set_signature(SignSeal(told_.key, seal));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckSealTold(told_.genesis, seal)));
  seal.set_run_id("other");
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckSealTold(told_.genesis, seal)));
}

TEST_F(CoordinatorCheckTest, APlanIsOfThisEpochAndOfKnownPeers) {
  // Broken: updates would go to strangers, or an exchange would last for ever or not at all.
  const auto check = [this](const std::function<void(v1::Plan*)>& change) {
    v1::Plan plan = told_.Plan();
    change(&plan);
    return std::string(
        CheckPlanTold(told_.genesis.spec(), 5, ToldHistory::Roster(), plan).message());
  };
  EXPECT_EQ(check([](v1::Plan*) {}), "");
  EXPECT_THAT(check([](v1::Plan* p) { p->set_version(0); }), HasSubstr("for no round"));
  EXPECT_THAT(check([](v1::Plan* p) { p->set_version(1001); }), HasSubstr("for no round"));
  EXPECT_THAT(check([](v1::Plan* p) { p->set_epoch(4); }), HasSubstr("of epoch 4"));
  EXPECT_THAT(check([](v1::Plan* p) { p->set_epoch(6); }), HasSubstr("of epoch 6"));
  EXPECT_THAT(check([](v1::Plan* p) { p->clear_deadline_milliseconds(); }),
              HasSubstr("gives the exchange 0"));
  EXPECT_THAT(check([](v1::Plan* p) { p->set_deadline_milliseconds(~uint64_t{0}); }),
              HasSubstr("gives the exchange"));
  EXPECT_THAT(check([](v1::Plan* p) { p->mutable_contributors(1)->set_peer("stranger"); }),
              HasSubstr("contributor stranger"));
  EXPECT_THAT(check([](v1::Plan* p) { p->mutable_shards(0)->set_reducer("stranger"); }),
              HasSubstr("reducer stranger"));
  // One that died and was forgotten meanwhile is still named, as lost.
  EXPECT_EQ(check([](v1::Plan* p) {
              p->mutable_contributors(1)->set_peer("forgotten");
              p->add_lost("forgotten");
            }),
            "");
}

TEST_F(CoordinatorCheckTest, TrainingIsForARoundOfTheRun) {
  v1::CoordinatorMessage message;
  v1::Train* train = message.mutable_train();
  train->set_steps(1);
  EXPECT_FALSE(CheckOrderTold(told_.genesis.spec(), message).ok());
  train->set_version(1000);
  EXPECT_TRUE(CheckOrderTold(told_.genesis.spec(), message).ok());
  train->set_version(1001);
  EXPECT_FALSE(CheckOrderTold(told_.genesis.spec(), message).ok());
}

TEST_F(CoordinatorCheckTest, TrainingIsOnAsManySamplesAsItsStepsTake) {
  // Broken: a worker would be sent to train for years, or run out of samples in a step.
  v1::RunSpec spec = told_.genesis.spec();
  spec.mutable_inner()->set_batch(3);
  const auto check = [&](uint32_t steps, const std::vector<std::pair<uint64_t, uint64_t>>& ranges) {
    v1::CoordinatorMessage message;
    v1::Train& train = *message.mutable_train();
    train.set_version(4);
    train.set_steps(steps);
    for (const auto& [first, count] : ranges) {
      v1::SampleRange* range = train.add_samples();
      range->set_first(first);
      range->set_count(count);
    }
    return std::string(CheckOrderTold(spec, message).message());
  };
  const uint64_t most = ~uint64_t{0};
  EXPECT_EQ(check(4, {{0, 5}, {100, 7}}), "");
  EXPECT_EQ(check(1000000, {{0, 3000000}}), "");
  EXPECT_THAT(check(0, {}), HasSubstr("asks for 0 steps"));
  EXPECT_THAT(check(1000001, {{0, 3000003}}), HasSubstr("asks for 1000001 steps"));
  EXPECT_THAT(check(4, {{0, 11}}), HasSubstr("11 samples for 4 steps of 3"));
  EXPECT_THAT(check(4, {{0, 13}}), HasSubstr("samples for 4 steps of 3"));
  EXPECT_THAT(check(4, {{0, most}, {0, 13}}), HasSubstr("samples for 4 steps of 3"));
  EXPECT_THAT(check(4, {{most - 5, 12}}), HasSubstr("beyond the last sample"));
}

TEST_F(CoordinatorCheckTest, OfPrivateDataNoSamplesAreGivenAndOnlyItsOwnLossIsAsked) {
  // Broken: a coordinator could have a peer train on, or tell, what is not the run's to ask.
  v1::RunSpec spec = told_.genesis.spec();
  spec.mutable_inner()->set_batch(3);
  v1::CoordinatorMessage train;
  train.mutable_train()->set_version(4);
  train.mutable_train()->set_steps(4);
  v1::CoordinatorMessage own;
  own.mutable_evaluate()->set_version(4);
  own.mutable_evaluate()->set_own(true);
  EXPECT_FALSE(CheckOrderTold(spec, train).ok());
  EXPECT_THAT(std::string(CheckOrderTold(spec, own).message()), HasSubstr("is not private"));
  spec.mutable_data()->set_private_(true);
  EXPECT_TRUE(CheckOrderTold(spec, train).ok());
  EXPECT_TRUE(CheckOrderTold(spec, own).ok());
  own.mutable_evaluate()->set_shares(2);
  EXPECT_THAT(std::string(CheckOrderTold(spec, own).message()), HasSubstr("a share at once"));
  train.mutable_train()->add_samples()->set_count(1);
  EXPECT_THAT(std::string(CheckOrderTold(spec, train).message()), HasSubstr("gives samples"));
}

TEST_F(CoordinatorCheckTest, AnAuditHasTime) {
  // Broken: an audit would be given up before it began, and the honest accused, or wait for ever.
  v1::CoordinatorMessage message;
  for (const uint64_t bad : {uint64_t{0}, uint64_t{1} << 40, ~uint64_t{0} >> 1, ~uint64_t{0}}) {
    message.mutable_audit()->set_deadline_milliseconds(bad);
    const absl::Status status = CheckOrderTold(told_.genesis.spec(), message);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("gives the audit"));
  }
  for (const uint64_t good : {1u, 5000u, 86400000u}) {
    message.mutable_audit()->set_deadline_milliseconds(good);
    EXPECT_TRUE(CheckOrderTold(told_.genesis.spec(), message).ok()) << good;
  }
}

TEST_F(CoordinatorCheckTest, AShareOfAnEvaluationIsOneOfItsShares) {
  // Broken: a worker would be asked for batches that are not there, or divide by no shares.
  const auto check = [this](uint64_t version, uint32_t share, uint32_t shares) {
    v1::CoordinatorMessage message;
    v1::Evaluate& evaluate = *message.mutable_evaluate();
    evaluate.set_version(version);
    evaluate.set_share(share);
    evaluate.set_shares(shares);
    return std::string(CheckOrderTold(told_.genesis.spec(), message).message());
  };
  EXPECT_EQ(check(0, 0, 1), "");
  EXPECT_EQ(check(1000, 4, 5), "");
  EXPECT_THAT(check(3, 0, 0), HasSubstr("share 0 of 0"));
  EXPECT_THAT(check(3, 5, 5), HasSubstr("share 5 of 5"));
  EXPECT_THAT(check(1001, 0, 1), HasSubstr("version 1001 of a run of 1000"));
}

// A log that begins after the snapshot of version `before` and holds `count` headers of about
// `bytes`.
struct PeerLog {
  PeerLog(uint64_t before, uint64_t count, size_t bytes) {
    auto log = UpdateLog::Open(files, directory.path(), before);
    EXPECT_TRUE(log.ok()) << log.status();
    for (uint64_t version = before + 1; version <= before + count; ++version) {
      v1::EntryHeader header;
      header.set_version(version);
      header.set_run_id(std::string(bytes, 'r'));
      EXPECT_TRUE((*log)->AppendHeader(header).ok());
    }
  }
  v1::Headers Read(uint64_t first, uint64_t last) {
    v1::Headers headers;
    headers.mutable_genesis()->set_state_digest("g");
    EXPECT_TRUE(ReadHeaders(files, directory.path(), first, last, &headers).ok());
    EXPECT_EQ(headers.genesis().state_digest(), "g");
    EXPECT_LT(headers.ByteSizeLong(), size_t{1} << 20);
    for (int i = 0; i < headers.headers_size(); ++i) {
      EXPECT_EQ(headers.headers(i).version(),
                headers.headers(0).version() + static_cast<uint64_t>(i));
      EXPECT_GE(headers.headers(i).version(), first);
    }
    return headers;
  }

  TemporaryDirectory directory;
  PosixFiles files;
};

// Broken: a coordinator that lost its store would not get the history, or entries that are not
// committed.
TEST(HeaderAnswerTest, TellsWhatWasAskedUpToTheNewest) {
  PeerLog log(0, 9, 10);
  EXPECT_EQ(log.Read(1, 9).headers_size(), 9);
  EXPECT_EQ(log.Read(4, 7).headers_size(), 4);
  EXPECT_EQ(log.Read(9, 20).headers_size(), 1);
  EXPECT_EQ(log.Read(10, 20).headers_size(), 0);
}

// Broken: a long history, or one of large headers, would break the session at the message's limit.
TEST(HeaderAnswerTest, TellsAsMuchAsFitsAMessage) {
  EXPECT_EQ(PeerLog(0, 300, 10).Read(2, 300).headers_size(), 256);
  const int fitting = PeerLog(0, 9, 300 << 10).Read(1, 9).headers_size();
  EXPECT_EQ(fitting, 3);
}

// Broken: a store from before the oldest header that any peer has would never learn where the
// history can be taken up again.
TEST(HeaderAnswerTest, BeginsWithTheOldestWhereTheLogNoLongerHasTheFirst) {
  PeerLog log(5, 4, 10);
  const v1::Headers told = log.Read(2, 9);
  ASSERT_EQ(told.headers_size(), 4);
  EXPECT_EQ(told.headers(0).version(), 6u);
  EXPECT_EQ(log.Read(6, 9).headers_size(), 4);
  EXPECT_EQ(log.Read(10, 9).headers_size(), 0);
}

// Broken: peers that keep little have dropped the header of their one snapshot, and a store that
// lacks it could never be helped, though the snapshot carries it.
TEST(HeaderAnswerTest, BeginsWithTheHeaderOfASnapshot) {
  const TemporaryDirectory directory;
  PosixFiles files;
  const std::string dir = directory.path() + "/r";
  const TestRun run;
  OwnedReplica replica = *CreateReplica(files, dir, run);
  run.CommitTo(*replica, 6);
  ASSERT_TRUE(Replica::AdvanceSnapshots(files, dir, {3, 1}, 6).ok());
  ASSERT_TRUE(replica->CompactLog(0).ok());
  const auto read = [&](uint64_t first) {
    v1::Headers headers;
    EXPECT_TRUE(ReadHeaders(files, dir, first, replica->version(), &headers).ok());
    for (int i = 0; i < headers.headers_size(); ++i) {
      EXPECT_EQ(headers.headers(i).version(),
                std::max<uint64_t>(first, 6) + static_cast<uint64_t>(i));
    }
    if (headers.headers_size() > 0) {
      EXPECT_EQ(HeaderDigest(headers.headers(headers.headers_size() - 1)),
                replica->header_digest());
    }
    return headers.headers_size();
  };
  EXPECT_EQ(read(6), 1);
  run.CommitTo(*replica, 8);
  EXPECT_EQ(read(6), 3);
  EXPECT_EQ(read(7), 2);
  EXPECT_EQ(read(5), 3);  // from the oldest on
}

// Broken: a peer without a log would end instead of saying that it cannot help.
TEST(HeaderAnswerTest, WithoutALogThereIsNothingToTell) {
  const TemporaryDirectory directory;
  PosixFiles files;
  v1::Headers headers;
  EXPECT_TRUE(ReadHeaders(files, directory.path() + "/none", 1, 9, &headers).ok());
  EXPECT_EQ(headers.headers_size(), 0);
}

}  // namespace
}  // namespace atolld

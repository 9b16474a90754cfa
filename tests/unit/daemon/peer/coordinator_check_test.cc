#include "daemon/peer/coordinator_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/daemon/peer/told_history.h"

namespace atolld {
namespace {

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

}  // namespace
}  // namespace atolld

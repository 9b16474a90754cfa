// Would break: a limit that its owner sets has no effect, is not named as the reason, or makes a
// peer flap.
#include "daemon/machine/owner_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::TimeZone kZone = absl::UTCTimeZone();
// Monday noon.
const absl::Time kNoon = absl::FromCivil(absl::CivilSecond(2026, 11, 23, 12, 0, 0), kZone);
constexpr absl::Duration kStep = absl::Seconds(1);

class OwnerLimitsTest : public ::testing::Test {
 protected:
  MachineVerdict Look(const MachineView& view, absl::Duration later = kStep) {
    passed_ += later;
    return limits_.Look(absl::UnixEpoch() + passed_, kNoon + passed_, order_, view);
  }
  // How long it is held back after the limit is kept again, in steps; at most an hour.
  absl::Duration HeldFor(const MachineView& view) {
    absl::Duration held;
    while (!Look(view).may_train && held < absl::Hours(1)) held += kStep;
    return held;
  }

  OwnerLimits limits_{kZone};
  OwnerOrder order_;
  absl::Duration passed_;
};

struct Case {
  std::string name;
  std::function<void(MachineConfig*)> limit;
  std::function<void(MachineView*)> passed;  // what holds it back
  std::function<void(MachineView*)> almost;  // a little better, and no reason to begin again
  std::function<void(MachineView*)> kept;
  std::string reason;
};

std::vector<Case> Cases() {
  return {
      {"on_battery", [](MachineConfig* c) { c->on_battery = false; },
       [](MachineView* v) { v->on_battery = true; }, nullptr,
       [](MachineView* v) { v->on_battery = false; }, "the machine is on battery"},
      {"charge_below", [](MachineConfig* c) { c->charge_below = 40; },
       [](MachineView* v) { v->charge = 39; }, [](MachineView* v) { v->charge = 44; },
       [](MachineView* v) { v->charge = 45; }, "the battery's charge is below 40 %"},
      {"hotter_than", [](MachineConfig* c) { c->hotter_than = 80; },
       [](MachineView* v) { v->celsius = 80.5; }, [](MachineView* v) { v->celsius = 79; },
       [](MachineView* v) { v->celsius = 75; }, "the machine is hotter than 80 C"},
      {"others_above", [](MachineConfig* c) { c->others_above = 25; },
       [](MachineView* v) { v->others = 26; }, nullptr, [](MachineView* v) { v->others = 25; },
       "other programs use over 25 % of the processors"},
      {"gpu_others_above", [](MachineConfig* c) { c->gpu_others_above = 10; },
       [](MachineView* v) { v->gpu_others = 11; }, nullptr,
       [](MachineView* v) { v->gpu_others = 0; }, "other programs use over 10 % of the GPU"},
      {"memory_floor", [](MachineConfig* c) { c->memory_floor = 2000000000; },
       [](MachineView* v) {
         v->memory_available_bytes = 1999999999;
         v->worker_bytes = 3000000000;
       },
       // What its own worker has left.
       [](MachineView* v) { v->memory_available_bytes = 4999999999; },
       [](MachineView* v) { v->memory_available_bytes = 5000000000; },
       "less than 2 GB of memory is available"},
      {"disk_floor", [](MachineConfig* c) { c->disk_floor = 10000000000; },
       [](MachineView* v) { v->disk_free_bytes = 9999999999; }, nullptr,
       [](MachineView* v) { v->disk_free_bytes = 10000000000; },
       "less than 10 GB of the disk is free"},
  };
}

TEST_F(OwnerLimitsTest, EachLimitHoldsAtOnceIsNamedAndIsLiftedAfterACalm) {
  for (const Case& one : Cases()) {
    SCOPED_TRACE(one.name);
    limits_ = OwnerLimits(kZone);
    MachineView good, bad, almost;
    one.kept(&good);
    one.passed(&bad);
    if (one.almost) one.almost(&almost);
    // Without the limit none of it matters.
    EXPECT_TRUE(Look(bad).may_train);
    MachineConfig config;
    one.limit(&config);
    ASSERT_TRUE(limits_.Set(config).ok());
    EXPECT_TRUE(Look(good).may_train);
    const MachineVerdict held = Look(bad);
    EXPECT_FALSE(held.may_train);
    EXPECT_TRUE(held.may_exchange);
    EXPECT_THAT(held.reasons, ElementsAre(one.reason));
    EXPECT_EQ(held.changes, absl::InfiniteFuture());
    if (one.almost) {
      EXPECT_EQ(HeldFor(almost), absl::Hours(1));
    }
    Look(bad);
    EXPECT_EQ(HeldFor(good), OwnerLimits::kCalm);
    EXPECT_THAT(Look(good).reasons, IsEmpty());
    // What is not seen limits nothing.
    Look(bad);
    EXPECT_TRUE(Look(MachineView()).may_train);
  }
}

TEST_F(OwnerLimitsTest, ALimitThatIsSoonPassedAgainIsLiftedLaterAndLater) {
  MachineConfig config;
  config.others_above = 50;
  ASSERT_TRUE(limits_.Set(config).ok());
  MachineView quiet, busy;
  quiet.others = 0;
  busy.others = 100;
  std::vector<absl::Duration> calms;
  for (int i = 0; i < 7; ++i) {
    Look(busy);
    calms.push_back(HeldFor(quiet));
  }
  const absl::Duration calm = OwnerLimits::kCalm;
  EXPECT_THAT(calms, ElementsAre(calm, 2 * calm, 4 * calm, 8 * calm, OwnerLimits::kLongestCalm,
                                 OwnerLimits::kLongestCalm, OwnerLimits::kLongestCalm));
  Look(quiet, absl::Hours(1));
  Look(busy);
  EXPECT_EQ(HeldFor(quiet), calm);
}

TEST_F(OwnerLimitsTest, OneNoisyLookBeginsTheCalmAnew) {
  MachineConfig config;
  config.others_above = 50;
  ASSERT_TRUE(limits_.Set(config).ok());
  MachineView quiet, busy;
  quiet.others = 0;
  busy.others = 100;
  Look(busy);
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(Look(quiet).may_train);
  Look(busy);
  EXPECT_EQ(HeldFor(quiet), OwnerLimits::kCalm);
}

TEST_F(OwnerLimitsTest, TakingALimitAwayLiftsIt) {
  MachineConfig config;
  config.others_above = 50;
  ASSERT_TRUE(limits_.Set(config).ok());
  MachineView busy;
  busy.others = 100;
  EXPECT_FALSE(Look(busy).may_train);
  ASSERT_TRUE(limits_.Set(MachineConfig()).ok());
  EXPECT_TRUE(Look(busy).may_train);
}

TEST_F(OwnerLimitsTest, SomebodyAtTheMachineIsWaitedForAsLongAsSet) {
  MachineConfig config;
  config.in_use = absl::Minutes(5);
  ASSERT_TRUE(limits_.Set(config).ok());
  MachineView view;
  EXPECT_TRUE(Look(view).may_train);
  view.untouched = absl::Minutes(5) - kStep;
  EXPECT_THAT(Look(view).reasons, ElementsAre("keyboard or mouse was used within 5m"));
  view.untouched = absl::Minutes(5);
  EXPECT_TRUE(Look(view).may_train);
}

TEST_F(OwnerLimitsTest, HoursHoldAndSayUntilWhen) {
  MachineConfig config;
  config.hours = "mon-fri 18:00-08:00";
  ASSERT_TRUE(limits_.Set(config).ok());
  MachineVerdict verdict = Look({});
  EXPECT_FALSE(verdict.may_train);
  EXPECT_TRUE(verdict.may_exchange);
  EXPECT_THAT(verdict.reasons, ElementsAre("outside its hours until 18:00"));
  EXPECT_EQ(verdict.changes, kNoon + absl::Hours(6));
  verdict = Look({}, absl::Hours(6));
  EXPECT_TRUE(verdict.may_train);
  EXPECT_EQ(verdict.changes, kNoon + absl::Hours(20));
  Look({}, absl::Hours(4 * 24));  // Friday, 18:00
  EXPECT_THAT(Look({}, absl::Hours(20)).reasons, ElementsAre("outside its hours until Mon 18:00"));
  MachineConfig wrong;
  wrong.hours = "9am";
  EXPECT_TRUE(absl::IsInvalidArgument(limits_.Set(wrong)));
  wrong.hours = "";
  wrong.network_hours = "9am";
  EXPECT_TRUE(absl::IsInvalidArgument(limits_.Set(wrong)));
  EXPECT_FALSE(Look({}).may_train) << "the former limits hold";
}

TEST_F(OwnerLimitsTest, OutsideItsNetworkHoursItExchangesNothing) {
  MachineConfig config;
  config.network_hours = "23:00-06:00";
  ASSERT_TRUE(limits_.Set(config).ok());
  const MachineVerdict verdict = Look({});
  EXPECT_FALSE(verdict.may_train);
  EXPECT_FALSE(verdict.may_exchange);
  EXPECT_THAT(verdict.reasons, ElementsAre("outside its network hours until 23:00"));
  EXPECT_TRUE(Look({}, absl::Hours(11)).may_exchange);
}

TEST_F(OwnerLimitsTest, SpentBytesKeepItAwayUntilMidnight) {
  MachineConfig config;
  config.bytes_a_day = 20000000000;
  ASSERT_TRUE(limits_.Set(config).ok());
  MachineView view;
  view.bytes_today = 19999999999;
  EXPECT_TRUE(Look(view).may_train);
  view.bytes_today = 20000000000;
  const MachineVerdict verdict = Look(view);
  EXPECT_FALSE(verdict.may_exchange);
  EXPECT_THAT(verdict.reasons, ElementsAre("today's 20 GB are used up; it goes on at midnight"));
  EXPECT_EQ(verdict.changes, kNoon + absl::Hours(12));
}

TEST_F(OwnerLimitsTest, AnOrderIsTheMostPressingReasonAndEndsByItself) {
  MachineConfig config;
  config.hours = "18:00-08:00";
  ASSERT_TRUE(limits_.Set(config).ok());
  order_.kind = OwnerOrder::Kind::kPause;
  EXPECT_THAT(Look({}).reasons,
              ElementsAre("paused by its owner", "outside its hours until 18:00"));
  EXPECT_EQ(Look({}).changes, absl::InfiniteFuture());
  order_.until = kNoon + absl::Hours(9);
  const MachineVerdict verdict = Look({});
  EXPECT_EQ(verdict.reasons.front(), "paused by its owner until 21:00");
  EXPECT_EQ(verdict.changes, order_.until);
  EXPECT_THAT(Look({}, absl::Hours(8)).reasons, ElementsAre("paused by its owner until 21:00"));
  EXPECT_TRUE(Look({}, absl::Hours(1)).may_train);
  order_.kind = OwnerOrder::Kind::kFinish;  // until it is done it trains
  EXPECT_TRUE(Look({}).may_train);
}

}  // namespace
}  // namespace atolld

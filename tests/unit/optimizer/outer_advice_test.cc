#include "optimizer/outer_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace atolld {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Changes = std::vector<std::pair<std::string, std::string>>;

// A run of the default rule with the rates of its row.
OuterSetting UsualSetting(double peers, double steps, bool muon = false) {
  OuterSetting setting;
  setting.rule = "nesterov";
  setting.rates.peers = peers;
  setting.rates.steps = steps;
  setting.rates.muon = muon;
  setting.learning_rate = NearestOuterRates(setting.rates).learning_rate;
  setting.momentum = NearestOuterRates(setting.rates).momentum;
  return setting;
}

// Returns the only piece of advice; fails if there is none, or another beside it.
OuterAdvice OnlyAdvice(const OuterSetting& setting) {
  const std::vector<OuterAdvice> all = AdviseOuterStep(setting);
  EXPECT_EQ(all.size(), 1u);
  return all.empty() ? OuterAdvice() : all.front();
}

Changes ChangesOf(const OuterAdvice& advice) {
  Changes changes;
  for (const OuterAdvice::Change& change : advice.changes) {
    changes.emplace_back(change.key, change.value);
  }
  return changes;
}

// What the advice says to set, as a number.
double ValueOf(const OuterAdvice& advice, const std::string& key) {
  for (const OuterAdvice::Change& change : advice.changes) {
    if (change.key == key) return std::stod(change.value);
  }
  ADD_FAILURE() << key << " is not to be changed: " << advice.what;
  return 0;
}

TEST(OuterAdviceTest, RatesOfTheTableGetNone) {
  // Broken: a run with default rates would be told to change what nobody has set.
  for (const OuterRates& row : OuterRatesTable()) {
    for (const double steps : {1.0, 5.0, 10.0, 30.0, 100.0, 1000.0}) {
      OuterSetting setting;
      setting.rule = "nesterov";
      setting.rates.peers = row.peers;
      setting.rates.steps = steps;
      setting.rates.muon = row.inner == OuterRates::Inner::kMuon;
      setting.rates.streaming = row.streaming;
      setting.rates.parameters = row.size == OuterRates::Size::kLarge ? 1e9 : 1e6;
      setting.mode = row.streaming ? "streaming" : "sync";
      setting.overlap_steps = row.streaming ? 5 : 0;
      const OuterRates& nearest = NearestOuterRates(setting.rates);
      setting.momentum = nearest.momentum;
      setting.learning_rate = nearest.learning_rate;
      EXPECT_THAT(AdviseOuterStep(setting), IsEmpty()) << DescribeOuterRates(nearest);
      setting.learning_rate = 3 * nearest.learning_rate;
      EXPECT_EQ(AdviseOuterStep(setting).size(), 1u) << DescribeOuterRates(nearest);
      if (row.streaming) continue;
      for (const char* mode : {"eager", "delayed"}) {
        setting.mode = mode;
        setting.learning_rate = RateInMode(mode, nearest);
        EXPECT_THAT(AdviseOuterStep(setting), IsEmpty()) << DescribeOuterRates(nearest);
      }
    }
  }
}

TEST(OuterAdviceTest, AGainMoreThanTwiceTheRowsIsTooHigh) {
  // Broken: rates that were tried and found good would be warned about, or rates that cost loss
  // would not be; or the figure, its source or the right value would be missing.
  OuterSetting setting = UsualSetting(8, 30);
  const double right = setting.learning_rate;
  setting.learning_rate = 2 * right;
  EXPECT_THAT(AdviseOuterStep(setting), IsEmpty());
  setting.learning_rate = 2.1 * right;
  const OuterAdvice advice = OnlyAdvice(setting);
  EXPECT_THAT(ChangesOf(advice), (Changes{{"[outer] learning_rate", "0.8"}}));
  EXPECT_THAT(advice.what, HasSubstr("2.1 times as far as 0.8 / 0.9 (8 peers, 30 steps, adamw; "
                                     "arXiv:2503.09799, figure 7), the nearest in the table"));
  EXPECT_THAT(advice.what, HasSubstr("by 16.8 times a mean update"));
}

TEST(OuterAdviceTest, AGainBelowThatOfAveragingIsTooLow) {
  // Broken: nobody would be told of rates at which a run learns next to nothing a round.
  OuterSetting setting = UsualSetting(8, 30);
  setting.learning_rate = 0.08;
  EXPECT_THAT(OnlyAdvice(setting).what, HasSubstr("0.1 times as far"));
  // Broken: rates with less momentum would be warned about, which are as good in short runs.
  setting.learning_rate = 1;
  setting.momentum = 0.5;
  EXPECT_THAT(AdviseOuterStep(setting), IsEmpty());
  // Nothing that is measured of rates that are too high is said of those that are too low.
  setting = UsualSetting(1, 5);
  setting.learning_rate *= 0.1;
  EXPECT_THAT(OnlyAdvice(setting).what, Not(HasSubstr("in rounds of 5 steps")));
}

TEST(OuterAdviceTest, AMomentumCountsByWhatItAddsUp) {
  // Broken: a momentum of 0.99 would pass, though it moves a run ten times as far as 0.9.
  OuterSetting setting = UsualSetting(8, 30);
  setting.momentum = 0.99;
  EXPECT_THAT(ChangesOf(OnlyAdvice(setting)), (Changes{{"[outer] momentum", "0.9"}}));
  // Broken: of two keys that belong together only one would be set.
  setting.learning_rate = 0.3;
  const OuterAdvice advice = OnlyAdvice(setting);
  EXPECT_THAT(ChangesOf(advice),
              (Changes{{"[outer] learning_rate", "0.8"}, {"[outer] momentum", "0.9"}}));
  EXPECT_THAT(DescribeOuterAdvice(advice),
              HasSubstr("; set [outer] learning_rate = 0.8 and [outer] momentum = 0.9"));
}

TEST(OuterAdviceTest, ARateOfAnotherRowIsCalledThat) {
  // Broken: who took the rates of a larger run would not be told why they are wrong here.
  OuterSetting setting = UsualSetting(1, 30, true);
  setting.learning_rate = 1;
  setting.momentum = 0.9;
  EXPECT_THAT(OnlyAdvice(setting).what,
              HasSubstr("; those are the rates for another number of peers: 1 / 0.9 (16 peers, 30 "
                        "steps, muon;"));
  OuterSetting steps = UsualSetting(8, 5);
  steps.learning_rate = 0.8;
  steps.momentum = 0.9;
  EXPECT_THAT(
      OnlyAdvice(steps).what,
      HasSubstr("; those are the rates for another number of steps: 0.8 / 0.9 (8 peers, 30"));
  // Broken: rates that no row has would be called those of some row.
  setting.learning_rate = 1.1;
  EXPECT_THAT(OnlyAdvice(setting).what, Not(HasSubstr("those are the rates")));
}

TEST(OuterAdviceTest, ShortRoundsNameWhatTheyWereSeenToCost) {
  // Broken: the warning would have no cost, or one that was measured of other rates or rounds.
  OuterSetting setting = UsualSetting(1, 5);
  setting.learning_rate = 0.85;
  setting.momentum = 0.9;
  EXPECT_THAT(OnlyAdvice(setting).what,
              AllOf(HasSubstr("in rounds of 5 steps, 0.7 / 0.9 cost loss: "),
                    HasSubstr("nats a byte"), HasSubstr("(docs/experiments.md, ")));
  setting.rates.steps = 10;
  EXPECT_THAT(OnlyAdvice(setting).what, HasSubstr("in rounds of 10 steps, "));
  setting.rates.steps = 30;
  EXPECT_THAT(OnlyAdvice(setting).what, Not(HasSubstr("in rounds of")));
  setting.rates.steps = 5;
  setting.learning_rate = 10;
  EXPECT_THAT(OnlyAdvice(setting).what, Not(HasSubstr("in rounds of")));
  setting.rates.muon = true;
  setting.learning_rate = 0.85;
  EXPECT_THAT(OnlyAdvice(setting).what, Not(HasSubstr("in rounds of")));
}

TEST(OuterAdviceTest, LateUpdatesBearAShareOfTheRate) {
  // Broken: a run of mode "eager" or "delayed" that diverges would not have been warned of it.
  OuterSetting setting = UsualSetting(8, 30);
  setting.mode = "eager";  // with the whole rate of the row
  EXPECT_EQ(ValueOf(OnlyAdvice(setting), "[outer] learning_rate"), 0.24);
  EXPECT_THAT(OnlyAdvice(setting).what, HasSubstr("too high in mode 'eager': at 0.7 "));
  setting.mode = "delayed";
  const OuterAdvice advice = OnlyAdvice(setting);
  EXPECT_EQ(ValueOf(advice, "[outer] learning_rate"), 0.4);
  EXPECT_THAT(advice.what, HasSubstr("as 0.5 times the rate of 0.8 / 0.9"));
  EXPECT_THAT(advice.what, HasSubstr("at 0.8 runs diverge (docs/experiments.md, modes.toml)"));
  // Broken: a run would be warned whose means are shortened, or whose momentum adds up nothing.
  setting.gap_penalty = true;
  EXPECT_THAT(AdviseOuterStep(setting), IsEmpty());
  setting.gap_penalty = false;
  setting.momentum = 0.7;
  EXPECT_THAT(AdviseOuterStep(setting), IsEmpty());
}

TEST(OuterAdviceTest, NesterovIsNoRuleForAsync) {
  // Broken: a run that diverges would not have been warned of it.
  OuterSetting setting = UsualSetting(16, 30);
  setting.mode = "async";
  const OuterAdvice advice = OnlyAdvice(setting);
  EXPECT_THAT(ChangesOf(advice), (Changes{{"[outer] rule", "delayed_nesterov"}}));
  EXPECT_THAT(advice.what, HasSubstr("8.57 nats a byte"));
  setting.rates.peers = 0;  // unknown
  EXPECT_EQ(AdviseOuterStep(setting).size(), 1u);
  // Broken: a peer that trains alone, or the rule that is made for this, would be warned of.
  EXPECT_THAT(AdviseOuterStep([] {
                OuterSetting alone = UsualSetting(1, 30);
                alone.mode = "async";
                return alone;
              }()),
              IsEmpty());
  setting.rule = "delayed_nesterov";
  EXPECT_THAT(AdviseOuterStep(setting), IsEmpty());
}

TEST(OuterAdviceTest, ALongOverlapCosts) {
  // Broken: an overlap that costs nothing would be warned of, or a longer one would not be.
  OuterSetting setting = UsualSetting(2, 30);
  setting.mode = "streaming";
  setting.rates.streaming = true;
  setting.learning_rate = NearestOuterRates(setting.rates).learning_rate;
  setting.overlap_steps = 10;
  EXPECT_THAT(AdviseOuterStep(setting), IsEmpty());
  setting.overlap_steps = 12;
  EXPECT_EQ(ValueOf(OnlyAdvice(setting), "[mode] overlap"), 10);
  EXPECT_THAT(OnlyAdvice(setting).what,
              HasSubstr("12 inner steps is 40 % of the 30 between two exchanges of a fragment"));
  setting.fragments = 3;
  setting.overlap_steps = 30;
  EXPECT_THAT(AdviseOuterStep(setting), IsEmpty());
  setting.fragments = 1;
  // A few steps are free however short the rounds are.
  setting.overlap_steps = 5;
  setting.rates.steps = 5;
  setting.momentum = NearestOuterRates(setting.rates).momentum;
  EXPECT_THAT(AdviseOuterStep(setting), IsEmpty());
  // Broken: the rate would hide the overlap.
  setting.rates.steps = 30;
  setting.overlap_steps = 30;
  setting.learning_rate *= 5;
  EXPECT_EQ(AdviseOuterStep(setting).size(), 2u);
  // Only streaming has an overlap; the key keeps its value in other modes.
  setting.mode = "sync";
  setting.learning_rate /= 5;
  EXPECT_THAT(AdviseOuterStep(setting), IsEmpty());
}

TEST(OuterAdviceTest, WhatIsNotKnownGetsNone) {
  // Broken: rates would be compared with the row of a number of peers or steps that nobody knows,
  // or those of a rule that the table says nothing of.
  OuterSetting setting = UsualSetting(8, 30);
  setting.learning_rate = 50;
  ASSERT_EQ(AdviseOuterStep(setting).size(), 1u);
  for (const char* rule : {"", "average", "momentum", "adam", "cgad", "delayed_nesterov"}) {
    OuterSetting other = setting;
    other.rule = rule;
    EXPECT_THAT(AdviseOuterStep(other), IsEmpty()) << rule;
  }
  OuterSetting peers = setting;
  peers.rates.peers = 0;
  EXPECT_THAT(AdviseOuterStep(peers), IsEmpty());
  OuterSetting steps = setting;
  steps.rates.steps = 0;
  EXPECT_THAT(AdviseOuterStep(steps), IsEmpty());
}

TEST(OuterAdviceTest, ARecordsFloatsAreTheRates) {
  // Broken: a run's record, which has floats, would be found to differ from the table.
  OuterSetting setting = UsualSetting(8, 30);
  setting.mode = "delayed";
  setting.learning_rate = double{0.4f};  // above 0.4
  setting.momentum = double{0.9f};
  EXPECT_THAT(AdviseOuterStep(setting), IsEmpty());
  setting.momentum = double{0.99f};
  EXPECT_THAT(ChangesOf(OnlyAdvice(setting)), (Changes{{"[outer] momentum", "0.9"}}));
}

}  // namespace
}  // namespace atolld

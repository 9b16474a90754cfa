#include "membership/planning/plan_choice.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "membership/planning/reduction_plan.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kMega = 1e6;
const EncodedSize kSize = {16000000, 16.25e6, 16.25e6};
constexpr uint32_t kChunks = 245;

LinkModel OneRegion(const std::vector<double>& rates) {
  LinkModel links;
  links.AddRegion("one");
  for (size_t i = 0; i < rates.size(); ++i) {
    links.AddPeer({absl::StrCat("p", i), 0, rates[i], rates[i], absl::ZeroDuration(), true});
  }
  links.ConnectDirectly();
  return links;
}

// Two regions of three: fast lines, a slow link between them.
LinkModel TwoRegions(double between) {
  LinkModel links;
  for (const char* region : {"a", "b"}) {
    const size_t number = links.AddRegion(region);
    for (int i = 1; i <= 3; ++i) {
      links.AddPeer(
          {absl::StrCat(region, i), number, 100 * kMega, 100 * kMega, absl::Milliseconds(1), true});
    }
  }
  links.AddLink(0, 1, between, absl::Milliseconds(80));
  links.ConnectDirectly();
  return links;
}

ChosenPlan Choose(PlanChoice* choice, const LinkModel& links) {
  return choice->Choose(&links, std::vector<bool>(links.peers().size(), true), kSize, kChunks);
}

// Would break: the first round, of which nothing is known but who can be dialled.
TEST(PlanChoice, WithoutAModelShardsAreEqualAndNothingIsPredicted) {
  PlanChoice choice(PlanKind::kAuto);
  const ChosenPlan plan = choice.Choose(nullptr, {true, false, true}, kSize, kChunks);
  EXPECT_EQ(plan.shape, PlanShape::kFlat);
  EXPECT_THAT(plan.bandwidths, ElementsAre(1, 0, 1));
  EXPECT_FALSE(plan.prediction.has_value());
  EXPECT_EQ(plan.change, "");
  PlanChoice regions(PlanKind::kRegions);
  EXPECT_EQ(regions.Choose(nullptr, {true, true}, kSize, kChunks).shape, PlanShape::kRegions);
}

// Would break: a slow reducer that keeps its equal share, and with it everybody.
TEST(PlanChoice, UnequalLinesGetTheClosedFormsShards) {
  PlanChoice choice(PlanKind::kAuto);
  const std::vector<double> rates = {12.5 * kMega, 12.5 * kMega, 2.5 * kMega, 1.25 * kMega};
  const ChosenPlan plan = Choose(&choice, OneRegion(rates));
  EXPECT_EQ(plan.shape, PlanShape::kWeighted);
  EXPECT_EQ(plan.bandwidths, rates);
  EXPECT_THAT(plan.change, HasSubstr("the plan is now weighted, predicted to take 13."));
  EXPECT_THAT(plan.change, HasSubstr("as before it would take 19."));
  EXPECT_THAT(plan.change, HasSubstr("p3 up"));
  // What passes the slowest line is its own update and all others' mean, and nothing else.
  EXPECT_NEAR(plan.prediction->lines_seconds, 16.25 / 1.25, 0.01);
}

// Would break: plans that change every round because estimates do.
TEST(PlanChoice, NoiseMovesNothing) {
  PlanChoice choice(PlanKind::kAuto);
  ASSERT_NE(Choose(&choice, OneRegion({12 * kMega, 12 * kMega, 2 * kMega, kMega})).change, "");
  const ChosenPlan first = Choose(&choice, OneRegion({12 * kMega, 12 * kMega, 2 * kMega, kMega}));
  EXPECT_EQ(first.change, "");
  const ChosenPlan noisy =
      Choose(&choice, OneRegion({11 * kMega, 13 * kMega, 2.1 * kMega, 0.96 * kMega}));
  EXPECT_EQ(noisy.change, "");
  EXPECT_EQ(noisy.bandwidths, first.bandwidths);
  EXPECT_GT(noisy.prediction->seconds, first.prediction->seconds);  // of the lines as they are now
  // A real change: the second line is the slow one now.
  const ChosenPlan other = Choose(&choice, OneRegion({12 * kMega, kMega, 12 * kMega, 2 * kMega}));
  EXPECT_EQ(other.shape, PlanShape::kWeighted);
  EXPECT_THAT(other.change, HasSubstr("weighted with other shards"));
}

// Would break: plans changed for what nobody can notice.
TEST(PlanChoice, ShortExchangesStayAsTheyAre) {
  PlanChoice choice(PlanKind::kAuto);
  const LinkModel links = OneRegion({1000 * kMega, 1000 * kMega, 400 * kMega, 300 * kMega});
  EXPECT_EQ(Choose(&choice, links).shape, PlanShape::kFlat);
}

// Would break: hierarchy that nobody asks for where it pays, or everybody gets where it does not.
TEST(PlanChoice, RegionsAverageFirstWhereTheLinkBetweenThemIsNarrow) {
  PlanChoice choice(PlanKind::kAuto);
  const ChosenPlan narrow = Choose(&choice, TwoRegions(6.25 * kMega));
  EXPECT_EQ(narrow.shape, PlanShape::kRegions);
  EXPECT_THAT(narrow.change, HasSubstr("link a>b"));
  // A third of the bytes: one partial mean a shard, of three updates.
  PlanChoice flat(PlanKind::kFlat);
  const ChosenPlan told = Choose(&flat, TwoRegions(6.25 * kMega));
  EXPECT_EQ(told.shape, PlanShape::kFlat);
  EXPECT_NEAR(told.prediction->bytes_between_regions / narrow.prediction->bytes_between_regions, 3,
              0.01);
  EXPECT_LT(narrow.prediction->seconds, 0.45 * told.prediction->seconds);
  PlanChoice wide(PlanKind::kAuto);
  Choose(&wide, TwoRegions(1000 * kMega));  // tried once
  EXPECT_EQ(Choose(&wide, TwoRegions(1000 * kMega)).shape, PlanShape::kFlat);
  PlanChoice regions(PlanKind::kRegions);
  EXPECT_EQ(Choose(&regions, TwoRegions(1000 * kMega)).shape, PlanShape::kRegions);
}

// Two regions as a flat exchange shows them: all wait for the link, and the lines within a region
// seem to be as slow.
LinkModel TwoRegionsUnseen() {
  LinkModel links;
  for (const char* region : {"a", "b"}) {
    const size_t number = links.AddRegion(region);
    for (int i = 1; i <= 3; ++i) {
      links.AddPeer(
          {absl::StrCat(region, i), number, 2 * kMega, 2 * kMega, absl::Milliseconds(1), true});
    }
  }
  links.AddLink(0, 1, 1000 * kMega, absl::Milliseconds(80));
  links.ConnectDirectly();
  return links;
}

// Would break: flat for ever, since the lines that a plan by region rests on were never at work.
TEST(PlanChoice, RegionsAreTriedOnceToSeeWhatTheirLinesCarry) {
  PlanChoice choice(PlanKind::kAuto);
  const ChosenPlan trial = Choose(&choice, TwoRegionsUnseen());
  EXPECT_EQ(trial.shape, PlanShape::kRegions);
  EXPECT_FALSE(trial.prediction.has_value());
  EXPECT_THAT(trial.change, HasSubstr("to see what the lines within the regions carry"));
  // The lines are fast and the link is narrow: so they go on.
  const ChosenPlan next = Choose(&choice, TwoRegions(6.25 * kMega));
  EXPECT_EQ(next.shape, PlanShape::kRegions);
  EXPECT_THAT(next.change, HasSubstr("the plan is now regions, predicted to take"));
}

// Would break: no trial where regions seem a little faster, though not enough to change the plan.
TEST(PlanChoice, APredictionTooSmallToActOnIsNoTrial) {
  LinkModel slow;
  for (const char* region : {"a", "b"}) {
    const size_t number = slow.AddRegion(region);
    for (int i = 1; i <= 3; ++i) {
      slow.AddPeer(
          {absl::StrCat(region, i), number, 16 * kMega, 16 * kMega, absl::Milliseconds(1), true});
    }
  }
  slow.AddLink(0, 1, 27 * kMega, absl::Milliseconds(1));
  slow.ConnectDirectly();
  PlanChoice fixed(PlanKind::kRegions);
  PlanChoice flat(PlanKind::kFlat);
  const double by_region = Choose(&fixed, slow).prediction->seconds;
  const double all_to_all = Choose(&flat, slow).prediction->seconds;
  ASSERT_LT(by_region, all_to_all);
  ASSERT_GT(by_region, 0.9 * all_to_all);
  PlanChoice choice(PlanKind::kAuto);
  EXPECT_FALSE(Choose(&choice, slow).prediction.has_value());
}

// Would break: back to the slow plan after a trial that was fast, by estimates that do not know the
// link yet.
TEST(PlanChoice, ATrialThatWasFasterStays) {
  PlanChoice choice(PlanKind::kAuto);
  choice.NoteSeconds(12);
  ASSERT_EQ(Choose(&choice, TwoRegionsUnseen()).shape, PlanShape::kRegions);
  choice.NoteSeconds(5);
  EXPECT_EQ(Choose(&choice, TwoRegionsUnseen()).shape, PlanShape::kRegions);
  choice.NoteSeconds(20);  // no trial any more: predictions decide
  EXPECT_EQ(Choose(&choice, TwoRegionsUnseen()).shape, PlanShape::kRegions);
  PlanChoice slower(PlanKind::kAuto);
  slower.NoteSeconds(5);
  ASSERT_EQ(Choose(&slower, TwoRegionsUnseen()).shape, PlanShape::kRegions);
  slower.NoteSeconds(4.9);
  EXPECT_EQ(Choose(&slower, TwoRegionsUnseen()).shape, PlanShape::kFlat);
}

// Would break: a region that is none would cost time in every round, or be tried again and again.
TEST(PlanChoice, ATrialThatDidNotPayIsTheOnlyOne) {
  PlanChoice choice(PlanKind::kAuto);
  ASSERT_EQ(Choose(&choice, TwoRegionsUnseen()).shape, PlanShape::kRegions);
  const ChosenPlan back = Choose(&choice, TwoRegionsUnseen());
  EXPECT_EQ(back.shape, PlanShape::kFlat);
  EXPECT_EQ(back.change, "");
  EXPECT_EQ(Choose(&choice, TwoRegionsUnseen()).shape, PlanShape::kFlat);
}

// Would break: a trial where nobody could average for another.
TEST(PlanChoice, NoTrialWithoutARegionOfTwo) {
  LinkModel links;
  for (const char* region : {"a", "b", "c"}) {
    const size_t number = links.AddRegion(region);
    links.AddPeer({region, number, kMega, kMega, absl::ZeroDuration(), true});
  }
  for (const auto& [one, other] : {std::pair(0, 1), std::pair(0, 2), std::pair(1, 2)}) {
    links.AddLink(one, other, 1000 * kMega, absl::ZeroDuration());
  }
  links.ConnectDirectly();
  PlanChoice choice(PlanKind::kAuto);
  EXPECT_EQ(Choose(&choice, links).shape, PlanShape::kFlat);
  // Nor with a fixed plan, nor in one region.
  PlanChoice flat(PlanKind::kFlat);
  EXPECT_EQ(Choose(&flat, TwoRegionsUnseen()).shape, PlanShape::kFlat);
  EXPECT_EQ(Choose(&choice, OneRegion({kMega, kMega, kMega})).shape, PlanShape::kFlat);
}

// Lines that all seem alike; of these nobody waited for the ones before `slow`.
LinkModel Waiting(size_t peers, size_t slow) {
  LinkModel links;
  links.AddRegion("one");
  for (size_t i = 0; i < peers; ++i) {
    PeerLink peer{absl::StrCat("p", i), 0, 10 * kMega, 10 * kMega, absl::ZeroDuration()};
    peer.had_room = i < slow;
    links.AddPeer(peer);
  }
  links.ConnectDirectly();
  return links;
}

// Would break: equal shards for ever, where a fast line has never been asked for what it can.
TEST(PlanChoice, WhoHadRoomIsAskedForMoreOnce) {
  PlanChoice choice(PlanKind::kFlat);
  choice.NoteSeconds(2.4);
  const ChosenPlan trial = Choose(&choice, Waiting(4, 3));
  EXPECT_EQ(trial.shape, PlanShape::kWeighted);
  EXPECT_FALSE(trial.prediction.has_value());
  EXPECT_THAT(trial.change, HasSubstr("one exchange with less to reduce for p3, to see"));
  EXPECT_THAT(ShardWeights(trial.bandwidths), ElementsAre(1.0 / 3, 1.0 / 3, 1.0 / 3, 0));
  choice.NoteSeconds(2.4);  // it was no faster
  const ChosenPlan back = Choose(&choice, Waiting(4, 3));
  EXPECT_EQ(back.shape, PlanShape::kFlat);
  EXPECT_EQ(back.change, "");
  // Another line has room now: that is worth a look.
  EXPECT_NE(Choose(&choice, Waiting(5, 4)).change, "");
}

// Would break: back to the slow plan after a trial that was fast.
TEST(PlanChoice, ATrialOfShardsThatWasFasterStays) {
  PlanChoice choice(PlanKind::kAuto);
  choice.NoteSeconds(2.4);
  ASSERT_FALSE(Choose(&choice, Waiting(4, 3)).prediction.has_value());
  choice.NoteSeconds(1.6);
  const ChosenPlan next = Choose(&choice, Waiting(4, 3));
  EXPECT_EQ(next.shape, PlanShape::kWeighted);
  EXPECT_THAT(ShardWeights(next.bandwidths), ElementsAre(1.0 / 3, 1.0 / 3, 1.0 / 3, 0));
  EXPECT_TRUE(next.prediction.has_value());
  EXPECT_EQ(next.change, "");
}

// Would break: a fast line that is never asked again because somebody died in the one exchange in
// which it was; or a trial made again and again because its exchanges are given up.
TEST(PlanChoice, ATrialThatWasDisturbedIsMadeAgain) {
  PlanChoice choice(PlanKind::kFlat);
  choice.NoteSeconds(2.4);
  ASSERT_NE(Choose(&choice, Waiting(4, 3)).change, "");
  choice.NoteSeconds(3, true);
  ASSERT_NE(Choose(&choice, Waiting(4, 3)).change, "");
  choice.NoteSeconds(2, true);  // faster all the same
  EXPECT_EQ(Choose(&choice, Waiting(4, 3)).shape, PlanShape::kWeighted);
  PlanChoice given_up(PlanKind::kFlat);
  ASSERT_NE(Choose(&given_up, Waiting(4, 3)).change, "");
  EXPECT_EQ(Choose(&given_up, Waiting(4, 3)).change, "");
}

// Would break: a trial from which nothing can come.
TEST(PlanChoice, NoTrialOfShardsThatCouldNotHelp) {
  PlanChoice choice(PlanKind::kAuto);
  EXPECT_EQ(Choose(&choice, Waiting(4, 4)).change, "");  // nobody to take it from
  EXPECT_EQ(Choose(&choice, Waiting(4, 0)).change, "");  // nobody to give it to
  EXPECT_EQ(Choose(&choice, Waiting(4, 2)).change, "");  // 1.33 times as long if all are alike
  EXPECT_EQ(Choose(&choice, Waiting(2, 1)).change, "");  // of two, shards are equal anyway
  // Whoever is waited for cannot be dialled and averages nothing as it is.
  const LinkModel links = Waiting(4, 3);
  EXPECT_EQ(choice.Choose(&links, {true, true, true, false}, kSize, kChunks).change, "");
  // Too short an exchange to save anything in.
  EXPECT_EQ(choice.Choose(&links, {true, true, true, true}, {160000, 162500, 162500}, 3).change,
            "");
  EXPECT_NE(Choose(&choice, links).change, "");
}

// Would break: a newcomer without a share, or one that is left out of the plan's tables.
TEST(PlanChoice, WhoeverComesGetsTheMiddleRate) {
  PlanChoice choice(PlanKind::kAuto);
  Choose(&choice, OneRegion({12 * kMega, 10 * kMega, 2 * kMega, kMega}));
  const ChosenPlan plan =
      Choose(&choice, OneRegion({12 * kMega, 10 * kMega, 2 * kMega, kMega, 10 * kMega}));
  EXPECT_EQ(plan.change, "");
  EXPECT_THAT(plan.bandwidths, ElementsAre(12 * kMega, 10 * kMega, 2 * kMega, kMega, 10 * kMega));
}

// Would break: predictions by the bytes of another codec's worst case.
TEST(PlanChoice, SizesAreThoseThatWereSeen) {
  PlanChoice choice(PlanKind::kAuto);
  const LinkModel links = OneRegion({kMega, kMega, kMega});
  const double before = Choose(&choice, links).prediction->lines_seconds;
  // Each of three peers gets two thirds of updates and two thirds of means: half of it came.
  const double came = 2.0 / 3 * 3 * kSize.mean_bytes / 2;
  choice.NoteArrived(came, came);
  EXPECT_NEAR(Choose(&choice, links).prediction->lines_seconds, before / 2, 1e-6 * before);
  // Of updates nothing else is known now, of means that they are twice as long; chunks are whole,
  // so shards are not quite equal.
  choice.NoteArrived(0, 2 * came);
  EXPECT_NEAR(Choose(&choice, links).prediction->lines_seconds, before * 3 / 4, 2e-3 * before);
}

// Would break: a peer behind a slow line is waited for as if it sent as many bytes as the others.
TEST(PlanChoice, UpdatesOverSlowLinesCountWithTheirOwnSize) {
  EncodedSize size = kSize;
  size.slow_bytes = size.update_bytes / 2;
  LinkModel links = OneRegion({kMega, kMega, kMega});
  const auto seconds = [&](PlanChoice* choice) {
    return choice->Choose(&links, std::vector<bool>(3, true), size, kChunks)
        .prediction->lines_seconds;
  };
  PlanChoice usual(PlanKind::kAuto);
  const double before = seconds(&usual);
  for (size_t i = 0; i < 3; ++i) links.SetSlow(i, true);
  PlanChoice slow(PlanKind::kAuto);
  EXPECT_NEAR(seconds(&slow), before * 3 / 4, 1e-2 * before);  // means are what they were
  // What arrives of slow ones tells how long the others are.
  slow.NoteArrived(2 * size.slow_bytes, 2 * size.mean_bytes);
  EXPECT_NEAR(seconds(&slow), before * 3 / 4, 1e-2 * before);
  slow.NoteArrived(size.slow_bytes, 2 * size.mean_bytes);
  for (size_t i = 0; i < 3; ++i) links.SetSlow(i, false);
  EXPECT_NEAR(seconds(&slow), before * 3 / 4, 1e-2 * before);
}

// Two lines that have shown what they carry, and two that have not.
const std::vector<double> kHalfSeen = {12 * kMega, 12 * kMega, 6 * kMega, 6 * kMega};

// A flat plan that took so long, and then the change that those lines make it predict.
ChosenPlan ChangeAfter(PlanChoice* choice, double seconds) {
  for (int round = 0; round < 3; ++round) {
    choice->Choose(nullptr, std::vector<bool>(4, true), kSize, kChunks);
    choice->NoteSeconds(seconds);
  }
  const ChosenPlan plan = Choose(choice, OneRegion(kHalfSeen));
  EXPECT_EQ(plan.shape, PlanShape::kWeighted);
  EXPECT_THAT(plan.change, HasSubstr("the plan is now weighted"));
  return plan;
}

// Would break: a plan that is slower than the one before for ever, since its prediction rests on
// what only some lines had a chance to show.
TEST(PlanChoice, AChangeThatDoesNotPayIsTakenBackAndNotMadeAgain) {
  PlanChoice choice(PlanKind::kAuto);
  ChangeAfter(&choice, 4.3);
  choice.NoteSeconds(5.6);
  const ChosenPlan second = Choose(&choice, OneRegion(kHalfSeen));
  EXPECT_EQ(second.shape, PlanShape::kWeighted);
  EXPECT_EQ(second.change, "");
  choice.NoteSeconds(5.5);
  const ChosenPlan back = Choose(&choice, OneRegion(kHalfSeen));
  EXPECT_EQ(back.shape, PlanShape::kFlat);
  EXPECT_THAT(back.change, HasSubstr("the plan is flat again: weighted took 5.50 s, where "));
  EXPECT_THAT(back.change, HasSubstr("were predicted and it was 4.30 s before"));
  for (const double seconds : {4.3, 5.0, 4.2, 4.4, 4.3, 9.0, 4.3}) {
    choice.NoteSeconds(seconds);
    const ChosenPlan next = Choose(&choice, OneRegion(kHalfSeen));
    EXPECT_EQ(next.shape, PlanShape::kFlat) << seconds;
    EXPECT_EQ(next.change, "") << seconds;
  }
}

// Would break: equal shards for ever on lines that have become unequal since.
TEST(PlanChoice, WhatWasTakenBackIsMadeAgainOnOtherLines) {
  const auto refuted = [] {
    PlanChoice choice(PlanKind::kAuto);
    ChangeAfter(&choice, 4.3);
    choice.NoteSeconds(5.6);
    choice.NoteSeconds(5.6);
    EXPECT_EQ(Choose(&choice, OneRegion(kHalfSeen)).shape, PlanShape::kFlat);
    return choice;
  };
  PlanChoice slower = refuted();
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(Choose(&slower, OneRegion(kHalfSeen)).shape, PlanShape::kFlat) << round;
    slower.NoteSeconds(6);
  }
  EXPECT_EQ(Choose(&slower, OneRegion(kHalfSeen)).shape, PlanShape::kWeighted);
  PlanChoice faster = refuted();
  for (int round = 0; round < 3; ++round) faster.NoteSeconds(2);
  EXPECT_EQ(Choose(&faster, OneRegion(kHalfSeen)).shape, PlanShape::kWeighted);
  // A line shows more than it ever has; that it shows less than it did says nothing.
  PlanChoice grown = refuted();
  const std::vector<double> less = {12 * kMega, 12 * kMega, 4 * kMega, 4 * kMega};
  const std::vector<double> little_more = {12 * kMega, 12 * kMega, 6 * kMega, 8.5 * kMega};
  const std::vector<double> more = {12 * kMega, 12 * kMega, 6 * kMega, 9.5 * kMega};
  EXPECT_EQ(Choose(&grown, OneRegion(less)).shape, PlanShape::kFlat);
  EXPECT_EQ(Choose(&grown, OneRegion(little_more)).shape, PlanShape::kFlat);
  EXPECT_EQ(Choose(&grown, OneRegion(kHalfSeen)).shape, PlanShape::kFlat);
  EXPECT_EQ(Choose(&grown, OneRegion(more)).shape, PlanShape::kFlat) << "8.5 had been seen";
  const std::vector<double> nearly_equal = {12 * kMega, 12 * kMega, 10 * kMega, 10 * kMega};
  EXPECT_EQ(Choose(&grown, OneRegion(nearly_equal)).shape, PlanShape::kFlat) << "too little saved";
  EXPECT_EQ(Choose(&grown, OneRegion(kHalfSeen)).shape, PlanShape::kWeighted) << "10 after 6";
}

// Would break: a change for which there was reason goes for one slow exchange, or because the lines
// were faster once.
TEST(PlanChoice, AChangeThatPaysStays) {
  PlanChoice faster(PlanKind::kAuto);
  ChangeAfter(&faster, 4.3);
  faster.NoteSeconds(5);
  faster.NoteSeconds(4.2);
  PlanChoice as_predicted(PlanKind::kAuto);
  const ChosenPlan predicted = ChangeAfter(&as_predicted, 2);
  for (int round = 0; round < 2; ++round) {
    as_predicted.NoteSeconds(1.2 * predicted.prediction->seconds);
  }
  for (PlanChoice* choice : {&faster, &as_predicted}) {
    EXPECT_EQ(Choose(choice, OneRegion(kHalfSeen)).change, "");
    for (int round = 0; round < 3; ++round) choice->NoteSeconds(9);
    EXPECT_EQ(Choose(choice, OneRegion(kHalfSeen)).shape, PlanShape::kWeighted);
  }
}

// Would break: a change is taken back for a peer that died, or never where peers die all the time;
// or two changes are judged as one.
TEST(PlanChoice, DisturbedExchangesSayNothingOfAChange) {
  PlanChoice choice(PlanKind::kAuto);
  ChangeAfter(&choice, 4.3);
  choice.NoteSeconds(9, true);
  choice.NoteSeconds(9, true);
  const std::vector<double> others = {6 * kMega, 2 * kMega, 12 * kMega, 12 * kMega};
  EXPECT_EQ(Choose(&choice, OneRegion(others)).change, "") << "one after another";
  choice.NoteSeconds(5);
  choice.NoteSeconds(5);
  EXPECT_EQ(Choose(&choice, OneRegion(kHalfSeen)).shape, PlanShape::kFlat);
  PlanChoice churn(PlanKind::kAuto);
  ChangeAfter(&churn, 4.3);
  for (int round = 0; round < 6; ++round) churn.NoteSeconds(9, true);
  EXPECT_NE(Choose(&churn, OneRegion(others)).change, "");
}

// Would break: the same rates that a plan has failed by are tried once more, by region.
TEST(PlanChoice, ShapesByRatesAreRefutedTogether) {
  LinkModel links;
  for (const char* region : {"a", "b"}) {
    const size_t number = links.AddRegion(region);
    for (int i = 1; i <= 3; ++i) {
      const double rate = (i == 3 ? 5 : 100) * kMega;
      links.AddPeer({absl::StrCat(region, i), number, rate, rate, absl::Milliseconds(1), true});
    }
  }
  links.AddLink(0, 1, 20 * kMega, absl::Milliseconds(80));
  links.ConnectDirectly();
  PlanChoice choice(PlanKind::kAuto);
  choice.NoteSeconds(1);
  ChosenPlan plan = Choose(&choice, links);
  if (!plan.prediction) {  // the trial by region
    choice.NoteSeconds(1);
    plan = Choose(&choice, links);
  }
  ASSERT_TRUE(Weighted(plan.shape)) << plan.change;
  choice.NoteSeconds(20);
  choice.NoteSeconds(20);
  for (int round = 0; round < 8; ++round) {
    EXPECT_FALSE(Weighted(Choose(&choice, links).shape)) << round;
    choice.NoteSeconds(1);
  }
}

// A small update of many peers, on lines of this rate.
ChosenPlan ChooseSmall(PlanChoice* choice, double rate) {
  const LinkModel links = OneRegion(std::vector<double>(64, rate));
  return choice->Choose(&links, std::vector<bool>(64, true), {1000000, 1e6, 1e6}, 245);
}

size_t Reducers(const ChosenPlan& plan) {
  return static_cast<size_t>(std::count_if(plan.bandwidths.begin(), plan.bandwidths.end(),
                                           [](double bandwidth) { return bandwidth > 0; }));
}

// Would break: slow lines of a few reducers that all others wait for; or as many streams as there
// can be where processors are what is slow, since then lines seem to be.
TEST(PlanChoice, MoreReducersAreTriedAndStayWhereTheyAreFaster) {
  PlanChoice choice(PlanKind::kAuto);
  choice.NoteSeconds(6);
  const size_t first =
      Reducers(choice.Choose(nullptr, std::vector<bool>(64, true), {1000000, 1e6, 1e6}, 245));
  EXPECT_LT(first, 16u);
  const ChosenPlan trial = ChooseSmall(&choice, kMega);
  EXPECT_EQ(Reducers(trial), 2 * first);
  EXPECT_THAT(trial.change, HasSubstr(absl::StrCat("one exchange with ", 2 * first)));
  EXPECT_FALSE(trial.prediction.has_value());
  choice.NoteSeconds(4);
  EXPECT_EQ(Reducers(ChooseSmall(&choice, kMega)), 4 * first);
  choice.NoteSeconds(3.9);
  for (int round = 0; round < 3; ++round) {
    const ChosenPlan next = ChooseSmall(&choice, kMega);
    EXPECT_EQ(Reducers(next), 2 * first);
    EXPECT_EQ(next.change, "");
    choice.NoteSeconds(4);
  }
  PlanChoice fast(PlanKind::kAuto);
  fast.NoteSeconds(0.1);
  EXPECT_EQ(Reducers(ChooseSmall(&fast, 1000 * kMega)), first);
}

// Would break: a few reducers that are the slowest of all, or that change whenever estimates do.
TEST(PlanChoice, TheFastestLinesReduce) {
  PlanChoice choice(PlanKind::kAuto);
  std::vector<double> rates(64, kMega);
  for (size_t i = 40; i < 64; ++i) rates[i] = 100 * kMega;
  const auto choose = [&] {
    const LinkModel links = OneRegion(rates);
    return choice.Choose(&links, std::vector<bool>(64, true), {1000000, 1e6, 1e6}, 245);
  };
  const ChosenPlan plan = choose();
  EXPECT_EQ(plan.shape, PlanShape::kWeighted);
  for (size_t i = 0; i < 64; ++i)
    EXPECT_EQ(plan.bandwidths[i] > 0, i >= 40 && i < 40 + Reducers(plan));
  rates[63] = 104 * kMega;
  EXPECT_EQ(choose().bandwidths, plan.bandwidths);
}

}  // namespace
}  // namespace atolld

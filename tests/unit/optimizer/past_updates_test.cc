#include "optimizer/past_updates.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace atolld {
namespace {

TEST(OffenderRule, LeavesOutAfterSoManyOffencesOfTheLastRounds) {
  // Broken: a peer would be left out for ever for old sins, or never.
  const OffenderRule rule{/*offences=*/2, /*rounds=*/4, /*outsized=*/10};
  OffenceRecord record = 0;
  record = AfterRound(record, true);
  EXPECT_FALSE(IsLeftOut(rule, record));
  record = AfterRound(record, false);
  record = AfterRound(record, true);
  EXPECT_TRUE(IsLeftOut(rule, record));
  EXPECT_EQ(RoundsUntilLetIn(rule, record), 2u);  // the first of the two is 4 rounds old then
  record = AfterRound(record, false);
  EXPECT_TRUE(IsLeftOut(rule, record));
  record = AfterRound(record, false);
  EXPECT_FALSE(IsLeftOut(rule, record));
  EXPECT_EQ(RoundsUntilLetIn(rule, record), 0u);
  EXPECT_EQ(Offences(rule, record), 1u);
}

TEST(OffenderRule, AgreesWithACountOverAnyHistory) {
  // Broken: shifts at the ends of the 64 bits.
  for (const uint32_t rounds : {1u, 2u, 31u, 63u, 64u}) {
    for (const uint32_t offences : {0u, 1u, rounds / 2, rounds}) {
      const OffenderRule rule{offences, rounds, 10};
      std::vector<bool> history;
      OffenceRecord record = 0;
      uint64_t state = 12345;
      for (int round = 0; round < 300; ++round) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        history.push_back(state >> 62 != 0);
        record = AfterRound(record, history.back());
        uint32_t counted = 0;
        for (size_t k = 0; k < rounds && k < history.size(); ++k) {
          counted += history[history.size() - 1 - k] ? 1 : 0;
        }
        ASSERT_EQ(Offences(rule, record), counted);
        ASSERT_EQ(IsLeftOut(rule, record), offences > 0 && counted >= offences);
      }
    }
  }
}

TEST(OffenderRule, MeasuresByTheReferenceNorm) {
  // Broken: the honest would be counted as offenders, or a NaN as honest.
  const OffenderRule rule{3, 16, 10};
  EXPECT_FALSE(IsOutsized(rule, 10, 1));
  EXPECT_TRUE(IsOutsized(rule, 10.01, 1));
  EXPECT_TRUE(IsOutsized(rule, std::numeric_limits<double>::infinity(), 1));
  EXPECT_TRUE(IsOutsized(rule, std::nan(""), 1));
  EXPECT_FALSE(IsOutsized(rule, 1e30, 0));
}

TEST(OffenderRule, ByDefaultNoLengthIsAnOffence) {
  // Broken: honest updates of a run that diverges would be.
  EXPECT_FALSE(IsOutsized(OffenderRule(), 1e30, 1));
  EXPECT_TRUE(IsOutsized(OffenderRule(), std::nan(""), 1));
}

TEST(ReferenceNorm, IsTheRoundsMedianWithinWhatIsUsual) {
  // Broken: where most lie, norms could grow without bound in one round, or one of two peers could
  // have the other's update scaled down to nothing.
  EXPECT_EQ(ReferenceNorm({}, 7), 7);
  EXPECT_EQ(ReferenceNorm({1, 1, 1}, 3), 3);
  EXPECT_EQ(ReferenceNorm({1, 1, 1}, 1e30), 4);
  EXPECT_EQ(ReferenceNorm({1, 1, 1}, 0.01), 0.25);
  EXPECT_EQ(ReferenceNorm({0, 0}, 5), 5);
}

TEST(ReferenceNorm, ForgetsOldRounds) {
  // Broken: norms at the beginning, the greatest, would be the measure for ever.
  std::vector<double> medians;
  for (int round = 0; round < 100; ++round) {
    RememberNorm(100, &medians);
    ASSERT_LE(medians.size(), kNormRounds);
  }
  EXPECT_EQ(RunningMedianNorm(medians), 100);
  for (size_t round = 0; round < kNormRounds / 2; ++round) RememberNorm(2, &medians);
  EXPECT_EQ(medians.size(), kNormRounds);
  EXPECT_EQ(RunningMedianNorm(medians), 2);
  std::vector<double> longer(1000, 50.0);
  longer.insert(longer.end(), kNormRounds, 3.0);
  EXPECT_EQ(RunningMedianNorm(longer), 3);
  RememberNorm(9, &longer);
  EXPECT_EQ(longer.size(), kNormRounds);
  EXPECT_EQ(longer.back(), 9);
}

}  // namespace

}  // namespace atolld

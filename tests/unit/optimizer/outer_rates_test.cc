#include "optimizer/outer_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace atolld {
namespace {

using ::testing::HasSubstr;

OuterRatesQuery QueryOf(double peers, double steps, bool muon = false, double parameters = 0) {
  OuterRatesQuery query;
  query.peers = peers;
  query.steps = steps;
  query.muon = muon;
  query.parameters = parameters;
  return query;
}

double RateOf(const OuterRatesQuery& query) { return NearestOuterRates(query).learning_rate; }

TEST(OuterRatesTest, ARunThatIsARowGetsIt) {
  // Broken: who repeats a published setting would train at another setting's rates.
  for (const OuterRates& row : OuterRatesTable()) {
    for (const double parameters : {1e6, 1e9}) {
      const bool large = row.size == OuterRates::Size::kLarge;
      const bool small = row.size == OuterRates::Size::kSmall;
      if ((parameters > kLargeModel && small) || (parameters < kLargeModel && large)) continue;
      OuterRatesQuery query = QueryOf(row.peers, row.steps, row.inner == OuterRates::Inner::kMuon);
      query.streaming = row.streaming;
      query.parameters = parameters;
      EXPECT_EQ(&NearestOuterRates(query), &row) << DescribeOuterRates(row);
    }
  }
}

TEST(OuterRatesTest, EachRowCanBeUsedAndSaysWhoFoundIt) {
  // Broken: a row without a source, or with a rate that no header takes, would reach a run.
  for (const OuterRates& row : OuterRatesTable()) {
    EXPECT_FALSE(row.source.empty());
    EXPECT_GT(row.learning_rate, 0);
    EXPECT_GE(row.momentum, 0);
    EXPECT_LT(row.momentum, 1);
    EXPECT_GE(row.peers, 1);
    EXPECT_GE(row.steps, 1);
  }
}

TEST(OuterRatesTest, BetweenRowsTheNearestInOctavesCounts) {
  // Broken: 12 peers would count as nearer to 8 than to 16, as they are in plain numbers.
  EXPECT_EQ(RateOf(QueryOf(11, 30)), 0.8);
  EXPECT_EQ(RateOf(QueryOf(12, 30)), 1.0);
  // Broken: the steps of a round would not count, or only they.
  EXPECT_EQ(RateOf(QueryOf(8, 120)), 0.8);
  EXPECT_EQ(RateOf(QueryOf(8, 125)), 0.7);
  // Four peers lie one octave above two and two octaves below sixteen.
  EXPECT_EQ(RateOf(QueryOf(4, 50, true)), 0.9);
  EXPECT_EQ(NearestOuterRates(QueryOf(4, 50, true)).momentum, 0.8);
}

TEST(OuterRatesTest, OfTwoAsNearTheOneWithFewerPeersCounts) {
  // Broken: the default would hang on the rounding of a logarithm, and so on the machine.
  const double between = std::sqrt(2.0 * 16.0);  // one and a half octaves from either
  EXPECT_EQ(NearestOuterRates(QueryOf(between, 30, true)).peers, 2);
  EXPECT_EQ(NearestOuterRates(QueryOf(between * 1.001, 30, true)).peers, 16);
}

TEST(OuterRatesTest, BeyondTheEndsTheLastRowCounts) {
  // Broken: a rate would be extrapolated that nobody has tried.
  EXPECT_EQ(RateOf(QueryOf(1024, 30)), 1.0);
  EXPECT_EQ(NearestOuterRates(QueryOf(1, 1)).steps, 5);
  // A share of a peer, as `participation` can make it, and nothing at all are one peer.
  EXPECT_EQ(RateOf(QueryOf(0.25, 30)), 0.4);
  EXPECT_EQ(RateOf(QueryOf(0, 30)), 0.4);
}

TEST(OuterRatesTest, ShortRoundsHaveLessMomentum) {
  // Broken: rounds of a few steps would add up the noise of ten of them, and end half a nat behind
  // rounds of 25 (docs/experiments.md).
  for (const double peers : {1, 2, 4, 8, 16}) {
    EXPECT_EQ(NearestOuterRates(QueryOf(peers, 2)).momentum, 0.6) << peers;
    EXPECT_EQ(NearestOuterRates(QueryOf(peers, 5)).momentum, 0.6) << peers;
    EXPECT_EQ(NearestOuterRates(QueryOf(peers, 10)).momentum, 0.8) << peers;
    EXPECT_EQ(NearestOuterRates(QueryOf(peers, 25)).momentum, 0.9) << peers;
  }
}

TEST(OuterRatesTest, SmallModelsOfFewPeersTakeMore) {
  // Broken: the quickstart's model would lose what docs/benchmarks.md has measured.
  for (const double peers : {2, 4}) {
    EXPECT_EQ(RateOf(QueryOf(peers, 30, false, 1e6)), 0.7) << peers;
    EXPECT_EQ(RateOf(QueryOf(peers, 30, false, 0)), 0.7) << peers;  // a size that is not known
    EXPECT_EQ(RateOf(QueryOf(peers, 30, false, kLargeModel)), 0.6) << peers;
  }
}

TEST(OuterRatesTest, StreamingHasRowsOfItsOwn) {
  // Broken: fragments would be moved at the rate of whole models, or the other way round.
  OuterRatesQuery query = QueryOf(2, 30);
  query.streaming = true;
  EXPECT_EQ(RateOf(query), 0.4);
  query.peers = 8;
  EXPECT_EQ(RateOf(query), 0.4);
  query.muon = true;
  EXPECT_EQ(RateOf(query), 0.8);
}

TEST(OuterRatesTest, ARowIsShownWithItsSource) {
  // Broken: nobody could tell where a run's default is from.
  EXPECT_EQ(DescribeOuterRates(NearestOuterRates(QueryOf(1, 30, true))),
            "0.7 / 0.6 (1 peer, 30 steps, muon; arXiv:2505.23725)");
  OuterRatesQuery streaming = QueryOf(2, 100);
  streaming.streaming = true;
  EXPECT_THAT(DescribeOuterRates(NearestOuterRates(streaming)),
              HasSubstr("(2 peers, 100 steps, adamw, streaming; arXiv:2501.18512)"));
}

}  // namespace
}  // namespace atolld

#include "membership/run/own_evaluation.h"

#include <cmath>

#include "gtest/gtest.h"

namespace atolld {
namespace {

absl::Time OwnSecond(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

v1::Evaluated OwnAnswer(const std::vector<double>& losses) {
  v1::Evaluated evaluated;
  for (const double loss : losses) evaluated.mutable_own()->add_losses(loss);
  evaluated.set_tokens(10);
  return evaluated;
}

// Broken: a percentile would be of another party than the nearest rank's.
TEST(OwnEvaluationTest, PercentilesAreNearestRanks) {
  const std::vector<double> ten = {10, 9, 8, 7, 6, 5, 4, 3, 2, 1};
  EXPECT_EQ(NearestRank(ten, 0.1), 1);
  EXPECT_EQ(NearestRank(ten, 0.9), 9);
  EXPECT_EQ(NearestRank({3, 1, 2}, 0.1), 1);
  EXPECT_EQ(NearestRank({3, 1, 2}, 0.9), 3);
  EXPECT_EQ(NearestRank({5}, 0.5), 5);
  EXPECT_TRUE(std::isnan(NearestRank({}, 0.5))) << "of none there is no rank";
  EXPECT_EQ(NearestRank({2, std::nan(""), 1}, 0.5), 2) << "NaN is worse than every number";
  EXPECT_TRUE(std::isnan(NearestRank({2, std::nan(""), 1}, 0.9)));
}

// Broken: parties would count by their data, one answer would count twice, or one that nobody
// asked.
TEST(OwnEvaluationTest, EveryPartyCountsOnce) {
  OwnEvaluation own;
  EXPECT_TRUE(own.Ask(OwnSecond(0), 4, "a")->own());
  EXPECT_EQ(own.Ask(OwnSecond(0), 4, "b")->shares(), 0u);
  EXPECT_FALSE(own.Ask(OwnSecond(1), 4, "a"));
  EXPECT_EQ(own.OnEvaluated(OwnSecond(2), "a", OwnAnswer({1, 2})), absl::Seconds(2));
  EXPECT_FALSE(own.OnEvaluated(OwnSecond(2), "a", OwnAnswer({7})));
  EXPECT_FALSE(own.OnEvaluated(OwnSecond(2), "c", OwnAnswer({7})));
  EXPECT_EQ(own.Holders(), std::set<std::string>{"b"});
  own.OnEvaluated(OwnSecond(2), "b", OwnAnswer({6, 3}));
  v1::EvaluationRecord record;
  own.Show(&record);
  EXPECT_EQ(record.own_parties(), 4u);
  EXPECT_EQ(record.own_mean(), 3);
  EXPECT_EQ(record.own_tenth(), 1);
  EXPECT_EQ(record.own_ninetieth(), 6);
  EXPECT_EQ(own.tokens(), 20u);
}

// Broken: a party whose model has diverged would not be seen in the figures, which would be those
// of the others.
TEST(OwnEvaluationTest, ALossThatIsNotANumberIsShownAsOne) {
  OwnEvaluation own;
  own.Ask(OwnSecond(0), 4, "a");
  own.OnEvaluated(OwnSecond(1), "a", OwnAnswer({4, std::nan(""), 2, 3}));
  v1::EvaluationRecord record;
  own.Show(&record);
  EXPECT_EQ(record.own_parties(), 4u);
  EXPECT_TRUE(std::isnan(record.own_mean()));
  EXPECT_EQ(record.own_tenth(), 2);
  EXPECT_TRUE(std::isnan(record.own_ninetieth()));
  v1::EvaluationRecord none;
  OwnEvaluation().Show(&none);
  EXPECT_EQ(none.own_parties(), 0u);
}

// Broken: an evaluator that dies or hangs holds the evaluation up.
TEST(OwnEvaluationTest, NobodyIsWaitedForWithoutASignOfLife) {
  OwnEvaluation own;
  for (const char* peer : {"a", "b", "c"}) own.Ask(OwnSecond(0), 1, peer);
  const absl::Duration patience = absl::Seconds(10), most = absl::Seconds(30);
  EXPECT_EQ(own.Deadline(patience, most), OwnSecond(10));
  own.TakeBack("c");  // died
  own.OnProgress(OwnSecond(8), "b", 5);
  EXPECT_EQ(own.TakeOverdue(OwnSecond(10), patience, most), std::set<std::string>{"a"});
  EXPECT_FALSE(own.Ask(OwnSecond(11), 1, "a")) << "it has had its time";
  EXPECT_TRUE(own.Ask(OwnSecond(11), 1, "c")) << "it is back";
  own.OnProgress(OwnSecond(16), "b", 6);
  own.OnProgress(OwnSecond(24), "b", 7);
  EXPECT_EQ(own.TakeOverdue(OwnSecond(30), patience, most), (std::set<std::string>{"b", "c"}));
  EXPECT_TRUE(own.Holders().empty());
}

}  // namespace
}  // namespace atolld

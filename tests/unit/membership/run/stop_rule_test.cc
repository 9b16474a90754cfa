#include "membership/run/stop_rule.h"

#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

// Of versions 0, 5, 10, ...
std::vector<v1::EvaluationRecord> Losses(const std::vector<double>& losses) {
  std::vector<v1::EvaluationRecord> records;
  for (const double loss : losses) {
    v1::EvaluationRecord& record = records.emplace_back();
    record.set_version(5 * (records.size() - 1));
    record.set_loss(loss);
    record.set_tokens(4096);
  }
  return records;
}

std::string Why(const StopRule& rule, const std::vector<double>& losses) {
  return WhyEnough(rule, Losses(losses), 1000, absl::Seconds(90));
}

// Would break: a run ends too early, too late, or never.
TEST(StopRule, TheFirstLossBelowIsEnough) {
  StopRule rule;
  EXPECT_FALSE(rule.any());
  EXPECT_EQ(Why(rule, {5, 1e-9}), "");
  rule.loss_below = 2;
  EXPECT_TRUE(rule.any());
  EXPECT_EQ(Why(rule, {}), "");
  EXPECT_EQ(Why(rule, {5, 3, 2}), "");
  EXPECT_EQ(Why(rule, {5, 3, 1.75}), "the validation loss of version 10 is 1.7500, below 2");
  // It stands, whatever came after it.
  EXPECT_NE(Why(rule, {5, 1.75, 3}), "");
}

TEST(StopRule, EvaluationsWithoutALowerLossAreCounted) {
  StopRule rule;
  rule.no_improvement = 2;
  EXPECT_EQ(Why(rule, {5}), "");
  EXPECT_EQ(Why(rule, {5, 4, 4}), "");
  EXPECT_EQ(Why(rule, {5, 4, 4.5, 3, 3.5}), "");
  EXPECT_EQ(Why(rule, {5, 4, 4.5, 4}),
            "2 evaluations in a row found no lower loss than 4.0000 of version 5");
  const double none = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(Why(rule, {5, 4, none, none}), "");
  EXPECT_EQ(Why(rule, {none, none}), "2 evaluations in a row found no loss that is a number");
}

// Would break: a run without held-out data ends at once, since its loss of 0 is below any.
TEST(StopRule, NothingEvaluatedIsNoLoss) {
  std::vector<v1::EvaluationRecord> records(5);  // 0 over 0 tokens, as earlier releases had it
  StopRule rule;
  rule.loss_below = 2;
  EXPECT_EQ(WhyEnough(rule, records, 0, absl::ZeroDuration()), "");
  rule.no_improvement = 2;
  EXPECT_EQ(WhyEnough(rule, records, 0, absl::ZeroDuration()), "");
}

TEST(StopRule, TokensAndTimeAreThoseOfTheRun) {
  StopRule rule;
  rule.tokens = 1001;
  rule.time = absl::Seconds(91);
  EXPECT_EQ(Why(rule, {5}), "");
  rule.tokens = 1000;
  EXPECT_EQ(Why(rule, {5}), "1000 tokens are trained on, of 1000");
  rule.tokens = 0;
  rule.time = absl::Seconds(90);
  EXPECT_EQ(Why(rule, {5}), "it has trained for 1m30s");
}

// Would break: a run that has come far enough goes on, or ends without its loss or its seal, or a
// restarted coordinator forgets why it ends.
TEST(RunStop, ComesByItselfWhereTheConfigWantsIt) {
  SimulatedPeers peers(2, 2, 9);
  peers.settings.stop_when.tokens = 400;
  peers.Restart();
  peers.Begin({"a", "b"});
  peers.Commit({"a", "b"});
  EXPECT_FALSE(peers.run->Status(peers.now).stopping());
  peers.Commit({"a", "b"});
  EXPECT_TRUE(
      peers.Said("come far enough: 400 tokens are trained on, of 400; its last version is 2"));
  EXPECT_TRUE(peers.stored.control.stopping());
  peers.Restart();
  peers.ComeBack({"a", "b"});
  EXPECT_THAT(peers.run->Status(peers.now).stopped_because(), HasSubstr("400 tokens"));
  for (const char* peer : {"a", "b"}) peers.Evaluate(peer);
  for (const char* peer : {"a", "b"}) peers.Report(peer);
  ASSERT_TRUE(peers.stored.seal.has_value());
  EXPECT_EQ(peers.stored.seal->version(), 2u);
  EXPECT_THAT(peers.run->Status(peers.now).stopped_because(), HasSubstr("400 tokens"));
}

// Would break: what an operator has paused would be sealed under their hands.
TEST(RunStop, NothingStopsAPausedRun) {
  SimulatedPeers peers(2, 2, 9);
  peers.settings.stop_when.loss_below = 3.5;  // every loss is 3
  peers.Begin({"a", "b"});
  ASSERT_TRUE(peers.Order(RunOrder::Verb::kPause).ok());
  peers.Restart();
  peers.ComeBack({"a", "b"});
  peers.Tick(absl::Minutes(1));
  EXPECT_FALSE(peers.stored.control.stopping());
  ASSERT_TRUE(peers.Order(RunOrder::Verb::kResume).ok());
  EXPECT_TRUE(peers.stored.control.stopping());
}

}  // namespace
}  // namespace atolld

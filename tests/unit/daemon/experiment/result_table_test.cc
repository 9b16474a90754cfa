#include "daemon/experiment/result_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace atolld {
namespace {

using ::testing::ElementsAre;

RunResult ResultOf(const std::string& setting, uint64_t seed, std::vector<double> losses) {
  RunResult result;
  result.setting = setting;
  result.seed = seed;
  result.wall_seconds = 10;
  for (size_t i = 0; i < losses.size(); ++i) {
    ResultRow row;
    row.version = i;
    row.tokens = 1000 * static_cast<double>(i);
    row.bytes = 500 * static_cast<double>(i);
    row.loss = losses[i];
    result.rows.push_back(row);
  }
  return result;
}

TEST(ResultTableTest, MeanAndSampleStandardDeviation) {
  // Broken: the spread would be that of a whole population, too small for three seeds.
  const MeanAndSpread four = Summarise({2, 4, 4, 6});
  EXPECT_EQ(four.count, 4u);
  EXPECT_DOUBLE_EQ(four.mean, 4);
  EXPECT_DOUBLE_EQ(four.spread, std::sqrt(8.0 / 3));
  EXPECT_EQ(Summarise({3}).spread, 0);
  EXPECT_EQ(Summarise({}).count, 0u);
}

TEST(ResultTableTest, TargetsCountTheSeedsThatReachThem) {
  // Broken: a setting that never comes so far would look faster than one that does.
  const std::vector<RunResult> results = {ResultOf("A", 1, {5, 3, 2, 1}),
                                          ResultOf("A", 2, {5, 4, 3, 2.5}),
                                          ResultOf("B", 1, {5, 5, 5, 5})};
  const std::vector<SettingRow> table = MakeTable({"A", "B", "C"}, 2, results, 3);
  ASSERT_EQ(table.size(), 3u);
  EXPECT_DOUBLE_EQ(table[0].loss.mean, 1.75);
  EXPECT_DOUBLE_EQ(table[0].target_rounds.mean, 1.5);
  EXPECT_DOUBLE_EQ(table[0].target_tokens.mean, 1500);
  EXPECT_DOUBLE_EQ(table[0].target_bytes.mean, 750);
  EXPECT_EQ(table[1].target_rounds.count, 0u);
  EXPECT_EQ(table[2].seeds, 0u);
  const TableText text = TextOf(table, 3);
  EXPECT_THAT(text.headings,
              ElementsAre("setting", "seeds", "loss", "rounds to target", "tokens to target",
                          "sent to target", "tokens", "sent", "time"));
  EXPECT_EQ(text.rows[0][2], "1.7500 ± 1.0607");
  EXPECT_EQ(text.rows[1][1], "1 of 2");
  EXPECT_EQ(text.rows[1][3], "-");
  EXPECT_EQ(text.rows[2][2], "-");
  EXPECT_EQ(TableLines(text).size(), 4u);
}

TEST(ResultTableTest, JsonHasTheSameFigures) {
  // Broken: a script would read other figures than people do.
  const nlohmann::ordered_json json = TableJson(MakeTable({"A"}, 1, {ResultOf("A", 1, {5, 2})}, 0));
  EXPECT_EQ(json[0]["loss"]["mean"], 2.0);
  EXPECT_TRUE(json[0]["loss"]["spread"].is_null());
  EXPECT_TRUE(json[0]["own_mean"].is_null());
}

TEST(RunResultTest, ReadsWhatALocalRunLeaves) {
  // Broken: the report would show other figures than the run had.
  const std::string report =
      R"({"parameters": 7, "codec": "int8", "state_digest": "ab", "wall_seconds": 3.5,
          "bytes_sent_per_peer_per_round": 100, "least_busy": 0.125})";
  const std::string metrics =
      R"({"version":0,"time/elapsed_seconds":0,"validation/loss":5.5,"train/total_tokens":0})"
      "\n"
      R"({"version":1,"time/elapsed_seconds":2,"train/total_tokens":64,"train/contributors":4,)"
      R"("time/compute_utilization":0.5})"
      "\n"
      R"({"version":2,"validation/loss":4.5,"validation/own_mean":4.25,"train/total_tokens":128,)"
      R"("train/contributors":3,"privacy/epsilon":null,"time/compute_utilization":0.75})"
      "\n";
  const auto result = MakeRunResult("A", 2, "01-a-seed-2", report, metrics);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->rows.size(), 3u);
  EXPECT_EQ(result->Newest(&ResultRow::bytes), 700);
  EXPECT_EQ(result->Newest(&ResultRow::tokens), 128);
  EXPECT_EQ(result->Newest(&ResultRow::loss), 4.5);
  EXPECT_EQ(result->Newest(&ResultRow::own_mean), 4.25);
  EXPECT_EQ(result->Newest(&ResultRow::epsilon), std::nullopt);
  EXPECT_EQ(result->Mean(&ResultRow::utilisation), 0.625) << "version 0 has none";
  EXPECT_EQ(result->Mean(&ResultRow::epsilon), std::nullopt);
  const TableText table = TextOf(MakeTable({"A"}, 1, {*result}, 0), 0);
  EXPECT_EQ(table.headings.end()[-3], "utilisation");
  EXPECT_EQ(table.rows[0].end()[-3], "62.5 %");
  EXPECT_EQ(table.headings.end()[-2], "least busy");
  EXPECT_EQ(table.rows[0].end()[-2], "12.5 %");
  EXPECT_EQ(result->Reaching(5)->version, 2u);
  EXPECT_EQ(result->Reaching(1), nullptr);
  const auto again = ParseResultLine(ResultLine(*result));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(ResultLine(*again), ResultLine(*result));
  EXPECT_TRUE(IsSealedReport(report));
  EXPECT_FALSE(IsSealedReport(R"({"state_digest": ""})"));
  EXPECT_FALSE(IsSealedReport("{"));
  EXPECT_FALSE(MakeRunResult("A", 2, "x", "{", "").ok());
  EXPECT_FALSE(ParseResultLine("[]").ok());
}

TEST(RunResultTest, NothingEvaluatedIsNoLossAndNaNIsOne) {
  // Broken: a run without held-out data would reach every target at once, with the best loss of
  // all; one that ended at NaN would show the loss before that.
  const std::string report = R"({"loss_unit": "nats a byte", "state_digest": "ab"})";
  const auto diverged = MakeRunResult("hot", 1, "hot-1", report,
                                      R"({"version":0,"validation/loss":5.5})"
                                      "\n"
                                      R"({"version":1,"validation/loss":"NaN"})"
                                      "\n");
  const auto unknown =
      MakeRunResult("none", 1, "none-1", report, R"({"version":1,"validation/loss":null})");
  ASSERT_TRUE(diverged.ok() && unknown.ok());
  EXPECT_TRUE(std::isnan(*diverged->Newest(&ResultRow::loss)));
  EXPECT_EQ(diverged->Reaching(3), nullptr);
  EXPECT_EQ(unknown->Newest(&ResultRow::loss), std::nullopt);
  EXPECT_EQ(unknown->Reaching(3), nullptr);
  EXPECT_EQ(unknown->Newest(&ResultRow::bytes), std::nullopt) << "nobody has told it";
  EXPECT_EQ(unknown->loss_unit, "nats a byte");
  EXPECT_THAT(ResultLine(*unknown), ::testing::HasSubstr(R"("parameters":null)"));
  EXPECT_THAT(ResultLine(*unknown), ::testing::HasSubstr(R"("wall_seconds":null)"));
  EXPECT_THAT(ResultLine(*diverged), ::testing::HasSubstr(R"("loss":"NaN")"));
  const auto again = ParseResultLine(ResultLine(*diverged));
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(std::isnan(*again->Newest(&ResultRow::loss)));

  const std::vector<RunResult> results = {*diverged, ResultOf("hot", 2, {5, 2}), *unknown};
  const std::vector<SettingRow> table = MakeTable({"hot", "none"}, 2, results, 3);
  const TableText text = TextOf(table, 3);
  EXPECT_EQ(text.rows[0][2], "NaN (1 of 2)");
  EXPECT_EQ(text.rows[0][3], "1.0 (1 of 2)");
  EXPECT_EQ(text.rows[1][2], "-");
  EXPECT_EQ(text.rows[1][3], "-");
  EXPECT_EQ(TextOf(MakeTable({"hot"}, 1, {*diverged}, 0), 0).rows[0][2], "NaN");
  const nlohmann::ordered_json json = TableJson(table);
  EXPECT_EQ(json[0]["loss"]["mean"], "NaN");
  EXPECT_EQ(json[0]["loss"]["not_finite"], 1);
  EXPECT_TRUE(json[1]["loss"].is_null());
}

}  // namespace
}  // namespace atolld

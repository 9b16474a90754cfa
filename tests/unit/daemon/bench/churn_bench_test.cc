#include "daemon/bench/churn_bench.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "daemon/config/config_text.h"

namespace atolld {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

ChurnRunResult Result(uint64_t rounds, uint64_t tokens) {
  ChurnRunResult result;
  result.seconds = 20;
  result.rounds = rounds;
  result.tokens = tokens;
  result.mean_live_fraction = 1;
  result.losses = {{0, 1}, {tokens / 2, 0.5}, {tokens, 0.25}};
  result.digests_equal = true;
  result.trace.began = At(0);
  result.trace.peers = {"peer-1", "peer-2", "peer-3"};
  for (uint64_t i = 1; i <= rounds; ++i) {
    result.trace.commits.push_back({At(20.0 * static_cast<double>(i) / static_cast<double>(rounds)),
                                    i,
                                    {"peer-1", "peer-2", "peer-3"}});
  }
  return result;
}

ChurnReport Report() {
  ChurnTerms terms;
  terms.seed = 7;
  terms.config = DefaultChurnConfig();
  terms.config.run.peers = 3;
  terms.config.run.quorum = 2;
  terms.planned = 3;
  ChurnRunResult faulty = Result(16, 720);
  faulty.mean_live_fraction = 0.9;
  faulty.rss_growth = 0.125;
  LandedFault kill;
  kill.planned.kind = FaultKind::kKillPeer;
  kill.victim = "peer-2";
  kill.at = At(5.5);
  kill.healed = At(6);
  kill.steps_at_stake = 10;
  LandedFault worker;
  worker.planned.kind = FaultKind::kFreezeWorker;
  worker.victim = "peer-1";
  worker.at = At(10.5);
  worker.healed = At(11);
  faulty.trace.faults = {kill, worker};
  for (const char* peer : {"peer-1", "peer-3"}) {
    faulty.trace.logs[peer] = {{At(5.75), "peer peer-2 is dead"}};
  }
  faulty.trace.logs["coordinator"] = {{At(7), "round 6: peer peer-2 ...; it trains anew"}};
  return MakeChurnReport(terms, Result(20, 1000), faulty);
}

// Broken: the figures that the benchmark is for would be wrong or missing: their keys are what
// scripts rely on.
TEST(ChurnReport, JsonHasEveryFigure) {
  const nlohmann::json json = nlohmann::json::parse(ChurnJson(Report()));
  EXPECT_EQ(json["faults_planned"], 3);
  EXPECT_EQ(json["faults_landed"], 2);
  EXPECT_EQ(json["rounds_committed"], 16);
  EXPECT_EQ(json["rounds_committed_fault_free"], 20);
  EXPECT_EQ(json["tokens_committed"], 720);
  EXPECT_EQ(json["tokens_committed_fault_free"], 1000);
  EXPECT_EQ(json["mean_live_fraction"], 0.9);
  EXPECT_NEAR(json["goodput"].get<double>(), 0.8, 1e-9);  // 720 of 1000 x 0.9
  EXPECT_EQ(json["digests_equal"], true);
  EXPECT_EQ(json["loss"], 0.25);
  EXPECT_EQ(json["loss_fault_free"], 0.25);
  // 720 tokens: 220 of the 500 from the second evaluation to the third.
  EXPECT_NEAR(json["loss_fault_free_at_equal_tokens"].get<double>(), 0.39, 1e-9);
  EXPECT_EQ(json["seconds_to_detect_p50"], 0.25);
  EXPECT_EQ(json["seconds_to_detect_p95"], 0.25);
  EXPECT_EQ(json["seconds_to_rejoin_p50"], 0.25);  // 6.25 - 6, and 11.25 - 11
  EXPECT_EQ(json["lost_inner_steps"], 60);         // 10 at the kill, one training of 50 thrown away
  EXPECT_EQ(json["rss_growth"], 0.125);
  EXPECT_EQ(json["failure_timeout"], 3.0);
  ASSERT_EQ(json["faults"].size(), 2u);
  EXPECT_EQ(json["faults"][0]["kind"], "kill_peer");
  EXPECT_EQ(json["faults"][0]["victim"], "peer-2");
  EXPECT_EQ(json["faults"][0]["at"], 5.5);
  EXPECT_EQ(json["faults"][0]["detected_seconds"], 0.25);
  EXPECT_EQ(json["faults"][0]["round_delay_seconds"], 0.25);  // rounds of 1.25 s, 1 s undisturbed
  EXPECT_TRUE(json["faults"][1]["detected_seconds"].is_null());
  EXPECT_EQ(json["kinds"]["kill_peer"]["landed"], 1);
  EXPECT_EQ(json["kinds"]["kill_peer"]["undetected"], 0);
  EXPECT_EQ(json["kinds"]["freeze_worker"]["undetected"], 0);
  EXPECT_FALSE(json["kinds"].contains("black_hole_peer"));
}

// Broken: replicas that differ would be reported as equal, or nobody would say which.
TEST(ChurnReport, ADifferenceInEitherRunIsSaid) {
  ChurnTerms terms;
  terms.config = DefaultChurnConfig();
  ChurnRunResult differing = Result(20, 1000);
  differing.digests_equal = false;
  differing.digest_problem = "peer-1 and peer-3 differ";
  for (const bool first : {true, false}) {
    const ChurnReport report = MakeChurnReport(terms, first ? differing : Result(20, 1000),
                                               first ? Result(20, 1000) : differing);
    EXPECT_FALSE(report.digests_equal);
    EXPECT_NE(absl::StrJoin(ChurnTable(report), "\n").find("peer-1 and peer-3 differ"),
              std::string::npos);
  }
}

// Broken: the table would show another kind's figures, or none.
TEST(ChurnReport, TheTableHasARowAKind) {
  const std::string table = absl::StrJoin(ChurnTable(Report()), "\n");
  EXPECT_NE(table.find("kill_peer                1  0.250 / 0.250"), std::string::npos) << table;
  EXPECT_NE(table.find("goodput           80.0 %"), std::string::npos) << table;
  EXPECT_EQ(table.find("black_hole"), std::string::npos);
}

// Broken: the shipped file would describe another run than the benchmark's own.
TEST(ChurnReport, TheShippedConfigIsTheDefault) {
  const absl::StatusOr<Config> shipped = LoadConfig(ATOLL_CHURN_CONFIG, ConfigUse::kLocal);
  ASSERT_TRUE(shipped.ok()) << shipped.status();
  EXPECT_EQ(FormatConfig(*shipped), FormatConfig(DefaultChurnConfig()));
}

}  // namespace
}  // namespace atolld

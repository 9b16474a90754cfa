#include "daemon/cli/local/local_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/unit/daemon/figures/run_statuses.h"

namespace atolld {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

RunHistory FinishedRun() {
  RunHistory history;
  v1::RunStatus status = StatusAt(1, 10, 100);
  for (uint64_t version = 1; version <= 10; ++version) {
    AddRound(&status, version, 10.0 * static_cast<double>(version), 3.0);
  }
  AddEvaluation(&status, 0, 5.5);
  AddEvaluation(&status, 10, 1.75);
  status.set_tokens(24000);
  status.mutable_noise()->set_tokens(84731.5);
  status.mutable_noise()->set_round_tokens(57600);
  status.mutable_seal()->set_version(10);
  status.mutable_seal()->set_state_digest("\x01\xff");
  for (const char* id : {"peer-1", "peer-2"}) {
    v1::PeerStatus* peer = AddPeer(&status, id, 10000, 80, 10);
    peer->set_tokens(12000);
    peer->set_state_version(10);
    peer->set_state_digest("\x01\xff");
  }
  history.Take(status, 1100);
  return history;
}

TEST(LocalReportTest, JsonHasTheKeysThatScriptsRelyOn) {
  // Broken: scripts that read the report of `atoll local --json` would fail.
  const LocalReport report =
      MakeLocalReport(FinishedRun(), {{"peer-1", 11, 0}, {"peer-2", 12, -9}});
  const auto json = nlohmann::ordered_json::parse(ReportJson(report));
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(
      keys, ElementsAre("run_id", "rounds", "peers_started", "initial_val_loss", "final_val_loss",
                        "loss_unit", "tokens", "wall_seconds", "compute_utilization", "least_busy",
                        "parameters", "inner_steps", "codec", "bytes_sent_per_peer_per_round",
                        "fp32_bytes_per_peer_per_round", "gradient_noise_scale", "state_digest",
                        "peers"));
  keys.clear();
  for (const auto& [key, value] : json["peers"][0].items()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("id", "pid", "rounds_contributed", "tokens", "version",
                                "state_digest", "exit"));
  EXPECT_EQ(json["run_id"], "test-run");
  EXPECT_EQ(json["rounds"], 10);
  EXPECT_EQ(json["initial_val_loss"], 5.5);
  EXPECT_EQ(json["final_val_loss"], 1.75);
  EXPECT_EQ(json["wall_seconds"], 100.0);
  EXPECT_EQ(json["compute_utilization"], 0.8);
  EXPECT_EQ(json["bytes_sent_per_peer_per_round"], 1000.0);
  EXPECT_EQ(json["fp32_bytes_per_peer_per_round"], 4000.0);  // 2 * 1/2 * 4 * 1000
  EXPECT_EQ(json["gradient_noise_scale"], 84731.5);
  EXPECT_EQ(json["state_digest"], "01ff");
  EXPECT_EQ(json["peers"][0]["exit"], 0);
  EXPECT_EQ(json["peers"][1]["exit"], -9);
  EXPECT_EQ(json["peers"][1]["pid"], 12);
}

TEST(LocalReportTest, WhatIsUnknownIsNull) {
  // Broken: a run without an evaluation would report a loss of 0, the best of all.
  const LocalReport report = MakeLocalReport(RunHistory(), {{"peer-1", 11, std::nullopt}});
  const auto json = nlohmann::json::parse(ReportJson(report));
  // What this process has counted itself; all else is of others, who have said nothing.
  const std::set<std::string> counted = {
      "/rounds",        "/peers_started", "/tokens", "/peers/0/pid", "/peers/0/rounds_contributed",
      "/peers/0/tokens"};
  const auto flat = json.flatten();
  for (const auto& [place, value] : flat.items()) {
    EXPECT_TRUE(value.is_string() || value.is_null() || counted.count(place) == 1)
        << place << " is " << value;
  }
  for (const char* figure : {"initial_val_loss", "final_val_loss", "gradient_noise_scale",
                             "least_busy", "compute_utilization", "bytes_sent_per_peer_per_round",
                             "wall_seconds", "parameters", "fp32_bytes_per_peer_per_round"}) {
    EXPECT_TRUE(json[figure].is_null()) << figure;
  }
  for (const char* figure : {"exit", "version"}) {
    EXPECT_TRUE(json["peers"][0][figure].is_null()) << figure;
  }
  // Nor does the table for people show it as 0.
  for (const std::string& row : ReportTable(report)) {
    EXPECT_THAT(row, Not(HasSubstr("0.0 s")));
    EXPECT_THAT(row, Not(HasSubstr("0 B")));
  }
  const std::string table = absl::StrJoin(ReportTable(report), "\n");
  for (const char* title : {"parameters", "time", "compute utilisation", "sent a peer a round"}) {
    EXPECT_THAT(table, ContainsRegex(absl::StrCat(title, " +not known")));
  }
}

TEST(LocalReportTest, NothingEvaluatedIsNoLossAndNaNIsOne) {
  // Broken: a run without held-out data would report a loss of 0, and one that diverged nothing.
  v1::RunStatus status = StatusAt(1, 2, 20);
  for (const uint64_t version : {0, 2}) AddEvaluation(&status, version, 0);
  for (v1::EvaluationRecord& one : *status.mutable_evaluations()) one.set_tokens(0);
  RunHistory nothing;
  nothing.Take(status, 20);
  const LocalReport unknown = MakeLocalReport(nothing, {});
  EXPECT_EQ(unknown.initial_val_loss, std::nullopt);
  EXPECT_EQ(unknown.final_val_loss, std::nullopt);
  EXPECT_TRUE(LossChart(nothing).series[1].points.empty());
  EXPECT_THAT(absl::StrJoin(ReportTable(unknown), "\n"), HasSubstr("not evaluated"));

  status.clear_evaluations();
  AddEvaluation(&status, 2, -std::nan(""));
  RunHistory diverged;
  diverged.Take(status, 20);
  const LocalReport report = MakeLocalReport(diverged, {});
  EXPECT_EQ(nlohmann::json::parse(ReportJson(report))["final_val_loss"], "NaN");
  EXPECT_THAT(absl::StrJoin(ReportTable(report), "\n"),
              HasSubstr("validation loss after   NaN nats a byte"));
}

TEST(LocalReportTest, AllReduceBytesIsTheKnownFormula) {
  // Broken: the comparison with fp32 data parallel would flatter or blame.
  EXPECT_EQ(AllReduceBytes(1000, 1), 0);
  EXPECT_EQ(AllReduceBytes(1000, 2), 4000);
  EXPECT_NEAR(AllReduceBytes(3000, 3), 16000, 1e-6);
}

TEST(LocalReportTest, DifferingReplicasAreSeen) {
  // Broken: the one law of the system, equal bits everywhere, could be broken unseen.
  RunHistory history = FinishedRun();
  EXPECT_TRUE(MakeLocalReport(history, {{"peer-1", 1, 0}, {"peer-2", 2, 0}}).digests_agree());
  v1::RunStatus status = StatusAt(1, 10, 100);
  AddPeer(&status, "peer-2", 10000, 80, 10)->set_state_digest("other");
  status.mutable_peers(0)->set_state_version(10);
  history.Take(status, 1100);
  const LocalReport report = MakeLocalReport(history, {{"peer-1", 1, 0}, {"peer-2", 2, 0}});
  EXPECT_FALSE(report.digests_agree());
  EXPECT_THAT(absl::StrJoin(ReportTable(report), "\n"), HasSubstr("PEERS DIFFER"));
}

TEST(LocalReportTest, TableComparesWithDataParallel) {
  // Broken: the reader would not see what the run saved.
  const LocalReport report = MakeLocalReport(FinishedRun(), {{"peer-1", 11, 0}, {"peer-2", 12, 0}});
  const std::string table = absl::StrJoin(ReportTable(report), "\n");
  EXPECT_THAT(table, HasSubstr("5.5000 nats a byte"));
  EXPECT_THAT(table, HasSubstr("1.7500 nats a byte"));
  EXPECT_THAT(table, HasSubstr("1.0 kB"));
  EXPECT_THAT(table, HasSubstr("4.0 kB (4.0x)"));
  EXPECT_THAT(table, HasSubstr("100 kB (100x)"));
  EXPECT_THAT(table, HasSubstr("80.0 %"));
  EXPECT_THAT(table, HasSubstr("85,000 tokens a round\n"));
  EXPECT_THAT(table, HasSubstr("these peers make 57,600         more peers still help"));
  EXPECT_THAT(table, HasSubstr("the same at 2 of 2 peers"));
}

TEST(LocalReportTest, OnePeerIsOne) {
  // Broken: a run of one peer would end with "1 peers".
  LocalReport report = MakeLocalReport(FinishedRun(), {{"peer-1", 11, 0}});
  report.inner_steps = 1;
  report.peers_started = 1;
  EXPECT_THAT(absl::StrJoin(ReportTable(report), "\n"), HasSubstr(" of 1 step, 1 peer\n"));
}

TEST(LocalReportTest, ALossIsInWhatTheDataIsIn) {
  // Broken: nats a token of 4 bytes would be read as four times as bad as they are.
  const auto unit_of = [](const char* kind, const char* tokenizer, const char* digest,
                          uint32_t vocabulary = 256) {
    v1::RunStatus status = StatusAt(1, 10, 100);
    status.mutable_spec()->mutable_model()->set_vocabulary(vocabulary);
    v1::DataSpec& data = *status.mutable_spec()->mutable_data();
    data.set_kind(kind);
    data.set_tokenizer(tokenizer);
    data.set_tokenizer_digest(digest);
    RunHistory history;
    history.Take(status, 1100);
    return MakeLocalReport(history, {{"peer-1", 11, 0}}).loss_unit;
  };
  EXPECT_EQ(unit_of("text", "bytes", ""), "nats a byte");
  EXPECT_EQ(unit_of("jsonl", "", ""), "nats a byte");
  EXPECT_EQ(unit_of("text", "chars", ""), "nats a token");
  EXPECT_EQ(unit_of("prepared", "bytes", "a table's"), "nats a token");
  EXPECT_EQ(unit_of("npy", "bytes", ""), "nats a token");
  // A folder of nanoGPT's ids is of kind "text" too, and nobody knows their tokenizer.
  EXPECT_EQ(unit_of("text", "", "", 50257), "nats a token");
  EXPECT_EQ(unit_of("arrays", "", ""), "");
}

TEST(LocalReportTest, TheChartLeavesOutLossesThatAreNotKnown) {
  // Broken: the curve would fall to 0 at each round that was adopted from the peers.
  RunHistory history;
  v1::RunStatus status = StatusAt(1, 3, 30);
  AddRound(&status, 1, 10, 4.0);
  AddRound(&status, 2, 20, 0);
  AddRound(&status, 3, 30, 3.0);
  history.Take(status, 30);
  const Chart chart = LossChart(history);
  ASSERT_EQ(chart.series[0].points.size(), 2u);
  EXPECT_EQ(chart.series[0].points[1], std::make_pair(3.0, 3.0));
}

}  // namespace
}  // namespace atolld

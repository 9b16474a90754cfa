#include "daemon/cli/run_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/env/posix_files.h"
#include "tests/unit/daemon/env/temporary_directory.h"
#include "tests/unit/daemon/figures/run_statuses.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

// Two pages, as ShowRun gives them: versions 1 and 2, then 3, which is not evaluated.
std::vector<v1::RunStatus> TwoPages() {
  std::vector<v1::RunStatus> pages(2, StatusAt(1, 3, 90));
  for (v1::RunStatus& page : pages) page.set_tokens(3600);
  AddEvaluation(&pages[0], 0, 5.5);
  AddRound(&pages[0], 1, 30, 4.25);
  AddRound(&pages[0], 2, 60, 3.5);
  AddEvaluation(&pages[0], 2, 3.75);
  AddRound(&pages[1], 3, 90, 3.25);
  v1::RoundRecord* last = pages[1].mutable_rounds(0);
  last->set_revisions(2);
  last->set_plan("weighted, \"regions\"");
  last->set_exchange_seconds(0.5);
  last->mutable_utilisation()->set_train_seconds(9);
  last->mutable_utilisation()->set_waited_seconds(1);
  last->mutable_utilisation()->set_hidden_bytes(300);
  return pages;
}

// Broken: a curve would have a loss at another version, or lack the first one.
TEST(RunMetricsTest, EveryVersionHasItsFigures) {
  const std::vector<nlohmann::ordered_json> rows = RunMetrics(TwoPages());
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0]["version"], 0);
  EXPECT_EQ(rows[0]["validation/loss"], 5.5);
  EXPECT_TRUE(rows[0]["train/loss"].is_null());
  EXPECT_TRUE(rows[1]["validation/loss"].is_null());
  EXPECT_EQ(rows[2]["validation/loss"], 3.75);
  EXPECT_EQ(rows[2]["train/loss"], 3.5);
  EXPECT_EQ(rows[3]["exchange/revisions"], 2);
  EXPECT_EQ(rows[3]["time/exchange_seconds"], 0.5);
  EXPECT_TRUE(rows[2]["exchange/revisions"].is_null()) << "only its header is known";
  EXPECT_EQ(rows[3]["time/compute_utilization"], 0.9);
  EXPECT_EQ(rows[3]["exchange/hidden_bytes"], 300);
  EXPECT_EQ(rows[3]["exchange/waited_bytes"], 0);
  for (const char* key : {"time/compute_utilization", "exchange/waited_bytes"}) {
    EXPECT_TRUE(rows[2][key].is_null()) << key << ": nobody has told";
  }
}

// Broken: totals would begin at zero wherever somebody begins to read.
TEST(RunMetricsTest, TotalsCountFromTheRunsBeginningWhereverThePagesBegin) {
  std::vector<v1::RunStatus> pages = TwoPages();
  std::vector<uint64_t> totals;
  for (const auto& row : RunMetrics(pages)) totals.push_back(row["train/total_tokens"]);
  EXPECT_THAT(totals, ElementsAre(0, 1200, 2400, 3600));
  pages.erase(pages.begin());
  EXPECT_EQ(RunMetrics(pages).front()["train/total_tokens"], 3600);
}

// Broken: a spreadsheet would shift the columns, or read a figure where there is none.
TEST(RunMetricsTest, CsvHasAsManyFieldsInEachLine) {
  std::vector<v1::RunStatus> pages = TwoPages();
  pages[1].mutable_rounds(0)->set_train_loss(std::numeric_limits<double>::quiet_NaN());
  const std::string csv = MetricsCsv(RunMetrics(pages));
  const std::vector<std::string> lines = absl::StrSplit(csv, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_THAT(lines[0], StartsWith("version,time/elapsed_seconds,train/loss,validation/loss,"));
  EXPECT_THAT(lines[1], StartsWith("0,0.0,,5.5,,0,,"));
  EXPECT_THAT(lines[4], StartsWith("3,90.0,NaN,,1200,3600,2,"));
  EXPECT_THAT(lines[4], ::testing::HasSubstr(",\"weighted, \"\"regions\"\"\","));
  std::set<size_t> widths;
  for (size_t i = 0; i < 4; ++i) {
    widths.insert(std::vector<std::string>(absl::StrSplit(lines[i], ',')).size());
  }
  EXPECT_THAT(widths, ElementsAre(23));
}

TEST(RunMetricsTest, JsonLinesAreAnObjectEach) {
  const std::string text = MetricsJsonLines(RunMetrics(TwoPages()));
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 4u);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(nlohmann::json::parse(lines[i])["version"], i);
  }
}

TEST(RunMetricsTest, ARunWithoutARoundHasNoLines) {
  EXPECT_EQ(MetricsJsonLines(RunMetrics(RunHistory())), "");
  const std::vector<std::string> lines =
      absl::StrSplit(MetricsCsv(RunMetrics(RunHistory())), '\n', absl::SkipEmpty());
  EXPECT_EQ(lines.size(), 1u);
}

// Broken: the figures of a run that is over would be lost with its coordinator, or half a file
// would pass for a short run.
TEST(RunMetricsTest, WhatARunLeavesIsReadBack) {
  const TemporaryDirectory folder;
  const std::string dir = folder.path();
  PosixFiles files;
  EXPECT_TRUE(absl::IsNotFound(ReadMetrics(files, dir).status()));
  const std::string path = absl::StrCat(dir, "/", kMetricsFile);
  const auto write = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  };
  const std::vector<nlohmann::ordered_json> rows = RunMetrics(TwoPages());
  const std::string text = MetricsJsonLines(rows);
  write(text);
  const auto read = ReadMetrics(files, dir);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(MetricsCsv(*read), MetricsCsv(rows));
  write(text.substr(0, text.size() - 20));
  EXPECT_THAT(std::string(ReadMetrics(files, dir).status().message()),
              ::testing::HasSubstr("line 4 is not of `atoll run metrics`"));
}

}  // namespace
}  // namespace atolld

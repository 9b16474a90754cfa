#include "daemon/cli/exposition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/unit/daemon/cli/run_statuses.h"

namespace atolld {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

v1::RunStatus TwoPeers() {
  v1::RunStatus status = StatusAt(2, 5, 90);
  status.set_tokens(3600);
  AddRound(&status, 4, 60, 3.5);
  AddRound(&status, 5, 90, 3.25);
  AddEvaluation(&status, 5, 3.75);
  AddPeer(&status, "p1", 1000, 30, 5)->mutable_member()->set_region("eu \"west\"");
  AddPeer(&status, "p2", 0, 0, 0)->mutable_member()->set_state("dead");
  return status;
}

// Broken: Prometheus would draw another peer's figure, or an older round's.
TEST(ExpositionTest, TellsTheNewestFiguresOfRunAndPeers) {
  const std::string text = Exposition(TwoPeers());
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  EXPECT_THAT(lines, Contains("# TYPE atoll_run_tokens_total counter"));
  EXPECT_THAT(lines, Contains("atoll_run_tokens_total{run=\"test-run\"} 3600"));
  EXPECT_THAT(lines, Contains("atoll_run_train_loss{run=\"test-run\"} 3.25"));
  EXPECT_THAT(lines, Contains("atoll_run_validation_loss{run=\"test-run\"} 3.75"));
  const std::string first = "{run=\"test-run\",peer=\"p1\",region=\"eu \\\"west\\\"\",role=\"\"} ";
  EXPECT_THAT(lines, Contains(absl::StrCat("atoll_peer_up", first, "1")));
  EXPECT_THAT(lines, Contains(absl::StrCat("atoll_peer_rounds_total", first, "5")));
  EXPECT_THAT(lines,
              Contains("atoll_peer_up{run=\"test-run\",peer=\"p2\",region=\"\",role=\"\"} 0"));
}

// Broken: a loss of zero would be drawn before there is one.
TEST(ExpositionTest, WhatIsNotKnownIsLeftOut) {
  const std::string text = Exposition(StatusAt(1, 0, 0));
  EXPECT_THAT(text, HasSubstr("atoll_run_version"));
  EXPECT_THAT(text, Not(HasSubstr("loss")));
  EXPECT_THAT(text, Not(HasSubstr("atoll_peer_")));
}

// Broken: the page would name what nobody prints, or leave out what somebody looks for.
TEST(ExpositionTest, ThePageListsEveryName) {
  std::ifstream file(ATOLL_METRICS_PAGE);
  const std::string page(std::istreambuf_iterator<char>(file), {});
  std::vector<std::string> listed;
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    if (absl::StartsWith(line, "| `atoll_")) listed.emplace_back(line);
  }
  std::vector<std::string> known;
  for (const MetricName& metric : MetricNames()) {
    known.push_back(
        absl::StrCat("| `", metric.name, "` | ", metric.type, " | ", metric.help, " |"));
  }
  EXPECT_EQ(listed, known);
}

}  // namespace
}  // namespace atolld

#include "daemon/figures/exposition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/unit/daemon/figures/run_statuses.h"

namespace atolld {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;
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

// Broken: a run that waits for its lines would look like one that trains.
TEST(ExpositionTest, TellsHowWellWorkersAreUsed) {
  v1::RunStatus status = TwoPeers();
  EXPECT_THAT(Exposition(status), Not(HasSubstr("utilisation")));
  EXPECT_THAT(Exposition(status), Not(HasSubstr("hidden_bytes")));
  v1::Utilisation* const round = status.mutable_rounds()->rbegin()->mutable_utilisation();
  round->set_train_seconds(3);
  round->set_waited_seconds(1);
  round->set_waited_bytes(700);
  *status.mutable_peers(1)->mutable_utilisation() = *round;
  const std::string text = Exposition(status);
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  EXPECT_THAT(lines, Contains("atoll_run_round_utilisation_ratio{run=\"test-run\"} 0.75"));
  EXPECT_THAT(lines, Contains("atoll_run_round_hidden_bytes{run=\"test-run\"} 0"));
  EXPECT_THAT(lines, Contains("atoll_run_round_waited_bytes{run=\"test-run\"} 700"));
  EXPECT_THAT(lines, Contains("atoll_peer_utilisation_ratio{run=\"test-run\",peer=\"p2\","
                              "region=\"\",role=\"\"} 0.75"));
}

// Broken: a loss of zero would be drawn before there is one.
TEST(ExpositionTest, WhatIsNotKnownIsLeftOut) {
  const std::string text = Exposition(StatusAt(1, 0, 0));
  EXPECT_THAT(text, HasSubstr("atoll_run_version"));
  EXPECT_THAT(text, Not(HasSubstr("loss")));
  EXPECT_THAT(text, Not(HasSubstr("atoll_peer_")));
  EXPECT_THAT(text, Not(HasSubstr("audit_seconds")));
  v1::RunStatus status = StatusAt(1, 1, 30);
  AddRound(&status, 1, 30, 3.5);
  status.mutable_rounds(0)->set_exchange_seconds(2);  // nothing of it was audited: that is known
  EXPECT_THAT(Exposition(status), HasSubstr("atoll_run_round_audit_seconds{run=\"test-run\"} 0\n"));
}

// Broken: figures of a peer that has gone would be drawn as if they were of now.
TEST(ExpositionTest, WhatAPeerToldEndsWithIt) {
  v1::RunStatus status = TwoPeers();
  status.mutable_peers(1)->mutable_progress()->set_tokens_per_second(700);
  for (const char* const state : {"joining", "live", "suspect"}) {
    status.mutable_peers(1)->mutable_member()->set_state(state);
    EXPECT_THAT(Exposition(status), HasSubstr("} 700\n")) << state;
  }
  for (const char* const state : {"dead", "left", "evicted"}) {
    status.mutable_peers(1)->mutable_member()->set_state(state);
    const std::string text = Exposition(status);
    EXPECT_THAT(text, Not(HasSubstr("} 700\n"))) << state;
    EXPECT_THAT(text, HasSubstr(absl::StrCat("peer=\"p2\",region=\"\",role=\"\",state=\"", state)));
  }
}

// Broken: whoever is admitted could fill the server with series.
TEST(ExpositionTest, NothingThatAPeerTellsMakesALabel) {
  v1::RunStatus status = TwoPeers();
  v1::PeerProgress* const progress = status.mutable_peers(0)->mutable_progress();
  progress->set_phase("phase-4711");
  progress->set_held_back("because of 4711");
  const std::string text = Exposition(status);
  EXPECT_THAT(text, Not(HasSubstr("4711")));
  EXPECT_THAT(text, HasSubstr("role=\"\",phase=\"other\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("atoll_peer_held_back{run=\"test-run\",peer=\"p1\""));
}

TEST(ExpositionTest, TellsOfLinks) {
  v1::RunStatus status = TwoPeers();
  v1::LinkStatus* const link = status.add_links();
  link->set_from("eu");
  link->set_to("us");
  link->set_measured_bytes_per_second(2.5e6);
  const std::string text = Exposition(status);
  EXPECT_THAT(text, HasSubstr("atoll_link_measured_bytes_per_second{run=\"test-run\",from=\"eu\","
                              "to=\"us\"} 2500000\n"));
  EXPECT_THAT(text, Not(HasSubstr("atoll_link_latency_seconds")));
}

// Broken: an owner could not see why a machine idles, or an alarm would count the wrong reason.
TEST(ExpositionTest, ADaemonTellsWhyItIsHeldBack) {
  DaemonFigures figures;
  figures.run = "books";
  figures.peer = "p1";
  figures.role = "peer";
  figures.worker_restarts = 2;
  figures.progress.set_phase("waiting");
  EXPECT_THAT(DaemonExposition(figures), HasSubstr("reason=\"battery\"} 0\n"));
  figures.progress.set_held_back("the machine is on battery");
  const std::string text = DaemonExposition(figures);
  EXPECT_THAT(text, HasSubstr("reason=\"battery\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("reason=\"order\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("atoll_daemon_worker_restarts_total{run=\"books\",peer=\"p1\","
                              "region=\"\",role=\"peer\"} 2\n"));
}

TEST(ExpositionTest, ReasonsAreFew) {
  const std::pair<const char*, const char*> cases[] = {
      {"paused by its owner until 18:00", "order"},
      {"today's 20 GB are used up; it goes on at midnight", "network"},
      {"outside its network hours until 18:00", "network"},
      {"outside its hours until Mon 08:00", "hours"},
      {"keyboard or mouse was used within 5m", "in_use"},
      {"the battery's charge is below 20 %", "battery"},
      {"the machine is hotter than 90 C", "heat"},
      {"other programs use over 50 % of the GPU", "others"},
      {"less than 2 GB of memory is available", "memory"},
      {"Less than 10 GB of the disk is free", "disk"},
      {"the moon is full", "other"},
  };
  for (const auto& [words, reason] : cases) EXPECT_STREQ(HeldBackReason(words), reason) << words;
  EXPECT_EQ(HeldBackReason(""), nullptr);
}

TEST(ExpositionTest, AProcessTellsWhatItUses) {
  ProcessFigures figures;
  figures.resident_bytes = 1000;
  figures.cpu_seconds = 2.5;
  const std::string text = ProcessExposition(figures);
  EXPECT_THAT(text, HasSubstr("process_resident_memory_bytes 1000\n"));
  EXPECT_THAT(text, HasSubstr("process_cpu_seconds_total 2.5\n"));
  EXPECT_THAT(text, ContainsRegex("atoll_build_info\\{version=\"[0-9.]+\"\\} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("process_open_fds")));
}

// Broken: the page would name what nobody prints, or leave out what somebody looks for.
TEST(ExpositionTest, ThePageListsEveryName) {
  std::ifstream file(ATOLL_METRICS_PAGE);
  const std::string page(std::istreambuf_iterator<char>(file), {});
  std::vector<std::string> listed;
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    if (absl::StartsWith(line, "| `atoll_") || absl::StartsWith(line, "| `process_")) {
      listed.emplace_back(line);
    }
  }
  std::vector<std::string> known;
  for (const auto& names : {RunMetricNames(), DaemonMetricNames(), ProcessMetricNames()}) {
    for (const MetricName& metric : names) {
      known.push_back(
          absl::StrCat("| `", metric.name, "` | ", metric.type, " | ", metric.help, " |"));
    }
  }
  EXPECT_EQ(listed, known);
}

}  // namespace
}  // namespace atolld

// The status table: what is not known is absent in every output, and nothing is printed beside it.
#include "daemon/figures/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/cli/local/local_report.h"
#include "daemon/cli/run_metrics.h"
#include "daemon/figures/exposition.h"
#include "daemon/figures/status_json.h"
#include "tests/unit/daemon/env/temporary_directory.h"
#include "tests/unit/daemon/figures/run_statuses.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr uint64_t kVersion = 7;

// A run of which nothing is known but who takes part, one round, and that one evaluation was due.
v1::RunStatus NothingKnown() {
  v1::RunStatus status;
  status.mutable_spec()->set_run_id("books");
  status.mutable_spec()->mutable_privacy()->set_clip_bits(absl::bit_cast<uint32_t>(0.5F));
  status.set_version(kVersion);
  status.add_rounds()->set_version(kVersion);
  status.add_evaluations()->set_version(kVersion);
  v1::PeerStatus* const peer = status.add_peers();
  peer->mutable_member()->set_peer("p1");
  peer->mutable_member()->set_state("ended");
  peer->set_role("peer");
  status.add_links()->set_from("eu");
  return status;
}

// One line of the table, whatever it is of, with its value where nothing is known.
struct TableLine {
  std::string json;  // a pointer into the whole object
  std::string column, metric, daemon_metric, title, help, source;
  FigureUnit unit = FigureUnit::kNumber;
  bool always = false;            // true if it is known for every record of its kind
  std::optional<double> unknown;  // its value where nothing is known
};

// All other figures are absent where nothing is known.
const std::set<std::string> kAlwaysKnown = {"/version",
                                            "/spec/rounds",
                                            "/tokens",
                                            "/rounds_recorded",
                                            "atoll_run_paused",
                                            "atoll_run_waiting",
                                            "atoll_run_sealed",
                                            "/rounds/0/version",
                                            "/rounds/0/tokens",
                                            "/evaluations/0/version",
                                            "/peers/0/rounds_contributed",
                                            "/peers/0/tokens",
                                            "/peers/0/parties",
                                            "/peers/0/progress/version"};

template <typename Of>
void AddLines(const FigureList<Of>& figures, const std::string& prefix, const Of& of,
              std::vector<TableLine>* lines) {
  const auto text = [](const char* name) { return std::string(name == nullptr ? "" : name); };
  for (const Figure<Of>& figure : figures) {
    const std::string place = figure.json == nullptr ? "" : prefix + figure.json;
    const std::string metric = text(figure.metric);
    const bool always = kAlwaysKnown.count(place.empty() ? metric : place) == 1;
    lines->push_back({place, text(figure.column), metric, text(figure.daemon_metric),
                      text(figure.title), figure.help, figure.source, figure.unit, always,
                      figure.value(of)});
  }
}

std::vector<TableLine> AllLines(const v1::RunStatus& status) {
  std::vector<TableLine> lines;
  AddLines(RunFigures(), "", status, &lines);
  AddLines(RoundFigures(), "/rounds/0", status.rounds(0), &lines);
  AddLines(EvaluationFigures(), "/evaluations/0", status.evaluations(0), &lines);
  AddLines(PeerFigures(), "/peers/0", status.peers(0), &lines);
  AddLines(ToldFigures(), "/peers/0", status.peers(0), &lines);
  AddLines(LinkFigures(), "/links/0", status.links(0), &lines);
  return lines;
}

// The rest of the line that has this heading; nothing without one.
std::optional<std::string> RowOf(const std::vector<std::string>& lines,
                                 const std::string& heading) {
  for (absl::string_view line : lines) {
    if (absl::ConsumePrefix(&line, heading + "  ")) {
      return std::string(absl::StripLeadingAsciiWhitespace(line));
    }
  }
  return std::nullopt;
}

// Broken: the table would give a 0 that nobody has counted or measured.
TEST(FiguresTest, OnlyWhatIsAlwaysKnownIsKnownOfNothing) {
  for (const TableLine& line : AllLines(NothingKnown())) {
    EXPECT_EQ(line.unknown.has_value(), line.always) << line.json << line.metric;
    EXPECT_NE(line.help, "") << line.json;
    EXPECT_NE(line.source, "") << line.json;
  }
}

// Broken: one figure would overwrite another, or no output would show it.
TEST(FiguresTest, EveryNameExistsOnceAndEveryFigureHasOne) {
  std::set<std::string> places;
  std::set<std::string> metrics;
  for (const TableLine& line : AllLines(NothingKnown())) {
    EXPECT_FALSE(line.json.empty() && line.column.empty() && line.metric.empty()) << line.help;
    EXPECT_TRUE(line.json.empty() || places.insert(line.json).second) << line.json;
    for (const std::string& name : {line.metric, line.daemon_metric}) {
      EXPECT_TRUE(name.empty() || metrics.insert(name).second) << name;
    }
  }
  // A column may come from a round and from an evaluation, and the first that is known fills it.
  const auto all_differ = [](const auto& figures) {
    std::set<std::string> columns;
    for (const auto& figure : figures) {
      EXPECT_TRUE(figure.column == nullptr || columns.insert(figure.column).second);
    }
  };
  all_differ(RoundFigures());
  all_differ(EvaluationFigures());
}

// Broken: a name would promise seconds or bytes where the value, its text for people or its form in
// JSON is of another unit.
TEST(FiguresTest, NamesEndInTheUnit) {
  const std::map<FigureUnit, std::string> endings = {
      {FigureUnit::kBytes, "_bytes"},
      {FigureUnit::kSeconds, "_seconds"},
      {FigureUnit::kUnixSeconds, "_timestamp_seconds"},
      {FigureUnit::kBytesPerSecond, "_bytes_per_second"},
      {FigureUnit::kTokens, "_tokens"},
      {FigureUnit::kTokensEstimated, "_tokens"},
      {FigureUnit::kTokensPerSecond, "_tokens_per_second"},
      {FigureUnit::kShare, "_ratio"}};
  for (const TableLine& line : AllLines(NothingKnown())) {
    EXPECT_STRNE(UnitName(line.unit), "");
    const auto found = endings.find(line.unit);
    const std::string ending = found == endings.end() ? "" : found->second;
    for (absl::string_view name : {line.metric, line.daemon_metric}) {
      if (name.empty()) continue;
      name = absl::StripSuffix(name, "_total");
      EXPECT_TRUE(absl::EndsWith(name, ending)) << name;
      for (const auto& [unit, other] : endings) {
        if (absl::EndsWith(ending, other)) continue;
        EXPECT_FALSE(absl::EndsWith(name, other)) << name << " " << UnitName(line.unit);
      }
    }
    if (line.unit == FigureUnit::kSeconds || line.unit == FigureUnit::kUnixSeconds) {
      EXPECT_TRUE(absl::EndsWith(line.json, "seconds")) << line.json;
    }
  }
}

// Broken: a script would take 0 for a loss, a time or an epsilon that nobody knows.
TEST(FiguresTest, WhatIsNotKnownIsNullInJson) {
  const v1::RunStatus status = NothingKnown();
  const Json json = RunStatusJson(status);
  for (const TableLine& line : AllLines(status)) {
    if (line.json.empty()) continue;
    const Json::json_pointer at(line.json);
    // Of a group that is not known at all, the whole group is null.
    const bool group = !json.contains(at) && json.at(at.parent_pointer()).is_null();
    ASSERT_TRUE(group || json.contains(at)) << line.json;
    EXPECT_EQ(group || json.at(at).is_null(), !line.always) << line.json;
  }
}

// Broken: a notebook would draw a curve through 0.
TEST(FiguresTest, WhatIsNotKnownIsAbsentInMetrics) {
  const v1::RunStatus status = NothingKnown();
  const std::vector<Json> rows = RunMetrics(absl::MakeConstSpan(&status, 1));
  ASSERT_EQ(rows.size(), 1u);
  const std::vector<std::string> csv = absl::StrSplit(MetricsCsv(rows), '\n');
  const std::vector<std::string> names = absl::StrSplit(csv[0], ',');
  const std::vector<std::string> fields = absl::StrSplit(csv[1], ',');
  ASSERT_EQ(names.size(), fields.size());
  for (const TableLine& line : AllLines(status)) {
    if (line.column.empty()) continue;
    ASSERT_TRUE(rows[0].contains(line.column)) << line.column;
    EXPECT_EQ(rows[0][line.column].is_null(), !line.always) << line.column;
    const auto found = std::find(names.begin(), names.end(), line.column);
    ASSERT_NE(found, names.end()) << line.column;
    EXPECT_EQ(fields[static_cast<size_t>(found - names.begin())].empty(), !line.always)
        << line.column;
  }
}

// Broken: an alarm would ring, or keep silent, over a 0 that nobody measured.
TEST(FiguresTest, WhatIsNotKnownHasNoSeriesForPrometheus) {
  v1::RunStatus status = NothingKnown();
  status.mutable_peers(0)->mutable_member()->set_state("live");  // those of the dead are left out
  const std::vector<std::string> lines = absl::StrSplit(Exposition(status), '\n');
  for (const TableLine& line : AllLines(NothingKnown())) {
    if (line.metric.empty()) continue;
    const bool there = std::any_of(lines.begin(), lines.end(), [&](const std::string& one) {
      return absl::StartsWith(one, line.metric + "{");
    });
    // What the coordinator counts of a peer is known once it lists the peer.
    const std::string& name = line.metric;
    const bool counted =
        absl::StartsWith(name, "atoll_peer_") &&
        (absl::EndsWith(name, "_total") || name == "atoll_peer_up" ||
         name == "atoll_peer_mean_share_ratio" || name == "atoll_peer_worker_failures") &&
        !absl::StrContains(name, "seconds") && !absl::StrContains(name, "bytes");
    EXPECT_EQ(there, line.always || counted) << name;
  }
  const std::string daemon = DaemonExposition(DaemonFigures());
  for (const TableLine& line : AllLines(NothingKnown())) {
    if (line.daemon_metric.empty()) continue;
    EXPECT_EQ(absl::StrContains(daemon, line.daemon_metric + "{"), line.always)
        << line.daemon_metric;
  }
  const std::string process = ProcessExposition(ProcessFigures());
  for (const MetricName& metric : ProcessMetricNames()) {
    if (metric.name == "atoll_build_info" || absl::EndsWith(metric.name, "late_seconds_total")) {
      continue;  // known from the first moment on
    }
    EXPECT_THAT(process, Not(HasSubstr(metric.name)));
  }
}

// Broken: people would read "0.0 s" of a run that took hours.
TEST(FiguresTest, WhatIsNotKnownIsSaidToBeSoToPeople) {
  const v1::RunStatus status = NothingKnown();
  const std::vector<std::string> run = RunStatusText(status);
  const std::vector<std::string> peer = PeerText(status.peers(0));
  size_t rows = 0;
  for (const TableLine& line : AllLines(status)) {
    if (line.title.empty() || line.always) continue;
    const bool of_peer = absl::StartsWith(line.json, "/peers");
    const std::optional<std::string> value = RowOf(of_peer ? peer : run, line.title);
    if (!value && of_peer) continue;  // only the page shows it
    ASSERT_TRUE(value.has_value()) << line.title;
    EXPECT_THAT(*value, AnyOf(StartsWith("-"), HasSubstr("not known"), StartsWith("unknown"),
                              StartsWith("not told")))
        << line.title;
    ++rows;
  }
  EXPECT_GE(rows, 15u);
  const std::string listed = PeersText(status)[1];
  EXPECT_THAT(listed, HasSubstr("-         -"));
  EXPECT_THAT(listed, Not(HasSubstr("0/0")));
  EXPECT_THAT(listed, Not(HasSubstr("0 B")));
}

// Shows a status on the dashboard's page; nothing where there is no Node.js.
std::optional<Json> PageOf(const v1::RunStatus& status) {
  if (std::system("node --version > /dev/null 2>&1") != 0) return std::nullopt;
  const TemporaryDirectory folder;
  const std::string file = folder.File("status.json");
  std::ofstream(file) << JsonText(RunStatusJson(status));
  const std::string listed = folder.File("listed.js");
  std::ofstream(listed) << PeerFiguresScript();
  const std::string command =
      absl::StrCat("node ", ATOLL_PAGE_READER, " ", ATOLL_PAGE_FOLDER, " ", listed, " ", file);
  FILE* const out = popen(command.c_str(), "r");
  std::string text;
  for (int c = fgetc(out); c != EOF; c = fgetc(out)) text.push_back(static_cast<char>(c));
  EXPECT_EQ(pclose(out), 0) << text;
  return Json::parse(text, nullptr, false);
}

// Broken: the page would show 0 s, or "null", where the coordinator knows nothing.
TEST(FiguresTest, WhatIsNotKnownIsADashOnThePage) {
  const std::optional<Json> page = PageOf(NothingKnown());
  if (!page) GTEST_SKIP() << "there is no Node.js";
  ASSERT_TRUE(page->is_object());
  for (const char* id : {"elapsed", "train-loss", "val-loss", "used", "ends"}) {
    EXPECT_EQ((*page)[id], "–") << id;
  }
  EXPECT_EQ((*page)["val-loss-note"], "not evaluated yet");
  for (const auto& [id, text] : page->items()) {
    for (const char* wrong :
         {"null", "undefined", "NaN", "0.0000", "0 s", "0.0 s", "0 B", "0.0 %"}) {
      EXPECT_THAT(text.get<std::string>(), Not(HasSubstr(wrong))) << id;
    }
  }
  const auto facts = (*page)["p1 peer-facts"].get<std::string>();
  EXPECT_THAT(facts, HasSubstr("Sent in exchanges –"));
  for (const TableLine& line : AllLines(NothingKnown())) {
    if (line.title.empty() || !absl::StartsWith(line.json, "/peers")) continue;
    std::string title = line.title;
    title[0] = absl::ascii_toupper(static_cast<unsigned char>(title[0]));
    EXPECT_EQ(absl::StrContains(facts, title + " –"), !line.always) << title;
    EXPECT_THAT(facts, HasSubstr(title + " "));
  }
}

// Broken: the page would show a figure in another unit than its own.
TEST(FiguresTest, ThePageShowsEveryUnit) {
  v1::RunStatus status = StatusAt(1, 7, 60);
  v1::PeerStatus* const peer = AddPeer(&status, "p1", 12345678, 80, 1234);
  peer->set_tokens(56789);
  peer->set_mean_share(0.25);
  peer->set_up_bytes_per_second(2.5e6);
  peer->set_pid(4711);
  peer->set_clock_offset_seconds(-90);
  v1::PeerProgress* const progress = peer->mutable_progress();
  progress->set_phase("training");
  progress->set_loss(2.5);
  progress->set_tokens_per_second(1234);
  progress->set_clock_seconds(1.8e9);
  const std::optional<Json> page = PageOf(status);
  if (!page) GTEST_SKIP() << "there is no Node.js";
  const auto facts = (*page)["p1 peer-facts"].get<std::string>();
  for (const char* fact :
       {"Rounds contributed 1,234", "Tokens 56,789", "Share of the newest mean 25.0 %",
        "Line up 20 Mbit/s", "Process 4711", "Loss of recent steps 2.5000", "Tokens a second 1,234",
        "Trained 80 s", "Sent in exchanges 12.3 MB", "Clock -2 min"}) {
    EXPECT_THAT(facts, HasSubstr(fact));
  }
}

v1::RunStatus Diverged() {
  v1::RunStatus status = StatusAt(1, kVersion, 90);
  AddRound(&status, kVersion, 90, -std::nan(""));
  AddEvaluation(&status, kVersion, std::nan(""));
  v1::EvaluationRecord* const own = status.mutable_evaluations(0);
  own->set_own_parties(3);
  own->set_own_mean(std::nan(""));
  own->set_own_tenth(2);
  own->set_own_ninetieth(std::numeric_limits<double>::infinity());
  AddPeer(&status, "p1", 0, 1, 1)->mutable_progress()->set_loss(std::nan(""));
  return status;
}

// Broken: a run that has diverged would look like one that was not evaluated, or better than it is.
TEST(FiguresTest, WhatIsNotANumberIsAWordInEveryOutput) {
  const v1::RunStatus status = Diverged();
  const Json json = RunStatusJson(status);
  EXPECT_EQ(json["rounds"][0]["train_loss"], "NaN");
  EXPECT_EQ(json["evaluations"][0]["loss"], "NaN");
  EXPECT_EQ(json["evaluations"][0]["own_ninetieth"], "Infinity");
  EXPECT_EQ(json["peers"][0]["progress"]["loss"], "NaN");
  EXPECT_FALSE(nlohmann::json::parse(JsonText(json), nullptr, false).is_discarded());
  const std::vector<Json> rows = RunMetrics(absl::MakeConstSpan(&status, 1));
  EXPECT_EQ(rows[0]["validation/loss"], "NaN");
  EXPECT_THAT(MetricsCsv(rows), HasSubstr("NaN"));
  EXPECT_THAT(absl::AsciiStrToLower(Exposition(status)),
              HasSubstr("atoll_run_validation_loss{run=\"test-run\"} nan\n"));
  EXPECT_THAT(RunStatusText(status),
              ::testing::Contains(HasSubstr("NaN nats a byte at version 7; on the own data of 3 "
                                            "parties: mean NaN, 10th percentile 2.0000, 90th "
                                            "Infinity")));
  EXPECT_THAT(RoundsText(status)[1], HasSubstr("NaN"));
  const std::optional<Json> page = PageOf(status);
  if (!page) GTEST_SKIP() << "there is no Node.js";
  EXPECT_EQ((*page)["val-loss"], "NaN");
  EXPECT_EQ((*page)["train-loss"], "NaN");
  EXPECT_EQ((*page)["val-loss-note"], "nats a byte, round 7; parties 2.0000 to Infinity");
}

// Broken: somebody prints a figure that the table does not have, and nobody asks whether it is
// known.
TEST(FiguresTest, EveryNumberOfAStatusIsInTheTable) {
  v1::RunStatus status = Diverged();
  status.add_links()->set_seconds(0.5);
  status.mutable_rounds(0)->mutable_utilisation()->set_train_seconds(1);
  std::set<std::string> places;
  for (const TableLine& line : AllLines(status)) places.insert(line.json);
  // What was set, signed or belongs to nobody's measure.
  const std::vector<std::string> others = {"/spec/", "/peers/0/member/", "/parent/", "/seal/"};
  const Json flat = RunStatusJson(status).flatten();
  for (const auto& [place, value] : flat.items()) {
    const bool other = std::any_of(others.begin(), others.end(), [&](const std::string& prefix) {
      return absl::StartsWith(place, prefix);
    });
    if (!value.is_number() || other) continue;
    EXPECT_EQ(places.count(place), 1u) << place << " is not in the status table";
  }
}

// Broken: docs/metrics.md would tell of other figures than there are, or of other sources.
TEST(FiguresTest, ThePageListsTheTable) {
  std::ifstream file(ATOLL_METRICS_PAGE);
  const std::string page(std::istreambuf_iterator<char>(file), {});
  const auto name = [](const std::string& text) {
    return text.empty() ? std::string() : absl::StrCat("`", text, "`");
  };
  for (const TableLine& line : AllLines(NothingKnown())) {
    const std::string place =
        name(absl::StrReplaceAll(absl::StripPrefix(line.json, "/"), {{"/0/", "[]."}, {"/", "."}}));
    const std::string row =
        absl::StrCat("| ", line.help, " | ", UnitName(line.unit), " | ", place, " | ",
                     name(line.column), " | ", name(line.metric), " | ", line.source, " |\n");
    EXPECT_THAT(page, HasSubstr(row));
  }
}

}  // namespace
}  // namespace atolld

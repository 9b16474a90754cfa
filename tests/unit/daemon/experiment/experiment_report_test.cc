#include "daemon/experiment/experiment_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/match.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunResult SeedOf(uint64_t seed, double last) {
  RunResult result;
  result.setting = "Fed<Avg>";
  result.seed = seed;
  result.id = "01-fedavg-seed-1";
  result.parameters = 1234;
  result.state_digest = "0123456789abcdef0123";
  for (uint64_t version = 0; version <= 2; ++version) {
    ResultRow row;
    row.version = version;
    row.tokens = 100 * static_cast<double>(version);
    if (version != 1 || seed == 1) row.loss = version == 0 ? 5 : last;
    row.own_tenth = 1;
    row.own_mean = 2;
    row.own_ninetieth = 3;
    result.rows.push_back(row);
  }
  return result;
}

std::optional<double> VersionOf(const ResultRow& row) { return static_cast<double>(row.version); }

TEST(ExperimentReportTest, BandsAreOverTheVersionsThatAllSeedsKnow) {
  // Broken: a curve would jump where one seed was evaluated and another was not.
  const std::vector<RunResult> results = {SeedOf(1, 3), SeedOf(2, 1)};
  const std::vector<BandPoint> band = LossBand(results, "Fed<Avg>", VersionOf);
  ASSERT_EQ(band.size(), 2u);
  EXPECT_EQ(band[1].x, 2);
  EXPECT_EQ(band[1].mean, 2);
  EXPECT_NEAR(band[1].spread, 1.41421356, 1e-6);
  EXPECT_TRUE(LossBand(results, "another", VersionOf).empty());
}

TEST(ExperimentReportTest, OneFileHasItAll) {
  // Broken: the report would lack a part, need a network, or take a setting's name as HTML.
  Experiment experiment;
  experiment.name = "try & see";
  experiment.path = "try.toml";
  experiment.text = "[experiment]\n# <script>\n";
  experiment.seeds = {1, 2};
  experiment.settings = {{"Fed<Avg>", {{"outer", "rule", std::string("average"), "try.toml:3"}}},
                         {"base", {}}};
  ReportInput input;
  input.results = {SeedOf(1, 3), SeedOf(2, 1)};
  input.partitions = {{"dirichlet, seed 1", "<svg/>"}};
  input.version = "9.9";
  input.command = "atoll experiment run try.toml";
  const std::string html = ReportHtml(experiment, input);
  for (const char* part :
       {"<h1>try &amp; see</h1>", "2 settings, 2 seeds, 2 of 4 runs finished; 1,234 parameters",
        "2.0000 ± 1.4142", "Fed&lt;Avg&gt;", "Loss by rounds", "Loss by tokens", "Loss by bytes",
        "Loss by time", "Loss on own data", "dirichlet, seed 1", "outer.rule = average",
        "0123456789abcdef<", "# &lt;script&gt;", "atoll experiment run try.toml", "Atoll 9.9",
        "prefers-color-scheme: dark", "data:image/svg+xml;base64,PHN2Zy8+"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  for (const char* part :
       {"http://", "https://", "<script", "Fed<Avg>", " src=\"/", "nan", "inf "}) {
    EXPECT_THAT(html, Not(HasSubstr(part)));
  }
}

TEST(ExperimentReportTest, ChartsBearNothingAndOnePoint) {
  // Broken: an experiment whose runs have not begun would have no report, or one with "nan".
  BandChart chart{"title", "x", "y", [](double) { return std::string("n"); }, {{"a", {}}}};
  EXPECT_THAT(BandChartSvg(chart), Not(HasSubstr("nan")));
  chart.series[0].points = {{1, 2, 0}};
  const std::string svg = BandChartSvg(chart);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, HasSubstr("class=\"line s0 d0\""));
  EXPECT_THAT(svg, Not(HasSubstr("class=\"band")));
  EXPECT_THAT(RangeChartSvg("t", "x", {}), Not(HasSubstr("nan")));
}

TEST(ExperimentReportTest, WhatIsNotANumberIsMarked) {
  // Broken: the curve of a run that diverged would end before it did, go on over the gap, or spoil
  // the axis.
  BandChart chart{"title", "x", "y", [](double) { return std::string("n"); }, {}};
  const double nan = std::nan("");
  chart.series = {{"hot", {{0, 5, 0}, {1, 4, 0}, {2, nan, nan}, {3, 3, 0}, {4, nan, nan}}}};
  const std::string svg = BandChartSvg(chart);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  const auto count = [&](const std::string& text) {
    size_t found = 0;
    for (size_t at = svg.find(text); at != std::string::npos; at = svg.find(text, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("<title>hot: NaN</title>"), 2u);
  EXPECT_EQ(count("<title>hot</title>"), 2u) << "before the gap, and after it";
  const std::string ranges = RangeChartSvg("t", "x", {{"hot", 1, nan, nan}, {"cool", 1, 2, 3}});
  EXPECT_THAT(ranges, HasSubstr("1.0000, mean NaN, NaN"));
  EXPECT_THAT(ranges, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace atolld

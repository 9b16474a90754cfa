#include "daemon/cli/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_join.h"
#include "daemon/program/format.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Chart Falling() {
  Series line{"training", {}, false};
  for (int i = 0; i <= 40; ++i) line.points.emplace_back(i, 5.5 * std::exp(-i / 20.0));
  return Chart{"loss", "round", "nats", {line, Series{"validation", {{0, 5.5}, {40, 0.8}}, true}}};
}

TEST(ChartTest, TicksAreRoundAndCoverTheRange) {
  // Broken: the curve would leave its axes, or the axes carry unreadable numbers.
  EXPECT_THAT(NiceTicks(0.2, 5.5, 6), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(NiceTicks(1, 1, 2), ElementsAre(1, 2));
  for (const auto& [low, high] :
       std::vector<std::pair<double, double>>{{0, 1e-7}, {-3, 12345}, {5.5, 5.6}, {1e9, 3e9}}) {
    const std::vector<double> ticks = NiceTicks(low, high, 5);
    ASSERT_GE(ticks.size(), 2u);
    EXPECT_LE(ticks.size(), 12u);
    EXPECT_LE(ticks.front(), low + (high - low) * 1e-6);
    EXPECT_GE(ticks.back(), high - (high - low) * 1e-6);
  }
}

TEST(ChartTest, DrawsWithinItsSize) {
  // Broken: the curve would wrap and be unreadable on a narrow terminal.
  for (const auto& [columns, rows] : std::vector<std::pair<int, int>>{{80, 16}, {24, 6}, {1, 1}}) {
    const std::vector<std::string> lines = DrawChart(Falling(), columns, rows, Charset::kUnicode);
    EXPECT_EQ(lines.size(), static_cast<size_t>(std::max(rows, 6)));
    for (const std::string& line : lines) {
      EXPECT_LE(TextWidth(line), static_cast<size_t>(std::max(columns, 24))) << line;
    }
  }
}

TEST(ChartTest, ShowsBothEndsOfTheCurve) {
  // Broken: a picture that does not show where the loss began and ended.
  const std::vector<std::string> lines = DrawChart(Falling(), 60, 12, Charset::kUnicode);
  const std::string all = absl::StrJoin(lines, "\n");
  EXPECT_THAT(lines.front(), HasSubstr("● validation"));
  EXPECT_THAT(all, HasSubstr("4 ┤"));
  EXPECT_THAT(all, HasSubstr("●"));
  EXPECT_THAT(lines.back(), HasSubstr("round 40"));
  // The first mark stands at the left above the middle, the last at the right below it.
  size_t first_row = 0, last_row = 0;
  for (size_t row = 1; row + 2 < lines.size(); ++row) {
    if (lines[row].find("●") == std::string::npos) continue;
    if (first_row == 0) first_row = row;
    last_row = row;
  }
  EXPECT_LT(first_row, 4u);
  EXPECT_GT(last_row, 6u);
}

TEST(ChartTest, OfAsciiIsAllAsciiAndHasBothEnds) {
  // Broken: the curve in a file or in a C locale would be rubbish, or not a curve.
  const std::vector<std::string> lines = DrawChart(Falling(), 60, 12, Charset::kAscii);
  EXPECT_EQ(lines.size(), 12u);
  for (const std::string& line : lines) {
    EXPECT_LE(line.size(), 60u);
    for (const char c : line) EXPECT_EQ(c & 0x80, 0) << line;
  }
  EXPECT_THAT(lines.front(), HasSubstr(".. training   o validation"));
  EXPECT_THAT(absl::StrJoin(lines, "\n"), HasSubstr("4 +"));
  size_t marks = 0, dots = 0;
  for (size_t row = 1; row + 2 < lines.size(); ++row) {
    marks += static_cast<size_t>(std::count(lines[row].begin(), lines[row].end(), 'o'));
    for (const char c : {'.', ':', '\''}) {
      dots += static_cast<size_t>(std::count(lines[row].begin(), lines[row].end(), c));
    }
  }
  EXPECT_EQ(marks, 2u);
  EXPECT_GT(dots, 30u);
}

TEST(ChartTest, AnyPointsMakeAChart) {
  // Broken: a run that ended before its first round, or diverged, would end the program at its last
  // line.
  EXPECT_EQ(DrawChart(Chart{}, 40, 8, Charset::kUnicode).size(), 8u);
  EXPECT_THAT(ChartSvg(Chart{}), HasSubstr("</svg>"));
  const Chart odd{"t", "x", "y", {Series{"s", {{0, NAN}, {1, INFINITY}, {2, 3}}, false}}};
  EXPECT_EQ(DrawChart(odd, 40, 8, Charset::kUnicode).size(), 8u);
  EXPECT_THAT(ChartSvg(odd), ::testing::Not(HasSubstr("nan")));
}

TEST(ChartTest, SvgIsWellFormedText) {
  // Broken: a title with odd characters would make a picture that no viewer opens.
  Chart chart = Falling();
  chart.title = "a < b & c";
  const std::string svg = ChartSvg(chart);
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; c"));
  EXPECT_THAT(svg, HasSubstr("<path d=\"M"));
  EXPECT_THAT(svg, HasSubstr("<circle"));
}

// Broken: a run that diverged would look like one that ended before, or its line would cross the
// gap.
TEST(ChartTest, WhatIsNotANumberBreaksTheLineAndIsTold) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Chart chart{"loss", "round", "", {{"training", {{1, 5}, {2, 4}, {3, nan}, {4, 3}}, false}}};
  const std::string svg = ChartSvg(chart);
  EXPECT_THAT(svg, HasSubstr("training (1 NaN)"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  const size_t end = svg.find(" fill=\"none\"");
  const std::string path = svg.substr(svg.rfind("<path d=", end), end);
  EXPECT_EQ(std::count(path.begin(), path.begin() + 60, 'M'), 2) << path;
  EXPECT_THAT(DrawChart(chart, 60, 10, Charset::kAscii)[0], HasSubstr("training (1 NaN)"));
}

}  // namespace
}  // namespace atolld

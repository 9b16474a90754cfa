#include "daemon/experiment/report_chart.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "compression/base/names.h"
#include "compression/base/number_words.h"
#include "compression/base/terminal.h"
#include "daemon/cli/chart.h"
#include "daemon/program/format.h"

namespace atolld {
namespace {

// In units of the picture, which is scaled to its place: about a pixel of a narrow telephone.
constexpr double kWide = 360, kHigh = 270;
constexpr double kLeftEdge = 56, kRightEdge = 14, kTopEdge = 30, kBottomEdge = 46;
constexpr int kYTicks = 5, kXTicks = 4;
constexpr double kRowHigh = 40;  // of a chart of ranges
constexpr double kRangeLeft = 14;
constexpr size_t kMostNameShown = 44;  // characters of a setting's name in one
constexpr size_t kColours = 8, kDashes = 4;

struct Axis {
  double low = 0, high = 1;
  std::vector<double> ticks = {0, 1};  // ascending, the ends of the axis among them
  double At(double value) const { return (value - low) / (high - low); }
};

// Returns the axis from the first round number below the values to the first above; 0 to 1 without
// values.
Axis AxisOver(std::vector<double> values, int ticks) {
  values.erase(std::remove_if(values.begin(), values.end(),
                              [](double value) { return !std::isfinite(value); }),
               values.end());
  if (values.empty()) return {};
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  double low = *least, high = *most;
  if (!(high > low)) {
    low -= 0.5;
    high += 0.5;
  }
  const std::vector<double> round = NiceTicks(low, high, ticks);
  return {round.front(), round.back(), round};
}

double XAt(const Axis& axis, double x) {
  return kLeftEdge + axis.At(x) * (kWide - kLeftEdge - kRightEdge);
}

double YAt(const Axis& axis, double y) {
  return kHigh - kBottomEdge - axis.At(y) * (kHigh - kTopEdge - kBottomEdge);
}

std::string Head(const std::string& title, double high) {
  return absl::StrFormat(
      "<svg class=\"plot\" viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"%s\">\n"
      "<text class=\"title\" x=\"8\" y=\"16\">%s</text>\n",
      kWide, high, HtmlText(title), HtmlText(title));
}

std::string Axes(const BandChart& chart, const Axis& x_axis, const Axis& y_axis) {
  std::string svg;
  for (const double tick : y_axis.ticks) {
    const double y = YAt(y_axis, tick);
    absl::StrAppendFormat(&svg,
                          "<path class=\"grid\" d=\"M%g %.1fH%g\"/>"
                          "<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                          kLeftEdge, y, kWide - kRightEdge, kLeftEdge - 5, y + 4,
                          absl::StrFormat("%g", tick));
  }
  for (const double tick : x_axis.ticks) {
    const double x = XAt(x_axis, tick);
    // Numbers at the edges stay within the picture.
    const char* const anchor = x > kWide - kRightEdge - 20 ? "end" : "middle";
    absl::StrAppendFormat(&svg, "<text x=\"%.1f\" y=\"%g\" text-anchor=\"%s\">%s</text>\n", x,
                          kHigh - kBottomEdge + 17, anchor, HtmlText(chart.x_text(tick)));
  }
  absl::StrAppendFormat(&svg,
                        "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">%s</text>\n"
                        "<text x=\"14\" y=\"%g\" text-anchor=\"middle\" "
                        "transform=\"rotate(-90 14 %g)\">%s</text>\n",
                        (kLeftEdge + kWide - kRightEdge) / 2, kHigh - 10, HtmlText(chart.x_label),
                        (kTopEdge + kHigh - kBottomEdge) / 2, (kTopEdge + kHigh - kBottomEdge) / 2,
                        HtmlText(chart.y_label));
  return svg;
}

bool IsDrawn(const BandPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.mean) && std::isfinite(point.spread);
}

// Draws the band, and the line on it, for points that are all finite.
std::string PieceSvg(absl::Span<const BandPoint> points, const std::string& name, size_t index,
                     const Axis& x_axis, const Axis& y_axis) {
  std::string line, above, below;
  bool spread = false;
  for (const BandPoint& point : points) {
    const double x = XAt(x_axis, point.x);
    absl::StrAppendFormat(&line, "%s%.1f %.1f", line.empty() ? "M" : "L", x,
                          YAt(y_axis, point.mean));
    absl::StrAppendFormat(&above, "%s%.1f %.1f", above.empty() ? "M" : "L", x,
                          YAt(y_axis, point.mean + point.spread));
    below = absl::StrFormat("L%.1f %.1f", x, YAt(y_axis, point.mean - point.spread)) + below;
    spread = spread || point.spread > 0;
  }
  if (line.empty()) return "";
  std::string svg;
  if (spread) {
    svg = absl::StrCat("<path class=\"band ", SeriesClass(index), "\" d=\"", above, below, "Z\"/>");
  }
  return absl::StrCat(svg, "<path class=\"line ", SeriesClass(index), "\" d=\"", line, "\"><title>",
                      HtmlText(name), "</title></path>\n");
}

// Draws the pieces between points that are not finite, and a cross for each of those.
std::string CurveSvg(const BandSeries& series, size_t index, const Axis& x_axis,
                     const Axis& y_axis) {
  std::string svg;
  const absl::Span<const BandPoint> points = series.points;
  size_t begin = 0;
  for (size_t i = 0; i <= points.size(); ++i) {
    if (i < points.size() && IsDrawn(points[i])) continue;
    svg += PieceSvg(points.subspan(begin, i - begin), series.name, index, x_axis, y_axis);
    begin = i + 1;
    if (i == points.size() || !std::isfinite(points[i].x)) continue;
    const double x = XAt(x_axis, points[i].x);
    absl::StrAppendFormat(
        &svg, "<path class=\"line %s\" d=\"M%.1f %gl8 8m0 -8l-8 8\"><title>%s: %s</title></path>\n",
        SeriesClass(index), x - 4, kTopEdge, HtmlText(series.name), NumberText(points[i].mean, 4));
  }
  return svg;
}

// Draws the bar and its dot, or the words in their place.
std::string RangeSvg(const RangeRow& row, size_t index, double y,
                     const std::function<double(double)>& at) {
  if (!std::isfinite(row.low) || !std::isfinite(row.middle) || !std::isfinite(row.high)) {
    return absl::StrFormat("<text x=\"%g\" y=\"%g\">%s, mean %s, %s</text>\n", kRangeLeft, y + 30,
                           NumberText(row.low, 4), NumberText(row.middle, 4),
                           NumberText(row.high, 4));
  }
  return absl::StrFormat(
      "<path class=\"range s%d\" d=\"M%.1f %gH%.1f\"/>"
      "<circle class=\"dot s%d\" cx=\"%.1f\" cy=\"%g\" r=\"5\"/>\n",
      index % kColours, at(row.low), y + 26, at(row.high), index % kColours, at(row.middle),
      y + 26);
}

}  // namespace

std::string HtmlText(absl::string_view text) {
  return absl::StrReplaceAll(PrintableText(text),
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string SeriesClass(size_t series) {
  return absl::StrCat("s", series % kColours, " d", series % kDashes);
}

std::string LegendMark(size_t series) {
  return absl::StrCat(
      "<svg class=\"mark\" viewBox=\"0 0 30 10\" aria-hidden=\"true\"><path class=\"line ",
      SeriesClass(series), "\" d=\"M0 5H30\"/></svg>");
}

std::string BandChartSvg(const BandChart& chart) {
  std::vector<double> xs, ys;
  for (const BandSeries& series : chart.series) {
    for (const BandPoint& point : series.points) {
      xs.push_back(point.x);
      ys.push_back(point.mean - point.spread);
      ys.push_back(point.mean + point.spread);
    }
  }
  const Axis x_axis = AxisOver(xs, kXTicks);
  const Axis y_axis = AxisOver(ys, kYTicks);
  std::string svg = Head(chart.title, kHigh) + Axes(chart, x_axis, y_axis);
  for (size_t i = 0; i < chart.series.size(); ++i) {
    svg += CurveSvg(chart.series[i], i, x_axis, y_axis);
  }
  return svg + "</svg>\n";
}

std::string RangeChartSvg(const std::string& title, const std::string& x_label,
                          absl::Span<const RangeRow> rows) {
  const double high = kTopEdge + kRowHigh * static_cast<double>(rows.size()) + kBottomEdge;
  std::vector<double> values;
  for (const RangeRow& row : rows) values.insert(values.end(), {row.low, row.middle, row.high});
  const Axis axis = AxisOver(values, kXTicks);
  const double left = kRangeLeft;
  const auto at = [&](double value) { return left + axis.At(value) * (kWide - left - kRightEdge); };
  std::string svg = Head(title, high);
  for (const double tick : axis.ticks) {
    const double x = at(tick);
    const char* const anchor = x < left + 10 ? "start" : x > kWide - 30 ? "end" : "middle";
    absl::StrAppendFormat(&svg,
                          "<path class=\"grid\" d=\"M%.1f %gV%g\"/>"
                          "<text x=\"%.1f\" y=\"%g\" text-anchor=\"%s\">%s</text>\n",
                          x, kTopEdge, high - kBottomEdge, x, high - kBottomEdge + 17, anchor,
                          absl::StrFormat("%g", tick));
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const RangeRow& row = rows[i];
    const double y = kTopEdge + kRowHigh * static_cast<double>(i);
    absl::StrAppendFormat(&svg, "<text x=\"%g\" y=\"%g\">%s</text>", left, y + 14,
                          HtmlText(CutToWidth(row.name, kMostNameShown, Charset::kUnicode)));
    svg += RangeSvg(row, i, y, at);
  }
  absl::StrAppendFormat(&svg, "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">%s</text>\n",
                        kWide / 2, high - 10, HtmlText(x_label));
  return svg + "</svg>\n";
}

}  // namespace atolld

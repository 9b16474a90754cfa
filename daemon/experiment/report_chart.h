// The plots of an experiment's report, as SVG that stands in an HTML page: curves with a band for
// the spread over seeds, and a range a setting.
//
// Colours and dashes come from the page's style sheet (classes s0 to s7): eight colours that people
// with any colour vision tell apart (after Okabe and Ito, "Color Universal Design", 2008), and four
// dashes, so that none is told by colour alone. Pure functions, any thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace atolld {

struct BandPoint {
  double x = 0;
  double mean = 0;
  double spread = 0;  // the band reaches so far to both sides
};

struct BandSeries {
  std::string name;
  std::vector<BandPoint> points;  // ascending x
};

struct BandChart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::function<std::string(double)> x_text;  // of a number on the axis
  std::vector<BandSeries> series;
};

std::string BandChartSvg(const BandChart& chart);

// One row a setting: a bar from low to high with a dot at the middle.
struct RangeRow {
  std::string name;
  double low = 0, middle = 0, high = 0;
};
std::string RangeChartSvg(const std::string& title, const std::string& x_label,
                          absl::Span<const RangeRow> rows);

// A line of the series' colour and dash, for a legend.
std::string LegendMark(size_t series);

// "s3 d1": the classes of a series.
std::string SeriesClass(size_t series);

// Text as HTML has it, in elements and in attributes.
std::string HtmlText(absl::string_view text);

}  // namespace atolld

// Draws the plots of an experiment's report, as SVG inside an HTML page: curves with a band that
// shows the spread over seeds, and a range for each setting.
//
// Colours and dashes come from the page's style sheet (classes s0 to s7): eight colours that people
// with any colour vision can tell apart (after Okabe and Ito, "Color Universal Design", 2008), and
// four dash patterns, so that curves do not differ by colour alone. A point whose mean is not
// finite interrupts its line and is marked at the top of the plot. Pure. May be called from any
// thread.
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
  double spread = 0;  // the band extends this far above and below the mean
};

struct BandSeries {
  std::string name;
  std::vector<BandPoint> points;  // by ascending x
};

struct BandChart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::function<std::string(double)> x_text;  // formats a number on the x axis
  std::vector<BandSeries> series;
};

std::string BandChartSvg(const BandChart& chart);

// The row of one setting: a bar from `low` to `high` with a dot at `middle`. Values that are not
// finite are written as words.
struct RangeRow {
  std::string name;
  double low = 0, middle = 0, high = 0;
};
std::string RangeChartSvg(const std::string& title, const std::string& x_label,
                          absl::Span<const RangeRow> rows);

// Returns a short line in the colour and dash pattern of a series, for a legend.
std::string LegendMark(size_t series);

// Returns the CSS classes of a series: "s3 d1".
std::string SeriesClass(size_t series);

// Returns the text, escaped for HTML elements and attributes.
std::string HtmlText(absl::string_view text);

}  // namespace atolld

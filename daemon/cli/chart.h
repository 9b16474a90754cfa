// A curve with axes, for the terminal and as a picture.
//
// Pure functions, any thread. Points that are not finite are left out; a chart without a point is
// still a chart.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compression/base/terminal.h"

namespace atolld {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // ascending x
  bool dots = false;  // each point marked, not joined by a line (terminal)
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Series> series;
};

// `columns` x `rows` characters in all, at least 24 x 6: dots for lines (braille; of ASCII ', . and
// :), "●" or "o" for marked points, numbers on both axes.
std::vector<std::string> DrawChart(const Chart& chart, int columns, int rows, Charset charset);

// A whole SVG document, 720 x 420.
std::string ChartSvg(const Chart& chart);

// Round numbers that cover [low, high], about `count` of them, ascending.
std::vector<double> NiceTicks(double low, double high, int count);

}  // namespace atolld

// Draws curves with axes, as text for the terminal or as an SVG picture.
//
// Points that are not finite are not drawn: the line is interrupted at them, and the legend says
// how many there are. A chart without points has only its axes. Pure. May be called from any
// thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compression/base/terminal.h"

namespace atolld {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // (x, y), by ascending x
  bool dots = false;  // true to mark the points and draw no line (only on the terminal)
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Series> series;
};

// Draws the chart in `columns` x `rows` characters, at least 24 x 6. Lines consist of braille dots,
// or of the characters ', . and : in ASCII. Marked points are "●", or "o" in ASCII. Both axes have
// numbers.
std::vector<std::string> DrawChart(const Chart& chart, int columns, int rows, Charset charset);

// Returns a whole SVG document, 720 x 420.
std::string ChartSvg(const Chart& chart);

// Returns about `count` round numbers that cover [low, high], ascending.
std::vector<double> NiceTicks(double low, double high, int count);

}  // namespace atolld

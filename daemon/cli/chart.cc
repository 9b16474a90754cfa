#include "daemon/cli/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "daemon/program/format.h"

namespace atolld {
namespace {

struct Range {
  double low = 0;
  double high = 1;
  // Where a value lies, 0-1.
  double At(double value) const { return (value - low) / (high - low); }
};

bool IsFinite(const std::pair<double, double>& point) {
  return std::isfinite(point.first) && std::isfinite(point.second);
}

std::vector<std::pair<double, double>> FinitePoints(const Series& series) {
  std::vector<std::pair<double, double>> points;
  for (const auto& point : series.points) {
    if (IsFinite(point)) points.push_back(point);
  }
  return points;
}

// Returns "validation" or "validation (2 NaN)": a run that has diverged must not look like one that
// ended.
std::string NameOf(const Series& series) {
  const size_t lost = series.points.size() - FinitePoints(series).size();
  return lost == 0 ? series.name : absl::StrCat(series.name, " (", lost, " NaN)");
}

template <typename Pick>
Range RangeOf(const Chart& chart, Pick pick) {
  Range range{0, 0};
  bool any = false;
  for (const Series& series : chart.series) {
    for (const auto& point : FinitePoints(series)) {
      const double value = pick(point);
      range.low = any ? std::min(range.low, value) : value;
      range.high = any ? std::max(range.high, value) : value;
      any = true;
    }
  }
  if (!any) return Range{0, 1};
  if (range.low == range.high) return Range{range.low - 0.5, range.high + 0.5};
  return range;
}

Range XRange(const Chart& chart) {
  return RangeOf(chart, [](const std::pair<double, double>& point) { return point.first; });
}

// Returns the range of the data with a little margin, and the round numbers within.
Range YRange(const Chart& chart, int ticks, std::vector<double>* values) {
  Range range = RangeOf(chart, [](const std::pair<double, double>& point) { return point.second; });
  const double room = (range.high - range.low) * 0.04;
  range = Range{range.low - room, range.high + room};
  for (const double tick : NiceTicks(range.low, range.high, ticks)) {
    if (tick >= range.low && tick <= range.high) values->push_back(tick);
  }
  return range;
}

std::string TickText(double value) { return absl::StrFormat("%.6g", value); }

// The characters with which charts are drawn.
struct Glyphs {
  int dots_wide;  // of a character
  int dots_high;
  const char* mark;
  const char* line;  // in the legend
  const char* side;
  const char* tick;
  const char* corner;
  const char* bottom;
};

const Glyphs& GlyphsOf(Charset charset) {
  static constexpr Glyphs kBraille = {2, 4, "●", "⠤⠤", "│", "┤", "└", "─"};
  static constexpr Glyphs kPlain = {1, 2, "o", "..", "|", "+", "+", "-"};
  return charset == Charset::kUnicode ? kBraille : kPlain;
}

// A grid of characters, each with some dots.
class Canvas {
 public:
  Canvas(int columns, int rows, const Glyphs& glyphs)
      : columns_(columns),
        rows_(rows),
        glyphs_(glyphs),
        cells_(static_cast<size_t>(columns * rows), 0) {}

  int width() const { return columns_ * glyphs_.dots_wide; }
  int height() const { return rows_ * glyphs_.dots_high; }

  void Dot(int x, int y) {  // from the top left
    if (x < 0 || y < 0 || x >= width() || y >= height()) return;
    const int across = x % glyphs_.dots_wide, down = y % glyphs_.dots_high;
    cells_[Index(x, y)] |= glyphs_.dots_wide == 1 ? 1 << down : kBraille[down][across];
  }

  void Line(int x0, int y0, int x1, int y1) {
    const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= steps; ++i) {
      Dot(x0 + static_cast<int>(std::lround(static_cast<double>(x1 - x0) * i / steps)),
          y0 + static_cast<int>(std::lround(static_cast<double>(y1 - y0) * i / steps)));
    }
  }

  void Mark(int x, int y) { cells_[Index(x, y)] = kMark; }

  std::string Row(int row) const {
    std::string text;
    for (int column = 0; column < columns_; ++column) {
      const uint16_t cell = cells_[static_cast<size_t>(row * columns_ + column)];
      if (cell == kMark) {
        text += glyphs_.mark;
      } else if (cell == 0) {
        text += ' ';
      } else if (glyphs_.dots_wide == 1) {
        text += cell == 1 ? '\'' : cell == 2 ? '.' : ':';
      } else {  // U+2800 + cell, as UTF-8
        text += '\xe2';
        text += static_cast<char>(0xa0 + (cell >> 6));
        text += static_cast<char>(0x80 + (cell & 0x3f));
      }
    }
    return text;
  }

 private:
  static constexpr uint16_t kMark = 0x100;
  static constexpr uint16_t kBraille[4][2] = {
      {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  size_t Index(int x, int y) const {
    return static_cast<size_t>(y / glyphs_.dots_high * columns_ + x / glyphs_.dots_wide);
  }

  int columns_;
  int rows_;
  const Glyphs& glyphs_;
  std::vector<uint16_t> cells_;
};

void Plot(const Series& series, const Range& x_range, const Range& y_range, Canvas* canvas) {
  int last_x = 0;
  int last_y = 0;
  bool first = true;
  for (const auto& point : series.points) {
    if (!IsFinite(point)) {
      first = true;
      continue;
    }
    const int x = static_cast<int>(std::lround(x_range.At(point.first) * (canvas->width() - 1)));
    const int y =
        static_cast<int>(std::lround((1 - y_range.At(point.second)) * (canvas->height() - 1)));
    if (series.dots) {
      canvas->Mark(x, y);
    } else if (first) {
      canvas->Dot(x, y);
    } else {
      canvas->Line(last_x, last_y, x, y);
    }
    last_x = x;
    last_y = y;
    first = false;
  }
}

std::string Legend(const Chart& chart, const Glyphs& glyphs) {
  std::string legend;
  for (const Series& series : chart.series) {
    absl::StrAppend(&legend, legend.empty() ? "" : "   ", series.dots ? glyphs.mark : glyphs.line,
                    " ", NameOf(series));
  }
  return legend;
}

std::string XmlText(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

}  // namespace

std::vector<double> NiceTicks(double low, double high, int count) {
  if (!(high > low)) high = low + 1;
  const double rough = (high - low) / std::max(count - 1, 1);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double lead = rough / power;
  const double step = power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
  std::vector<double> ticks;
  const double first = std::floor(low / step + 1e-9);
  const double last = std::ceil(high / step - 1e-9);
  for (double i = first; i <= last; ++i) ticks.push_back(i * step);
  return ticks;
}

std::vector<std::string> DrawChart(const Chart& chart, int columns, int rows, Charset charset) {
  const Glyphs& glyphs = GlyphsOf(charset);
  columns = std::max(columns, 24);
  rows = std::max(rows, 6);
  const int plot_rows = rows - 3;  // title, axis, numbers below it
  std::vector<double> ticks;
  const Range y_range = YRange(chart, std::max(plot_rows / 2, 3), &ticks);
  const Range x_range = XRange(chart);

  size_t margin = 0;
  for (const double tick : ticks) margin = std::max(margin, TickText(tick).size());
  const int plot_columns = std::max(columns - static_cast<int>(margin) - 2, 4);
  Canvas canvas(plot_columns, plot_rows, glyphs);
  for (const Series& series : chart.series) {
    if (!series.dots) Plot(series, x_range, y_range, &canvas);
  }
  for (const Series& series : chart.series) {
    if (series.dots) Plot(series, x_range, y_range, &canvas);
  }

  std::vector<std::string> lines = {
      CutToWidth(absl::StrCat(chart.title, "   ", Legend(chart, glyphs)),
                 static_cast<size_t>(columns), charset)};
  std::vector<std::string> labels(static_cast<size_t>(plot_rows));
  for (const double tick : ticks) {
    const auto row = static_cast<size_t>(std::lround((1 - y_range.At(tick)) * (plot_rows - 1)));
    labels[row] = TickText(tick);
  }
  for (int row = 0; row < plot_rows; ++row) {
    const std::string& label = labels[static_cast<size_t>(row)];
    lines.emplace_back(absl::StripTrailingAsciiWhitespace(absl::StrCat(
        PadLeft(label, margin), " ", label.empty() ? glyphs.side : glyphs.tick, canvas.Row(row))));
  }
  std::string axis = absl::StrCat(std::string(margin, ' '), " ", glyphs.corner);
  for (int i = 0; i < plot_columns; ++i) axis += glyphs.bottom;
  lines.push_back(axis);

  const std::string left = TickText(x_range.low);
  const std::string right = absl::StrCat(chart.x_label, " ", TickText(x_range.high));
  lines.push_back(absl::StrCat(
      std::string(margin + 2, ' '), left,
      PadLeft(right,
              static_cast<size_t>(std::max(plot_columns - static_cast<int>(left.size()), 0)))));
  return lines;
}

std::string ChartSvg(const Chart& chart) {
  constexpr double kWidth = 720, kHeight = 420;
  constexpr double kLeft = 64, kRight = 20, kTop = 48, kBottom = 52;
  constexpr const char* kColours[] = {"#0b7285", "#e8590c", "#5f3dc4", "#2b8a3e"};
  std::vector<double> y_ticks;
  const Range y_range = YRange(chart, 6, &y_ticks);
  const Range x_range = XRange(chart);
  const auto x_at = [&](double x) { return kLeft + x_range.At(x) * (kWidth - kLeft - kRight); };
  const auto y_at = [&](double y) {
    return kHeight - kBottom - y_range.At(y) * (kHeight - kTop - kBottom);
  };

  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
      "<text x=\"%g\" y=\"22\" font-size=\"15\">%s</text>\n",
      kWidth, kHeight, kWidth, kHeight, kLeft, XmlText(chart.title));
  for (const double tick : y_ticks) {
    absl::StrAppendFormat(&svg,
                          "<path d=\"M%g %.1fH%g\" stroke=\"#dee2e6\"/>"
                          "<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                          kLeft, y_at(tick), kWidth - kRight, kLeft - 6, y_at(tick) + 4,
                          TickText(tick));
  }
  for (const double tick : NiceTicks(x_range.low, x_range.high, 8)) {
    if (tick < x_range.low || tick > x_range.high) continue;
    absl::StrAppendFormat(&svg, "<text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\">%s</text>\n",
                          x_at(tick), kHeight - kBottom + 18, TickText(tick));
  }
  absl::StrAppendFormat(&svg,
                        "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">%s</text>\n"
                        "<text x=\"%g\" y=\"%g\">%s</text>\n",
                        (kLeft + kWidth - kRight) / 2, kHeight - 12, XmlText(chart.x_label), 8.0,
                        kTop - 10, XmlText(chart.y_label));
  double legend_x = kWidth - kRight;
  for (size_t i = chart.series.size(); i-- > 0;) {
    const Series& series = chart.series[i];
    const char* colour = kColours[i % std::size(kColours)];
    std::string path;
    std::string dots;
    bool begins = true;
    for (const auto& [x, y] : series.points) {
      if (!IsFinite({x, y})) {
        begins = true;
        continue;
      }
      absl::StrAppendFormat(&path, "%s%.1f %.1f", begins ? "M" : "L", x_at(x), y_at(y));
      begins = false;
      if (series.dots) {
        absl::StrAppendFormat(&dots, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>",
                              x_at(x), y_at(y), colour);
      }
    }
    absl::StrAppendFormat(&svg,
                          "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>%s\n",
                          path, colour, dots);
    absl::StrAppendFormat(&svg,
                          "<text x=\"%g\" y=\"22\" text-anchor=\"end\" fill=\"%s\">%s</text>\n",
                          legend_x, colour, XmlText(NameOf(series)));
    legend_x -= 12 + 7.5 * static_cast<double>(NameOf(series).size());
  }
  return svg + "</svg>\n";
}

}  // namespace atolld

#include "daemon/experiment/partition/partition_picture.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "compression/base/names.h"
#include "compression/base/words.h"

namespace atolld {
namespace {

constexpr double kWidth = 960;
constexpr double kLeft = 64;
constexpr double kRight = 160;  // of the legend
constexpr double kTop = 56;
constexpr double kPlotHeight = 280;
constexpr double kRow = 18;
constexpr size_t kColours = 10;
constexpr size_t kStripRows = 16;
constexpr size_t kStripColumns = 200;
constexpr size_t kHistogramBins = 40;
constexpr size_t kLongestName = 18;

// Okabe and Ito's colours, which colour-blind readers can tell apart, together with two greys.
constexpr char kStyle[] = R"(<style>
svg { background: #fff; font: 12px sans-serif; }
text { fill: #222; } .axis { stroke: #999; } .small { font-size: 11px; fill: #555; }
.c0 { fill: #0072b2; } .c1 { fill: #e69f00; } .c2 { fill: #009e73; } .c3 { fill: #cc79a7; }
.c4 { fill: #56b4e9; } .c5 { fill: #d55e00; } .c6 { fill: #f0e442; } .c7 { fill: #7a5195; }
.c8 { fill: #8c6d31; } .c9 { fill: #a6c36f; } .rest { fill: #aaa; }
@media (prefers-color-scheme: dark) {
svg { background: #16181c; } text { fill: #ddd; } .small { fill: #aaa; } .axis { stroke: #666; }
.rest { fill: #666; } }
</style>
)";

std::string EscapeXml(absl::string_view text) {
  return absl::StrReplaceAll(Printable(text), {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

std::string Rectangle(double x, double y, double width, double height, absl::string_view style,
                      absl::string_view title) {
  return absl::StrFormat(
      "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" %s><title>%s</title></rect>\n", x,
      y, width, height, style, EscapeXml(title));
}

std::string Words(double x, double y, absl::string_view attributes, absl::string_view text) {
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, attributes,
                         EscapeXml(text));
}

// Returns the labels with most samples, the most common first.
std::vector<uint32_t> CommonLabels(const PartitionReport& report, size_t most) {
  std::vector<uint32_t> labels;
  for (uint32_t i = 0; i < report.label_counts.size(); ++i) {
    if (report.label_counts[i] > 0) labels.push_back(i);
  }
  std::stable_sort(labels.begin(), labels.end(), [&](uint32_t a, uint32_t b) {
    return report.label_counts[a] > report.label_counts[b];
  });
  if (labels.size() > most) labels.resize(most);
  return labels;
}

class PartitionPicture {
 public:
  explicit PartitionPicture(const PartitionReport& report) : report_(report) {}

  std::string Draw() {
    const bool bars = report_.parties.size() <= kMostBars;
    const std::string body = bars ? Bars() : Crowd();
    return absl::StrFormat(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
               "role=\"img\">\n",
               kWidth, height_) +
           kStyle + Heading() + body + "</svg>\n";
  }

 private:
  std::string Heading() const {
    const PartitionSettings& s = report_.settings;
    std::string title = absl::StrCat(s.name.empty() ? "" : absl::StrCat(s.name, ": "),
                                     Counted(report_.parties.size(), "party"), ", ", s.scheme);
    if (s.scheme == "dirichlet" || s.scheme == "inner_dirichlet") {
      absl::StrAppend(&title, ", alpha ", s.alpha);
    }
    return Words(kLeft, 22, "font-size=\"16\"", title) +
           Words(kLeft, 40, "class=\"small\"",
                 absl::StrFormat("%d to %d samples, median %d; %.2f effective labels a party; "
                                 "distance from the whole %.3f",
                                 report_.smallest, report_.largest, report_.median,
                                 report_.effective_labels, report_.distance));
  }

  std::string Axis(double most, absl::string_view what) const {
    std::string out;
    for (const double part : {0.0, 0.5, 1.0}) {
      const double y = kTop + kPlotHeight * (1 - part);
      absl::StrAppendFormat(&out,
                            "<line class=\"axis\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
                            "stroke-width=\"0.5\"/>\n",
                            kLeft, y, kWidth - kRight, y);
      out += Words(kLeft - 6, y + 4, "class=\"small\" text-anchor=\"end\"",
                   absl::StrFormat("%.0f", most * part));
    }
    return out + Words(kLeft - 6, kTop - 14, "class=\"small\" text-anchor=\"end\"", what);
  }

  std::string Legend(const std::vector<uint32_t>& labels) const {
    std::string out;
    double y = kTop;
    for (size_t i = 0; i < labels.size(); ++i, y += kRow) {
      out += Rectangle(kWidth - kRight + 16, y, 12, 12, absl::StrCat("class=\"c", i, "\""),
                       report_.labels[labels[i]]);
      out += Words(kWidth - kRight + 34, y + 10, "class=\"small\"",
                   OneLine(report_.labels[labels[i]], kLongestName));
    }
    if (CommonLabels(report_, labels.size() + 1).size() == labels.size()) return out;
    return out + Rectangle(kWidth - kRight + 16, y, 12, 12, "class=\"rest\"", "all others") +
           Words(kWidth - kRight + 34, y + 10, "class=\"small\"", "all others");
  }

  std::string Bars() {
    height_ = kTop + kPlotHeight + 40;
    const std::vector<uint32_t> common = CommonLabels(report_, kColours);
    const double most = static_cast<double>(std::max<uint64_t>(1, report_.largest));
    const double step = (kWidth - kLeft - kRight) /
                        static_cast<double>(std::max<size_t>(1, report_.parties.size()));
    std::string out = Axis(most, "samples");
    for (size_t party = 0; party < report_.parties.size(); ++party) {
      const PartyShare& share = report_.parties[party];
      const double x = kLeft + step * static_cast<double>(party) + step * 0.1;
      double y = kTop + kPlotHeight;
      uint64_t rest = share.samples;
      const auto add = [&](uint64_t count, absl::string_view style, absl::string_view label) {
        if (count == 0) return;
        const double height = kPlotHeight * static_cast<double>(count) / most;
        y -= height;
        out += Rectangle(x, y, step * 0.8, height, style,
                         absl::StrCat(share.name, ", ", label, ": ", count));
      };
      for (size_t i = 0; i < common.size(); ++i) {
        const uint64_t count = CountOf(share, common[i]);
        add(count, absl::StrCat("class=\"c", i, "\""), report_.labels[common[i]]);
        rest -= count;
      }
      add(rest, "class=\"rest\"", "all others");
      const bool named = report_.parties.size() <= 20 || party % 5 == 4;
      if (named) {
        out += Words(x + step * 0.4, kTop + kPlotHeight + 16,
                     "class=\"small\" text-anchor=\"middle\"", absl::StrCat(party + 1));
      }
    }
    return out + Legend(common);
  }

  static uint64_t CountOf(const PartyShare& share, uint32_t label) {
    for (const auto& [one, count] : share.labels) {
      if (one == label) return count;
    }
    return 0;
  }

  std::string Crowd() {
    const double strip = kTop + kPlotHeight + 60;
    const std::vector<uint32_t> common = CommonLabels(report_, kStripRows);
    height_ = strip + kRow * static_cast<double>(common.size()) + 40;
    return Histogram() + Strip(strip, common);
  }

  std::string Histogram() const {
    const double low = static_cast<double>(report_.smallest);
    const double span = std::max(1.0, static_cast<double>(report_.largest) - low + 1);
    const size_t columns = std::min(kHistogramBins, static_cast<size_t>(span));
    std::vector<uint64_t> bins(columns);
    for (const PartyShare& share : report_.parties) {
      const double at = (static_cast<double>(share.samples) - low) / span;
      ++bins[static_cast<size_t>(at * static_cast<double>(columns))];
    }
    const double most = static_cast<double>(*std::max_element(bins.begin(), bins.end()));
    const double step = (kWidth - kLeft - kRight) / static_cast<double>(columns);
    std::string out = Axis(most, "parties");
    for (size_t i = 0; i < bins.size(); ++i) {
      if (bins[i] == 0) continue;
      const double height = kPlotHeight * static_cast<double>(bins[i]) / most;
      const double from = low + span * static_cast<double>(i) / static_cast<double>(columns);
      out += Rectangle(kLeft + step * static_cast<double>(i), kTop + kPlotHeight - height,
                       step * 0.92, height, "class=\"c0\"",
                       absl::StrFormat("from %.0f samples: %s", from, Counted(bins[i], "party")));
    }
    out += Words(kLeft, kTop + kPlotHeight + 16, "class=\"small\"", absl::StrCat(report_.smallest));
    return out + Words(kWidth - kRight, kTop + kPlotHeight + 16,
                       "class=\"small\" text-anchor=\"end\"",
                       absl::StrCat(report_.largest, " samples"));
  }

  std::string Strip(double top, const std::vector<uint32_t>& common) const {
    std::vector<size_t> order(report_.parties.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return report_.parties[a].samples < report_.parties[b].samples;
    });
    const size_t columns = std::min(kStripColumns, order.size());
    const double step = (kWidth - kLeft - kRight) / static_cast<double>(columns);
    std::vector<uint32_t> row_of(report_.labels.size(), UINT32_MAX);
    for (uint32_t row = 0; row < common.size(); ++row) row_of[common[row]] = row;
    std::string out = Words(kLeft, top - 8, "class=\"small\"",
                            "share of a label in parties, the smallest on the left");
    for (size_t column = 0; column < columns; ++column) {
      std::vector<double> shares(common.size());
      const size_t from = column * order.size() / columns;
      const size_t to = (column + 1) * order.size() / columns;
      for (size_t i = from; i < to; ++i) {
        const PartyShare& share = report_.parties[order[i]];
        for (const auto& [label, count] : share.labels) {
          if (row_of[label] == UINT32_MAX) continue;
          shares[row_of[label]] += static_cast<double>(count) / static_cast<double>(share.samples) /
                                   static_cast<double>(to - from);
        }
      }
      for (size_t row = 0; row < shares.size(); ++row) {
        if (shares[row] < 0.005) continue;
        out += Rectangle(
            kLeft + step * static_cast<double>(column), top + kRow * static_cast<double>(row), step,
            kRow - 2, absl::StrFormat("class=\"c0\" opacity=\"%.2f\"", std::sqrt(shares[row])),
            absl::StrFormat("%s: %.1f %%", report_.labels[common[row]], 100 * shares[row]));
      }
    }
    for (size_t row = 0; row < common.size(); ++row) {
      out += Words(kWidth - kRight + 8, top + kRow * static_cast<double>(row) + 12,
                   "class=\"small\"", OneLine(report_.labels[common[row]], kLongestName));
    }
    return out;
  }

  const PartitionReport& report_;
  double height_ = 0;
};

}  // namespace

std::string PartitionSvg(const PartitionReport& report) { return PartitionPicture(report).Draw(); }

}  // namespace atolld

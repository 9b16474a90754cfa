#include "optimizer/outer_rates.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"

namespace atolld {
namespace {

using Inner = OuterRates::Inner;
using Size = OuterRates::Size;

constexpr absl::string_view kScalingLaws = "arXiv:2503.09799, figure 7";
constexpr absl::string_view kMeasured = "docs/benchmarks.md, \"Peers beside data parallel\"";
constexpr absl::string_view kShortRounds = "docs/experiments.md, h-sweep.toml";
constexpr absl::string_view kMuLoCo = "arXiv:2505.23725";
constexpr absl::string_view kMuLoCoJobs = "arXiv:2505.23725, its published job files";
constexpr absl::string_view kStreaming = "arXiv:2501.18512";

constexpr OuterRates kTable[] = {
    // The scaling laws have 0.6 for 2 and 4 peers; short runs of small models need more.
    {1, 30, Inner::kAdamW, false, Size::kAny, 0.4, 0.9, kScalingLaws},
    {2, 30, Inner::kAdamW, false, Size::kLarge, 0.6, 0.9, kScalingLaws},
    {3, 25, Inner::kAdamW, false, Size::kSmall, 0.7, 0.9, kMeasured},
    {4, 20, Inner::kAdamW, false, Size::kSmall, 0.7, 0.9, kMeasured},
    {4, 30, Inner::kAdamW, false, Size::kLarge, 0.6, 0.9, kScalingLaws},
    // Updates of a few steps are small and noisy, and a momentum of 0.9 adds up ten of them.
    {2, 5, Inner::kAdamW, false, Size::kAny, 0.7, 0.6, kShortRounds},
    {2, 10, Inner::kAdamW, false, Size::kAny, 0.7, 0.8, kShortRounds},
    {8, 5, Inner::kAdamW, false, Size::kAny, 0.7, 0.6, kShortRounds},
    {8, 10, Inner::kAdamW, false, Size::kAny, 0.7, 0.8, kShortRounds},
    {8, 30, Inner::kAdamW, false, Size::kAny, 0.8, 0.9, kScalingLaws},  // the job files' too
    {8, 500, Inner::kAdamW, false, Size::kAny, 0.7, 0.9, "arXiv:2311.08105"},
    {16, 30, Inner::kAdamW, false, Size::kAny, 1.0, 0.9, kMuLoCoJobs},
    {1, 30, Inner::kMuon, false, Size::kAny, 0.7, 0.6, kMuLoCo},
    {8, 5, Inner::kMuon, false, Size::kAny, 0.7, 0.6, kShortRounds},
    {8, 10, Inner::kMuon, false, Size::kAny, 0.7, 0.8, kShortRounds},
    {2, 30, Inner::kMuon, false, Size::kAny, 0.9, 0.8, kMuLoCoJobs},
    {16, 30, Inner::kMuon, false, Size::kAny, 1.0, 0.9, kMuLoCoJobs},
    {2, 30, Inner::kAdamW, true, Size::kAny, 0.4, 0.9, kStreaming},
    {2, 100, Inner::kAdamW, true, Size::kAny, 0.4, 0.9, kStreaming},
    {4, 8, Inner::kAdamW, true, Size::kSmall, 0.7, 0.9, "docs/experiments.md, modes.toml"},
    // That source tried 0.8 and 0.9.
    {8, 30, Inner::kMuon, true, Size::kAny, 0.8, 0.9, kMuLoCoJobs},
};

bool Fits(const OuterRates& row, const OuterRatesQuery& query) {
  if ((row.inner == Inner::kMuon) != query.muon || row.streaming != query.streaming) return false;
  const Size size = query.parameters >= kLargeModel ? Size::kLarge : Size::kSmall;
  return row.size == Size::kAny || row.size == size;
}

double Distance(const OuterRates& row, const OuterRatesQuery& query) {
  return std::abs(std::log2(std::max(1.0, query.peers) / row.peers)) +
         std::abs(std::log2(std::max(1.0, query.steps) / row.steps));
}

}  // namespace

absl::Span<const OuterRates> OuterRatesTable() { return kTable; }

const OuterRates& NearestOuterRates(const OuterRatesQuery& query) {
  // Two distances that differ only by the rounding of their logarithms are equal.
  constexpr double kRounding = 1e-9;
  const OuterRates* nearest = nullptr;
  for (const OuterRates& row : kTable) {
    if (!Fits(row, query)) continue;
    const double gain = nearest == nullptr ? 1 : Distance(*nearest, query) - Distance(row, query);
    const bool equal = std::abs(gain) <= kRounding && row.peers < nearest->peers;
    if (gain > kRounding || equal) nearest = &row;
  }
  CHECK(nearest != nullptr);  // each optimiser has rows for each mode and every size
  return *nearest;
}

// In mode "eager" what a guess was wrong by comes back in the next update. By a linear model of a
// round (each update c times the way to the optimum, c up to 1) it dies away if the rate times
// (1 + momentum) is below 1/2.
double RateInMode(absl::string_view mode, const OuterRates& row) {
  if (mode == "eager") return std::min(0.3 * row.learning_rate, 0.5 / (1 + row.momentum));
  return mode == "delayed" ? 0.5 * row.learning_rate : row.learning_rate;
}

std::string DescribeOuterRates(const OuterRates& rates) {
  return absl::StrCat(rates.learning_rate, " / ", rates.momentum, " (", rates.peers,
                      rates.peers == 1 ? " peer, " : " peers, ", rates.steps, " steps, ",
                      rates.inner == Inner::kMuon ? "muon" : "adamw",
                      rates.streaming ? ", streaming; " : "; ", rates.source, ")");
}

}  // namespace atolld

#include "optimizer/outer_advice.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "compression/base/check.h"

namespace atolld {
namespace {

// How many times larger or smaller than the row's a gain may be. The rates of neighbouring rows,
// and those that the sources of the table tried and found to be nearly as good, are within it.
constexpr double kFarGain = 2;

// Two values that differ only by the rounding of a float are equal.
constexpr double kFloatRounding = 1e-6;

// With this overlap, streaming runs lose next to nothing (arXiv:2501.18512, section 3.3.2;
// docs/experiments.md, modes.toml).
constexpr uint32_t kFreeOverlap = 5;

enum class CostlySetting { kShortRounds, kDelayedRate, kAsyncNesterov, kLongOverlap };

// A cost that somebody has measured.
struct MeasuredCost {
  CostlySetting setting;
  // kShortRounds: the inner steps of a round. kDelayedRate: the learning rate. kLongOverlap: the
  // steps above which this is the cost.
  double at;
  double learning_rate;  // only for kShortRounds, whose runs had AdamW inside
  double momentum;
  absl::string_view figure;
  absl::string_view source;
};

constexpr MeasuredCost kMeasuredCosts[] = {
    // TO BE REPLACED by the sweep of outer rates at 5 and 10 steps: the "instead of" below is the
    // loss of the same rates in rounds of 25 steps.
    {CostlySetting::kShortRounds, 5, 0.7, 0.9, "2.587 nats a byte instead of 2.066 at equal tokens",
     "docs/experiments.md, h-sweep.toml"},
    {CostlySetting::kShortRounds, 10, 0.7, 0.9,
     "2.228 nats a byte instead of 2.066 at equal tokens", "docs/experiments.md, h-sweep.toml"},
    {CostlySetting::kDelayedRate, 0.8, 0, 0, "runs diverge", "docs/experiments.md, modes.toml"},
    {CostlySetting::kAsyncNesterov, 0, 0, 0,
     "they end at 8.57 nats a byte where those of 'delayed_nesterov' end at 2.26",
     "docs/experiments.md, async.toml"},
    {CostlySetting::kLongOverlap, kFreeOverlap, 0, 0, "up to 0.2 % of the loss",
     "arXiv:2501.18512, section 3.3.2"},
    {CostlySetting::kLongOverlap, 10, 0, 0, "0.2 % of the loss or more",
     "arXiv:2501.18512, section 3.3.2"},
};

// Returns the first measured cost of the setting.
const MeasuredCost& CostOf(CostlySetting setting) {
  const auto* const found =
      std::find_if(std::begin(kMeasuredCosts), std::end(kMeasuredCosts),
                   [setting](const MeasuredCost& cost) { return cost.setting == setting; });
  CHECK(found != std::end(kMeasuredCosts));
  return *found;
}

bool IsAbove(double value, double limit) { return value > limit * (1 + kFloatRounding); }

bool IsSame(double a, double b) { return !IsAbove(a, b) && !IsAbove(b, a); }

bool HasRatesOf(const OuterRates& row, const OuterSetting& setting) {
  return IsSame(row.learning_rate, setting.learning_rate) && IsSame(row.momentum, setting.momentum);
}

// Returns how far a mean update that stays the same moves the parameters in the end, in lengths of
// the update.
double GainOf(double learning_rate, double momentum) { return learning_rate / (1 - momentum); }

// Returns in which respect the two rows are for different runs.
absl::string_view RespectOf(const OuterRates& row, const OuterRates& nearest) {
  const bool peers = row.peers != nearest.peers;
  const bool steps = row.steps != nearest.steps;
  if (peers && steps) return "another number of peers and of steps";
  if (peers) return "another number of peers";
  return steps ? "another number of steps" : "another size of the model";
}

// Returns a clause about a row, for another kind of run, whose rates the setting has; an empty text
// if there is none. If there are several, those that differ in one respect come first.
std::string OtherRowOf(const OuterSetting& setting, const OuterRates& nearest) {
  const OuterRates* found = nullptr;
  for (const OuterRates& row : OuterRatesTable()) {
    const bool same_kind = row.inner == nearest.inner && row.streaming == nearest.streaming;
    if (!same_kind || !HasRatesOf(row, setting)) continue;
    const bool one = row.peers == nearest.peers || row.steps == nearest.steps;
    if (found == nullptr) found = &row;
    if (!one) continue;
    found = &row;
    break;
  }
  if (found == nullptr || HasRatesOf(nearest, setting)) return "";
  return absl::StrCat("; those are the rates for ", RespectOf(*found, nearest), ": ",
                      DescribeOuterRates(*found));
}

// Returns a clause with the measured cost of rates that are too high for short rounds; an empty
// text if nobody has measured about these rates at about as many steps.
std::string ShortRoundsCostOf(const OuterSetting& setting) {
  if (setting.rates.muon || setting.rates.streaming) return "";
  const double gain = GainOf(setting.learning_rate, setting.momentum);
  for (const MeasuredCost& cost : kMeasuredCosts) {
    if (cost.setting != CostlySetting::kShortRounds) continue;
    const double octaves = std::abs(std::log2(setting.rates.steps / cost.at));
    const double ratio = gain / GainOf(cost.learning_rate, cost.momentum);
    if (octaves > 0.5 || IsAbove(ratio, kFarGain) || IsAbove(1 / kFarGain, ratio)) continue;
    return absl::StrCat("; in rounds of ", cost.at, " steps, ", cost.learning_rate, " / ",
                        cost.momentum, " cost: ", cost.figure, " (", cost.source, ")");
  }
  return "";
}

std::string DelayedCostOf(const OuterSetting& setting) {
  const MeasuredCost& cost = CostOf(CostlySetting::kDelayedRate);
  return absl::StrCat("; a rate of ", setting.learning_rate,
                      " is too high for updates that are a round late: at ", cost.at, " ",
                      cost.figure, " (", cost.source, ")");
}

std::optional<OuterAdvice> AdviseRates(const OuterSetting& setting) {
  if (setting.rates.peers <= 0 || setting.rates.steps <= 0) return std::nullopt;
  const OuterRates& row = NearestOuterRates(setting.rates);
  const bool delayed = setting.mode == "delayed";
  const double rate = (delayed ? kDelayedRateShare : 1) * row.learning_rate;
  const double gain = GainOf(setting.learning_rate, setting.momentum);
  const double right = GainOf(rate, row.momentum);
  const bool high = IsAbove(gain, kFarGain * right);
  const bool low = IsAbove(right, kFarGain * gain);
  // A gap penalty halves the rate by itself.
  const bool too_late = delayed && !setting.gap_penalty && IsAbove(gain, right) &&
                        IsAbove(setting.learning_rate, rate);
  if (!high && !low && !too_late) return std::nullopt;
  OuterAdvice advice;
  advice.what = absl::StrFormat(
      "the outer rates %g / %g move the parameters %.2g times as far as %s%s, the nearest in the "
      "table: by %.3g times a mean update that stays the same instead of %.3g",
      setting.learning_rate, setting.momentum, gain / right, delayed ? "half the rate of " : "",
      DescribeOuterRates(row), gain, right);
  absl::StrAppend(&advice.what, OtherRowOf(setting, row));
  if (high) absl::StrAppend(&advice.what, ShortRoundsCostOf(setting));
  if (too_late) absl::StrAppend(&advice.what, DelayedCostOf(setting));
  if (!IsSame(setting.learning_rate, rate)) {
    advice.changes.push_back({"[outer] learning_rate", absl::StrCat(rate)});
  }
  if (!IsSame(setting.momentum, row.momentum)) {
    advice.changes.push_back({"[outer] momentum", absl::StrCat(row.momentum)});
  }
  return advice;
}

OuterAdvice AdviseAsync() {
  const MeasuredCost& cost = CostOf(CostlySetting::kAsyncNesterov);
  OuterAdvice advice;
  advice.what = absl::StrCat(
      "in mode 'async' the rule 'nesterov' moves its momentum by each update as if it were the "
      "mean of all peers', and runs diverge: ",
      cost.figure, " (", cost.source, ")");
  advice.changes.push_back({"[outer] rule", "delayed_nesterov"});
  return advice;
}

std::optional<OuterAdvice> AdviseOverlap(const OuterSetting& setting) {
  if (setting.mode != "streaming") return std::nullopt;
  const MeasuredCost* found = nullptr;
  for (const MeasuredCost& cost : kMeasuredCosts) {
    if (cost.setting == CostlySetting::kLongOverlap && setting.overlap_steps > cost.at) {
      found = &cost;
    }
  }
  if (found == nullptr) return std::nullopt;
  OuterAdvice advice;
  advice.what =
      absl::StrCat("an overlap of ", setting.overlap_steps, " inner steps costs ", found->figure,
                   " (", found->source, "), and one of ", kFreeOverlap, " next to nothing");
  advice.changes.push_back({"[mode] overlap", absl::StrCat(kFreeOverlap)});
  return advice;
}

}  // namespace

std::vector<OuterAdvice> AdviseOuterStep(const OuterSetting& setting) {
  if (setting.rule.empty()) return {};
  std::vector<OuterAdvice> all;
  const bool nesterov = setting.rule == "nesterov";
  // Alone, a peer's updates are the means of all.
  const bool diverges = nesterov && setting.mode == "async" && setting.rates.peers != 1;
  std::optional<OuterAdvice> advice;
  if (diverges) {
    advice = AdviseAsync();
  } else if (nesterov) {
    advice = AdviseRates(setting);
  }
  if (advice) all.push_back(*std::move(advice));
  advice = AdviseOverlap(setting);
  if (advice) all.push_back(*std::move(advice));
  return all;
}

std::string DescribeOuterAdvice(const OuterAdvice& advice) {
  const std::string changes = absl::StrJoin(
      advice.changes, " and ", [](std::string* out, const OuterAdvice::Change& change) {
        absl::StrAppend(out, change.key, " = ", change.value);
      });
  return absl::StrCat(advice.what, "; set ", changes);
}

}  // namespace atolld

#include "optimizer/outer_advice.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
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

// An overlap of this share of the steps between two exchanges of a fragment costs nothing that was
// measured: one of a whole round with three fragments (docs/experiments.md, modes.toml).
constexpr double kFreeOverlap = 1.0 / 3;

enum class CostlySetting { kShortRounds, kEagerRate, kDelayedRate, kAsyncNesterov, kLongOverlap };

// A cost that somebody has measured.
struct MeasuredCost {
  CostlySetting setting;
  // kShortRounds: the inner steps of a round. kEagerRate, kDelayedRate: the learning rate.
  double at;
  double learning_rate;  // only for kShortRounds, whose runs had AdamW inside
  double momentum;
  absl::string_view figure;
  absl::string_view source;
};

constexpr MeasuredCost kMeasuredCosts[] = {
    {CostlySetting::kShortRounds, 5, 0.7, 0.9,
     "they end at 2.59 nats a byte where those of 0.7 / 0.6 end at 1.98",
     "docs/experiments.md, h-sweep.toml"},
    {CostlySetting::kShortRounds, 10, 0.7, 0.9,
     "they end at 2.23 nats a byte where those of 0.7 / 0.8 end at 2.01",
     "docs/experiments.md, h-sweep.toml"},
    {CostlySetting::kEagerRate, 0.7, 0, 0,
     "one ends at 3.11 nats a byte where one of 0.21 ends at 2.17",
     "docs/experiments.md, modes.toml"},
    {CostlySetting::kDelayedRate, 0.8, 0, 0, "runs diverge", "docs/experiments.md, modes.toml"},
    {CostlySetting::kAsyncNesterov, 0, 0, 0,
     "they end at 8.57 nats a byte where those of 'delayed_nesterov' end at 2.26",
     "docs/experiments.md, async.toml"},
    {CostlySetting::kLongOverlap, 0, 0, 0,
     "one of a whole round ends at 2.14 nats a byte with one fragment and at 2.00 with three",
     "docs/experiments.md, modes.toml"},
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
                        cost.momentum, " cost loss: ", cost.figure, " (", cost.source, ")");
  }
  return "";
}

std::string LateCostOf(const OuterSetting& setting) {
  const MeasuredCost& cost =
      CostOf(setting.mode == "eager" ? CostlySetting::kEagerRate : CostlySetting::kDelayedRate);
  return absl::StrCat("; a rate of ", setting.learning_rate, " is too high in mode '", setting.mode,
                      "': at ", cost.at, " ", cost.figure, " (", cost.source, ")");
}

std::optional<OuterAdvice> AdviseRates(const OuterSetting& setting) {
  if (setting.rates.peers <= 0 || setting.rates.steps <= 0) return std::nullopt;
  const OuterRates& row = NearestOuterRates(setting.rates);
  const double rate = RateInMode(setting.mode, row);
  const double share = rate / row.learning_rate;
  const double gain = GainOf(setting.learning_rate, setting.momentum);
  const double right = GainOf(rate, row.momentum);
  const bool high = IsAbove(gain, kFarGain * right);
  const bool low = IsAbove(right, kFarGain * gain) && IsAbove(1, gain);
  // A gap penalty halves the rate by itself.
  const bool too_late = share < 1 && !setting.gap_penalty && IsAbove(gain, right) &&
                        IsAbove(setting.learning_rate, rate);
  if (!high && !low && !too_late) return std::nullopt;
  OuterAdvice advice;
  advice.what = absl::StrFormat(
      "the outer rates %g / %g move the parameters %.3g times as far as %s%s, the nearest in the "
      "table: by %.3g times a mean update that stays the same instead of %.3g",
      setting.learning_rate, setting.momentum, gain / right,
      share < 1 ? absl::StrFormat("%.3g times the rate of ", share) : "", DescribeOuterRates(row),
      gain, right);
  absl::StrAppend(&advice.what, OtherRowOf(setting, row));
  if (high) absl::StrAppend(&advice.what, ShortRoundsCostOf(setting));
  if (too_late) absl::StrAppend(&advice.what, LateCostOf(setting));
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
  if (setting.mode != "streaming" || setting.overlap_steps <= kFreeOverlapSteps)
    return std::nullopt;
  if (setting.rates.steps <= 0) return std::nullopt;
  const double between = setting.rates.steps * std::max<uint32_t>(1, setting.fragments);
  const double share = setting.overlap_steps / between;
  if (!IsAbove(share, kFreeOverlap)) return std::nullopt;
  const MeasuredCost& cost = CostOf(CostlySetting::kLongOverlap);
  OuterAdvice advice;
  advice.what = absl::StrFormat(
      "an overlap of %d inner steps is %.0f %% of the %g between two exchanges of a fragment: %s "
      "(%s)",
      setting.overlap_steps, 100 * share, between, cost.figure, cost.source);
  const auto free = static_cast<uint32_t>(kFreeOverlap * between);
  advice.changes.push_back({"[mode] overlap", absl::StrCat(std::max(kFreeOverlapSteps, free))});
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
        const bool number = absl::ascii_isdigit(static_cast<unsigned char>(change.value.front()));
        const absl::string_view quote = number ? "" : "\"";
        absl::StrAppend(out, change.key, " = ", quote, change.value, quote);
      });
  return absl::StrCat(advice.what, "; set ", changes);
}

}  // namespace atolld

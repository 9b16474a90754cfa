#include "membership/planning/mode_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "membership/planning/plan_bounds.h"

namespace atolld {
namespace {

struct ModeCost {
  double lost_seconds = 0;   // per round, by each worker
  double floor_seconds = 0;  // the least time of a round
};

bool Pipelined(const ModeShape& shape) {
  return shape.kind == "eager" || shape.kind == "delayed" ||
         (shape.kind == "streaming" && shape.overlap_steps > 0);
}

ModeCost CostOf(const ModeShape& shape, double step_seconds, const ExchangePrediction& exchange) {
  if (!Pipelined(shape)) return {exchange.seconds, 0};
  // The next update is encoded when the previous entry is committed.
  if (shape.kind != "streaming") return {exchange.handover_seconds, exchange.seconds};
  const double until_merge = exchange.handover_seconds + shape.overlap_steps * step_seconds;
  return {exchange.handover_seconds + std::max(0.0, exchange.seconds - until_merge), 0};
}

// Returns true if a coordinator with `plan` in its config would consider this shape.
bool MayChoose(PlanKind plan, bool aggregated, const PlanBounds& bounds, PlanShape shape) {
  if (aggregated) return shape == PlanShape::kFlat;
  if (plan == PlanKind::kAuto || bounds.grouping.any()) return true;
  return ByRegion(shape) == (plan == PlanKind::kRegions);
}

}  // namespace

std::string ModeText(const ModeShape& shape) {
  if (shape.kind != "streaming") return shape.kind;
  return absl::StrCat("streaming, ", shape.fragments,
                      shape.fragments == 1 ? " fragment" : " fragments", ", tau ",
                      shape.overlap_steps);
}

RoundPrediction PredictRound(const ModeShape& shape, uint32_t steps, double step_seconds,
                             const ExchangePrediction& exchange) {
  const ModeCost cost = CostOf(shape, step_seconds, exchange);
  RoundPrediction round;
  round.train_seconds = steps * step_seconds;
  round.exchange_seconds = exchange.seconds;
  round.waited_seconds = std::max(cost.lost_seconds, cost.floor_seconds - round.train_seconds);
  return round;
}

uint32_t LeastSteps(const ModeShape& shape, double step_seconds, double share,
                    const ExchangePrediction& exchange) {
  const ModeCost cost = CostOf(shape, step_seconds, exchange);
  const double train =
      std::max(share / (1 - share) * cost.lost_seconds, share * cost.floor_seconds);
  // A value that differs from a whole number only by rounding is that number.
  const double steps = std::ceil(train / step_seconds * (1 - 1e-12));
  const double least = std::max<double>(1, shape.kind == "streaming" ? shape.overlap_steps : 1);
  return static_cast<uint32_t>(
      std::min<double>(std::max(steps, least), std::numeric_limits<uint32_t>::max()));
}

double HiddenSeconds(const ModeShape& shape, uint32_t steps, double step_seconds) {
  if (!Pipelined(shape)) return 0;
  return step_seconds * (shape.kind == "streaming" ? shape.overlap_steps : steps);
}

uint64_t FragmentValues(uint64_t parameters, uint32_t chunk_elements, uint32_t fragments) {
  const uint64_t chunks = (parameters + chunk_elements - 1) / chunk_elements;
  const uint64_t of_fragment = (chunks + fragments - 1) / fragments;
  return std::min(parameters, of_fragment * chunk_elements);
}

ExchangePrediction FastestExchange(const LinkModel& links, PlanKind plan, const EncodedSize& size,
                                   uint32_t chunk_elements, const ModelAssumptions& assumed) {
  const bool aggregated = links.contributors() < links.peers().size();
  const auto chunks =
      static_cast<uint32_t>((size.parameters + chunk_elements - 1) / chunk_elements);
  const PlanBounds bounds =
      BoundsOf(links.contributors(), std::max(size.update_bytes, size.mean_bytes),
               plan != PlanKind::kFlat && !aggregated, assumed);
  std::optional<ExchangePrediction> fastest, flat;
  for (const PlanShape shape :
       {PlanShape::kFlat, PlanShape::kWeighted, PlanShape::kRegions, PlanShape::kWeightedRegions}) {
    const ExchangeTraffic traffic =
        TrafficOf(links, shape, chunks, RatesFor(links, shape, bounds), bounds.grouping);
    if (ByRegion(shape) && (traffic.relays == 0 || bounds.grouping.any())) continue;
    const ExchangePrediction one = PredictExchange(links, traffic, size, assumed);
    if (shape == PlanShape::kFlat) flat = one;
    if (!MayChoose(plan, aggregated, bounds, shape)) continue;
    if (!fastest || one.seconds < fastest->seconds) fastest = one;
  }
  return fastest ? *fastest : *flat;  // by regions alone, and no region has a relay
}

}  // namespace atolld

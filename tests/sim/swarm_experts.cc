// What a seed draws for the ownership of experts: a model with experts, and how many peers own one.
#include <algorithm>

#include "tests/sim/sim_events.h"
#include "tests/sim/swarm_plan.h"

namespace atolld {
namespace {

// Returns true if nothing in the plan is incompatible with experts. A plain mean bears only such
// liars as hand over too little.
bool MayHaveExperts(const SwarmPlan& plan) {
  using Habit = SimWorker::Habit;
  const bool bearable =
      std::all_of(plan.peers.begin(), plan.peers.end(), [](const SwarmPlan::Machine& peer) {
        return peer.habit != Habit::kFlip && peer.habit != Habit::kHuge;
      });
  return bearable && plan.mode == "sync" && plan.aggregation == "mean" && !plan.masked &&
         plan.rule != "delayed_nesterov" && !plan.moving_clip && !plan.control_variates &&
         plan.participation == 1 && plan.drop == 0;
}

}  // namespace

// Draws experts in seven in eight of the seeds that have nothing incompatible, about a fifth of
// those in mode "sync"; in a quarter of these they are slices of adapters. Relays are left out of
// such runs. Chunks are small enough that most experts have several.
void DrawExperts(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x65787065727473).Next());
  const bool wanted = own.Below(8) != 0;
  const auto experts = static_cast<uint32_t>(2 + own.Below(5));
  const auto owners = static_cast<uint32_t>(1 + own.Below(3));
  if (!wanted || !MayHaveExperts(*plan)) return;
  plan->experts = experts;
  plan->slices = own.Below(4) == 0;
  plan->owners = plan->slices ? 0 : owners;
  plan->plan = "flat";
  const uint64_t chunk = std::max<uint64_t>(16, plan->elements / (2 * (experts + 1)));
  plan->chunk_elements = std::min(plan->chunk_elements, static_cast<uint32_t>(chunk));
}

// Between two parts of an entry there is less than a chunk.
uint64_t MostEntryValues(const SwarmPlan& plan) {
  return plan.elements + uint64_t{plan.experts} * plan.chunk_elements;
}

}  // namespace atolld

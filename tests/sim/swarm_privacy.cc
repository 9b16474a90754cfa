// What a seed draws for differential privacy: whether updates are limited to a length that follows
// them, and which peer lies about it.
#include <algorithm>

#include "tests/sim/sim_events.h"
#include "tests/sim/swarm_plan.h"

namespace atolld {

// In half of the seeds with private data in which no peer lies and rounds do not overlap. Hiding is
// not tested here: the noise is so small, and the first clip so far above all updates, that the
// updates keep their bits however often the clip shrinks, so that the oracle can follow them. If
// there are three peers, one claims lengths that it was not told.
void DrawMovingClip(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x636c6970).Next());
  const bool wanted = own.Below(2) == 0;
  const uint64_t liar = own.Below(plan->peers.size());
  const bool honest = std::all_of(
      plan->peers.begin(), plan->peers.end(),
      [](const SwarmPlan::Machine& peer) { return peer.hostility == Hostility::kNone; });
  if (!wanted || !plan->private_data || plan->masked || plan->mode != "sync" || !honest) return;
  plan->moving_clip = true;
  plan->aggregation = "mean";
  plan->faulty = 0;
  plan->clip = 0;
  plan->liars = 0;
  plan->error_feedback = false;
  plan->control_variates = false;
  for (SwarmPlan::Machine& peer : plan->peers) peer.habit = SimWorker::Habit::kNone;
  UseWholeCodecs(plan);
  SwarmPlan::Machine& machine = plan->peers[liar];
  machine.claims_clips = !machine.aggregator && plan->founders >= 3;
}

// A value of 1e30 would be longer than the clip.
void SpareHugeUpdates(SwarmPlan* plan) {
  if (!plan->moving_clip) return;
  for (PlannedFault& fault : plan->faults) {
    if (fault.kind == FaultKind::kHugeUpdate) fault.kind = FaultKind::kBadUpdate;
  }
}

}  // namespace atolld

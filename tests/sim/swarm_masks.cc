// What a seed draws for masks: whether its updates are hidden, among how many parties, and what
// goes wrong meanwhile.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "compression/wire_codec.h"
#include "tests/sim/sim_events.h"
#include "tests/sim/swarm_plan.h"

namespace atolld {
namespace {

// For a while there are enough parties for the quorum and too few for the run's roster.
void KillAllButSome(SwarmPlan* plan, std::vector<PlannedFault>* faults) {
  PlannedFault fault;
  fault.kind = FaultKind::kKillPeer;
  fault.after_commits = 1;
  fault.lasts = 4 * plan->failure_timeout + 20 * plan->inner_steps * plan->peers.front().step;
  fault.overlap = true;
  for (size_t i = plan->mask_roster - 1; i < plan->peers.size(); ++i) {
    fault.victim = static_cast<int>(i);
    fault.overlap = i + 1 < plan->peers.size();
    faults->push_back(fault);
    fault.after_commits = 0;
  }
}

}  // namespace

// Updates contain every value, in one codec.
void UseWholeCodecs(SwarmPlan* plan) {
  if (absl::StartsWith(plan->codec, "topk") || absl::StartsWith(plan->codec, "int2")) {
    plan->codec = "int8";
  }
  if (!ParseLevels(plan->codec, plan->upper_codec).ok()) plan->upper_codec.clear();
  plan->slow_codec.clear();
  const auto rounds = [](const std::string& codec) {
    return ParseCodecName(codec)->codec->has_stochastic_rounding();
  };
  plan->stochastic =
      plan->stochastic &&
      (rounds(plan->codec) || (!plan->upper_codec.empty() && rounds(plan->upper_codec)));
}

// Draws masks in half of the seeds with private data in which at least three peers are healthy to
// the end. A false update cannot be found where single updates are not visible, and neither can a
// sum that a voter makes up: it stops each attempt. So no peer lies in these seeds, and the
// judgement of single updates is off, as in a config with masks. Aggregators cannot remove masks,
// so no aggregator is drawn.
void DrawMasks(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x6d61736b).Next());
  const bool wanted = own.Below(2) == 0;
  const bool by_quorum = own.Below(2) == 0;
  const bool aggregator = std::any_of(plan->peers.begin(), plan->peers.end(),
                                      [](const auto& peer) { return peer.aggregator; });
  const auto core = std::count_if(plan->peers.begin(), plan->peers.end(),
                                  [](const auto& peer) { return peer.core; });
  constexpr uint32_t kFewest = 3;
  const bool able = core >= kFewest && plan->founders >= kFewest && !aggregator;
  if (!plan->private_data || !wanted || !able || plan->mode == "async") return;
  if (IsForPipeline(*plan)) return;
  plan->masked = true;
  plan->quorum = std::max(plan->quorum, kFewest);
  plan->mask_threshold = by_quorum ? plan->quorum : 0;
  // At most those who are well to the end; above the quorum, where it makes a difference, if there
  // are so many.
  const auto most = std::min(static_cast<uint32_t>(core), plan->founders);
  const uint32_t least = std::min(most, plan->quorum + 1);
  plan->mask_roster = least + static_cast<uint32_t>(own.Below(most - least + 1));
  plan->participation = 1;
  plan->drop = 0;
  plan->aggregation = "mean";
  plan->faulty = 0;
  plan->clip = 0;
  plan->audit_share = 0;
  plan->liars = 0;
  plan->error_feedback = false;
  plan->control_variates = false;
  for (SwarmPlan::Machine& peer : plan->peers) {
    peer.habit = SimWorker::Habit::kNone;
    peer.hostility = Hostility::kNone;
    peer.steals.clear();
    peer.dial_out = false;
  }
  UseWholeCodecs(plan);
}

// The secrets of a sum have been revealed, and no entry has resulted from it yet: the coordinator
// dies then, and in half of these seeds a party as well, so that the successor's sum has other
// parties.
void DrawUnmaskings(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x6f70656e).Next());
  std::vector<PlannedFault> faults;
  for (int i = 0; i < 2; ++i) {
    PlannedFault fault;
    fault.kind = FaultKind::kKillCoordinator;
    fault.after_commits = 1 + own.Below(2);
    fault.in_unmasking = true;
    fault.lasts = absl::Milliseconds(static_cast<int64_t>(100 + own.Below(400)));
    fault.overlap = own.Below(2) == 0;
    faults.push_back(fault);
    if (!fault.overlap) continue;
    fault.kind = FaultKind::kKillPeer;
    fault.victim = static_cast<int>(own.Below(plan->peers.size()));
    fault.after_commits = 0;
    fault.in_unmasking = fault.overlap = false;
    faults.push_back(fault);
  }
  if (plan->mask_roster > plan->quorum) KillAllButSome(plan, &faults);
  plan->faults.insert(plan->faults.begin(), faults.begin(), faults.end());
}

}  // namespace atolld

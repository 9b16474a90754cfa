// What a seed draws for runs with late updates: modes "async" and "eager", the rules that are made
// for them, and the corrections of mode "delayed"; and how a plan's mode is described.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "optimizer/outer_rule.h"
#include "tests/sim/sim_events.h"
#include "tests/sim/swarm_plan.h"

namespace atolld {
namespace {

// Makes some of the peers that the run can do without a few times as slow as the others.
void DrawSpeeds(SimRandom& own, SwarmPlan* plan) {
  for (SwarmPlan::Machine& peer : plan->peers) {
    if (!peer.core && own.Below(2) == 0) peer.step = peer.step * (2 + 3 * own.Unit());
  }
}

}  // namespace

// Return true if the plan may be of this mode, and if it must be.
bool MayDraw(const SwarmPlan& plan, const std::string& mode) {
  return plan.only_mode.empty() || plan.only_mode == mode;
}
bool MustDraw(const SwarmPlan& plan, const std::string& mode) { return plan.only_mode == mode; }

// What does not go with overlapping rounds must not be drawn before them.
bool IsForPipeline(const SwarmPlan& plan) {
  return MustDraw(plan, "streaming") || MustDraw(plan, "eager") || MustDraw(plan, "delayed");
}

// In a sixth of the seeds no peer is waited for. Options that need several updates in each entry
// are left out of such runs. A peer that is enough alone can commit anything, so no peer lies
// there.
void DrawAsync(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x6173796e63).Next());
  const double decay = own.Unit() / 2;
  const auto cutoff = static_cast<uint32_t>(3 + own.Below(8));
  const bool drawn = own.Below(6) == 0 && MayDraw(*plan, "async");
  if (!drawn && !MustDraw(*plan, "async")) return;
  plan->mode = "async";
  plan->quorum = 1;
  plan->aggregation = "mean";
  plan->faulty = 0;
  plan->control_variates = false;
  if (own.Below(3) != 0) plan->age_decay = decay;
  if (own.Below(3) == 0) plan->age_cutoff = cutoff;
  DrawSpeeds(own, plan);
}

// Draws guesses in a quarter of the remaining seeds that have nothing that does not go with
// overlapping rounds.
void DrawEager(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x6561676572).Next());
  const bool drawn = own.Below(4) == 0 && MayDraw(*plan, "eager");
  if (!drawn && !MustDraw(*plan, "eager")) return;
  if (plan->mode != "sync" || plan->masked || plan->participation < 1 || plan->drop > 0) return;
  plan->control_variates = false;
  plan->mode = "eager";
}

// Draws rules that know late updates in half of those seeds, and in a sixteenth of the others the
// one rule that needs no ages. Uses random numbers of its own, as all later draws do.
void DrawLateRule(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x6c617465).Next());
  const bool late = plan->mode == "async" || plan->mode == "delayed";
  const uint64_t draw = own.Below(late ? 4 : 16);
  const auto buffer = static_cast<uint32_t>(1 + own.Below(plan->peers.size()));
  const bool corrected = own.Below(2) == 0;
  const double clip = 0.05 + own.Unit();
  if (draw == 0 && plan->fragments <= 1) {
    plan->rule = "delayed_nesterov";
    plan->learning_rate = 0.7;
    plan->momentum = 0.9;
    plan->outer_buffer = buffer;
  } else if (draw == 1 && late && plan->age_decay + plan->age_cutoff > 0) {
    plan->rule = "cgad";
    plan->learning_rate = 0.01;
    plan->momentum = 0.9;
  }
  if (plan->mode != "delayed" || !corrected) return;
  plan->gap_penalty = true;
  if (HasMomentum(plan->rule)) plan->momentum_clip = clip;
}

std::string DescribeMode(const SwarmPlan& plan) {
  if (plan.mode == "sync") return "";
  std::string text = absl::StrCat(", ", plan.mode);
  if (plan.fragments > 0) {
    absl::StrAppend(&text, " ", plan.fragments, " fragments of ", plan.tensors,
                    " tensors, overlap ", plan.overlap);
  }
  if (plan.age_decay > 0) absl::StrAppendFormat(&text, " with decay %.2f", plan.age_decay);
  if (plan.age_cutoff > 0) absl::StrAppend(&text, " up to age ", plan.age_cutoff);
  if (plan.gap_penalty) absl::StrAppend(&text, " with a gap penalty");
  if (plan.momentum_clip > 0) absl::StrAppendFormat(&text, " and clip %.2f", plan.momentum_clip);
  return text;
}

}  // namespace atolld

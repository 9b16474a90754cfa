// What a seed draws of runs in which updates are late: modes "async" and "eager", the rules that
// are made for it, and the corrections of mode "delayed". And how a plan's mode is told.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "optimizer/outer_rule.h"
#include "tests/sim/sim_events.h"
#include "tests/sim/swarm_plan.h"

namespace atolld {
namespace {

// Some a few times as slow as the others, of those that the run can do without.
void DrawSpeeds(SimRandom& own, SwarmPlan* plan) {
  for (SwarmPlan::Machine& peer : plan->peers) {
    if (!peer.core && own.Below(2) == 0) peer.step = peer.step * (2 + 3 * own.Unit());
  }
}

}  // namespace

// Whether the plan may be of this mode, and whether it must.
bool MayDraw(const SwarmPlan& plan, const std::string& mode) {
  return plan.only_mode.empty() || plan.only_mode == mode;
}
bool MustDraw(const SwarmPlan& plan, const std::string& mode) { return plan.only_mode == mode; }

// What rounds that overlap do not go with must not be drawn before them.
bool IsForPipeline(const SwarmPlan& plan) {
  return MustDraw(plan, "streaming") || MustDraw(plan, "eager") || MustDraw(plan, "delayed");
}

// In a sixth of the seeds nobody is waited for. What needs several updates in each entry is not for
// such runs; and whoever is enough alone can commit what it likes, so that nobody lies there.
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

// Guesses in a quarter of the seeds that are left and have nothing that rounds which overlap do not
// go with.
void DrawEager(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x6561676572).Next());
  const bool drawn = own.Below(4) == 0 && MayDraw(*plan, "eager");
  if (!drawn && !MustDraw(*plan, "eager")) return;
  if (plan->mode != "sync" || plan->masked || plan->participation < 1 || plan->drop > 0) return;
  plan->control_variates = false;
  plan->mode = "eager";
}

// Rules that know of late updates in half of those seeds, and in a sixteenth of the others the one
// that needs no ages. From numbers of its own, as all that came later.
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

// SwarmPlan, the rule by which a seed's updates become one, and who lies to it.
#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "optimizer/aggregation_rule.h"
#include "tests/sim/sim_events.h"
#include "tests/sim/swarm_plan.h"

namespace atolld {

// From numbers of their own, so that the rest of a seed's plan is what it was before them.
void DrawAggregation(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x72756c65).Next());
  const uint64_t draw = own.Below(4);
  plan->clip = draw == 0 ? 0 : draw == 1 ? 0.5 + 2 * own.Unit() : 1;
  if (own.Below(2) == 0) return;
  const std::vector<std::string> rules = AggregationRule::Names();
  AggregationSettings settings;
  settings.rule = rules[own.Below(rules.size())];
  settings.faulty = static_cast<uint32_t>(own.Below(3));
  const absl::StatusOr<AggregationRule> rule = AggregationRule::Make(settings);
  if (!rule.ok() || rule->LeastContributors() > plan->peers.size()) return;
  plan->aggregation = settings.rule;
  plan->faulty = settings.faulty;
  if (rule->has_centre() && plan->clip == 0) plan->clip = 1;
  plan->quorum = std::max(plan->quorum, static_cast<uint32_t>(rule->LeastContributors()));
}

// In a third of the seeds some peers never hand over what they learned. The run goes on without
// them as well, and where nothing bounds an update's length none of them makes it grow.
void DrawLiars(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x6c696172).Next());
  if (own.Below(3) != 0) return;
  using Habit = SimWorker::Habit;
  const std::array<Habit, 4> habits = {Habit::kZeros, Habit::kReplay, Habit::kFlip, Habit::kHuge};
  size_t trainers = 0;
  for (const SwarmPlan::Machine& peer : plan->peers) trainers += peer.aggregator ? 0 : 1;
  const bool bounded = plan->clip > 0;
  for (SwarmPlan::Machine& peer : plan->peers) {
    if (peer.core || peer.aggregator || own.Below(2) == 0) continue;
    // So that fewer than half lie.
    if (2 * (plan->liars + 1) >= trainers) break;
    peer.habit = habits[own.Below(bounded ? habits.size() : 2)];
    ++plan->liars;
  }
  // What is too long for any scale is never taken: the quorum must be there without it.
  const auto honest = std::count_if(plan->peers.begin(), plan->peers.end(), [](const auto& peer) {
    return !peer.aggregator && peer.joins_at == 0 && peer.habit == Habit::kNone;
  });
  for (SwarmPlan::Machine& peer : plan->peers) {
    if (peer.habit == Habit::kHuge && honest < plan->quorum) peer.habit = Habit::kFlip;
  }
}

// In a third of the seeds, where the others are enough, one peer lies as a reducer or as an
// auditor; in most of those all is audited, as nothing else promises that no lie is committed.
void DrawHostile(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x686f7374).Next());
  if (own.Below(3) != 0) return;
  constexpr std::array<Hostility, 6> kKinds = {Hostility::kLyingReducer, Hostility::kLyingReducer,
                                               Hostility::kLyingReducer, Hostility::kHidingReducer,
                                               Hostility::kEquivocator,  Hostility::kFalseAccuser};
  const Hostility kind = kKinds[own.Below(kKinds.size())];
  // A chunk's last byte must be any code, so that what is sent is a lie and no nonsense.
  const std::string& codec = plan->upper_codec.empty() ? plan->codec : plan->upper_codec;
  const std::set<std::string> plain = {"fp32", "bf16", "fp16", "int8"};
  if (plain.count(codec) == 0 && kind != Hostility::kFalseAccuser) return;
  // The quorum must be there without it: whoever is needed can always stop the run. And whoever is
  // enough alone can commit what it likes.
  std::vector<SwarmPlan::Machine*> able;
  size_t founders = 0;
  size_t core = 0;
  for (SwarmPlan::Machine& peer : plan->peers) {
    if (peer.aggregator) continue;
    const bool honest = peer.habit == SimWorker::Habit::kNone;
    founders += honest && peer.joins_at == 0 ? 1 : 0;
    core += peer.core ? 1 : 0;
    if (honest && !peer.dial_out) able.push_back(&peer);
  }
  if (plan->aggregation == "mean" && founders >= 3) {
    plan->quorum = std::min(plan->quorum, static_cast<uint32_t>(founders - 1));
  }
  able.erase(std::remove_if(able.begin(), able.end(),
                            [&](const auto* peer) {
                              const size_t others = founders - (peer->joins_at == 0 ? 1 : 0);
                              return others < plan->quorum || (peer->core && core <= plan->quorum);
                            }),
             able.end());
  if (able.empty() || plan->quorum < 2) return;
  SwarmPlan::Machine* const hostile = able[own.Below(able.size())];
  hostile->hostility = kind;
  hostile->core = false;
  if (own.Below(4) != 0) plan->audit_share = 1;
  // Behind relays nobody is named.
  if (own.Below(2) == 0) plan->plan = "flat";
}

}  // namespace atolld

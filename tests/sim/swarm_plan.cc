#include "tests/sim/swarm_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/wire_codec.h"
#include "daemon/config/store_config.h"
#include "optimizer/aggregation_rule.h"
#include "tests/sim/sim_events.h"
#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

constexpr std::array<absl::string_view, kFaultKinds> kNames = {
    "reset",
    "reset-after-bytes",
    "cut",
    "split",
    "one-way",
    "black-hole",
    "clog",
    "loss",
    "replay",
    "thin-pipe",
    "kill-peer",
    "kill-at-write",
    "kill-several",
    "wipe-peer",
    "pause-peer",
    "kill-coordinator",
    "kill-coordinator-at-write",
    "pause-coordinator",
    "disk-full",
    "disk-errors",
    "bit-flips",
    "slow-sync",
    "store-full",
    "store-slow",
    "wall-clock",
    "drift",
    "worker-dies",
    "straggler",
    "bad-update",
    "huge-update",
    "drain",
    "pause-run",
    "evict",
    "store-restored",
    "memory-flip",
    "worker-hangs",
    "pair-cut",
    "hidden-address",
    "small-packets",
    "kill-standby",
    "end-leader",
    "cut-from-etcd",
    "etcd-slow",
    "etcd-loses-answers",
    "etcd-member",
    "etcd-down",
};

// The kinds that a seed turns on or off; the others have draws of their own.
constexpr int kDrawnKinds = static_cast<int>(FaultKind::kMemoryFlip) + 1;

// Mostly small clusters and short runs: an exchange costs the square of its peers.
constexpr std::array<int, 32> kPeers = {2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4, 4,  4,  4,
                                        4, 4, 5, 5, 5, 5, 5, 6, 6, 6, 7, 8, 9, 11, 13, 16};

// One in this many seeds is without faults: no peer may be removed there.
constexpr uint64_t kFaultFreeEvery = 16;

// Rounds before the first fault can come, and those reserved for after the last.
constexpr uint64_t kOtherRounds = 10;

bool Half(SimRandom& random) { return random.Below(2) == 0; }

absl::Duration Milliseconds(SimRandom& random, uint64_t least, uint64_t most) {
  return absl::Milliseconds(static_cast<int64_t>(least + random.Below(most - least + 1)));
}

// The newer codecs, and the choice among them, use random numbers of their own, so that the rest of
// a seed's plan does not change.
void DrawCodec(SimRandom& random, SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x636f646563).Next());
  plan->codec = Half(random) ? "int8" : "fp32";
  if (own.Below(3) != 0) {
    const char* const names[] = {"bf16", "fp16", "int2", "int4", "topk"};
    plan->codec = names[own.Below(5)];
  }
  plan->stochastic = (plan->codec == "int4" || plan->codec == "int8") && Half(own);
  plan->feedback_decay = Half(own) ? 1 : 0.95;
  // Frames' contexts cost more than all else of such small chunks.
  if (random.Below(8) == 0) plan->codec += "+zstd";
  plan->error_feedback = Half(random);
}

// Draws another outer rule in a quarter of the seeds, with random numbers of its own, as above.
void DrawOuterRule(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x6f75746572).Next());
  if (own.Below(4) != 0) return;
  const char* const rules[] = {"momentum", "adagrad", "adam", "yogi"};
  plan->rule = rules[own.Below(4)];
  plan->learning_rate = plan->rule == "momentum" ? 0.7 : 0.01;
  plan->momentum = Half(own) ? 0.9 : 0;
}

// Draws a separate codec for means in a third of the seeds, with random numbers of its own, as
// above.
void DrawUpperCodec(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x6d65616e73).Next());
  if (own.Below(3) != 0) return;
  const std::vector<std::string> names = WireCodecNames();
  do {
    plan->upper_codec = names[own.Below(names.size())];
  } while (!ParseLevels(plan->codec, plan->upper_codec).ok());
  const bool rounds = ParseCodecName(plan->upper_codec)->codec->has_stochastic_rounding();
  plan->stochastic = plan->stochastic || (rounds && Half(own));
}

// Draws a codec for slow lines in a third of the seeds, with random numbers of its own, as above.
void DrawSlowCodec(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x736c6f77).Next());
  if (own.Below(3) != 0) return;
  const LevelCodecs levels = *ParseLevels(plan->codec, plan->upper_codec);
  std::vector<std::string> smaller;
  for (const std::string& name : CodecNames()) {
    if (CheckSlowCodec(levels, **FindCodec(name)).ok()) smaller.push_back(name);
  }
  if (!smaller.empty()) plan->slow_codec = smaller[own.Below(smaller.size())];
}

// The state of a fourth of the runs has one more buffer, whatever their outer rule.
bool DrawControl(const SwarmPlan& plan) { return SimMix(plan.seed, 0x636f6e74726f6c) % 4 == 0; }

void DrawRun(SimRandom& random, SwarmPlan* plan) {
  const auto peers = static_cast<uint64_t>(kPeers[random.Below(kPeers.size())]);
  const bool isLong = peers <= 4 && random.Below(16) == 0;
  plan->rounds = 20 + random.Below(isLong ? 181 : peers <= 5 ? 16 : 4);
  plan->elements = static_cast<uint64_t>(64 * std::pow(64.0, random.Unit()));
  plan->tensors = 1 + random.Below(4);
  const uint64_t chunks =
      1 + random.Below(std::max<uint64_t>(2, std::min<uint64_t>(40, 96 / peers)));
  plan->chunk_elements =
      static_cast<uint32_t>(std::max<uint64_t>(16, (plan->elements + chunks - 1) / chunks));
  DrawCodec(random, plan);
  DrawUpperCodec(plan);
  DrawSlowCodec(plan);
  if (random.Below(4) == 0) {
    plan->rule = "average";
    plan->learning_rate = 1;
    plan->momentum = 0;
  }
  plan->control_variates = DrawControl(*plan);
  DrawOuterRule(plan);
  plan->inner_steps = static_cast<uint32_t>(1 + random.Below(8));
  plan->evaluate_every = static_cast<uint32_t>(random.Below(3) == 0 ? 0 : 1 + random.Below(8));
  plan->stopped = random.Below(4) == 0;
  plan->failure_timeout = Milliseconds(random, 500, 4000);
  plan->snapshot_every = static_cast<uint32_t>(1 + random.Below(8));
  plan->keep_snapshots = static_cast<uint32_t>(1 + random.Below(3));
  // Two snapshots take 16 bytes a value; below that the smallest that can work is used.
  if (Half(random)) plan->keep_bytes = (10 + random.Below(60)) * (plan->elements + 100);
  for (uint64_t i = 1; i <= peers; ++i) {
    plan->peers.emplace_back();
    plan->peers.back().name = absl::StrFormat("p%02d", i);
  }
}

// Draws the planner, and what it can measure, with random numbers of its own, as above. A vector
// takes up to 16 kB, so the slowest lines give exchanges of a second.
void DrawPlanner(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x706c616e).Next());
  // What a region has averaged cannot be judged. Mostly the regions stay: relays are where most can
  // go wrong.
  if (plan->aggregation != "mean" && plan->plan == "regions" && SimMix(plan->seed, 0x72) % 4 != 0) {
    plan->aggregation = "mean";
    plan->faulty = 0;
  }
  if (plan->aggregation != "mean") plan->plan = "flat";
  // Not in place of regions: it seldom chooses them, and relays are where most can go wrong.
  if (plan->plan == "flat" && Half(own)) plan->plan = "auto";
  if (Half(own)) return;
  // A line here is one queue: heartbeats wait behind all that a lone reducer sends, and must not
  // for so long that it is taken for dead.
  const double all = 4.0 * static_cast<double>(plan->elements * plan->peers.size());
  const double least = all / absl::ToDoubleSeconds(0.4 * plan->failure_timeout);
  for (SwarmPlan::Machine& peer : plan->peers) {
    if (own.Below(4) == 0) continue;
    peer.bytes_per_second = std::max(least, 5e4 * std::pow(20.0, own.Unit()));
    // What goes by lines needs to know them before the run is over.
    peer.tells_limit = own.Below(4) == 0 || !plan->slow_codec.empty();
  }
}

void DrawMachines(SimRandom& random, SwarmPlan* plan) {
  const uint64_t peers = plan->peers.size();
  // A majority mostly; some runs go on with one, some need all.
  const uint64_t draw = random.Below(8);
  plan->quorum = static_cast<uint32_t>(draw == 0   ? 1
                                       : draw == 1 ? 1 + random.Below(peers)
                                                   : peers / 2 + 1);
  DrawAggregation(plan);
  // A round is shorter than the time in which silence is noticed, so that faults span few rounds
  // and many.
  const absl::Duration step =
      plan->failure_timeout * (0.1 + 0.7 * random.Unit()) / static_cast<double>(plan->inner_steps);
  for (SwarmPlan::Machine& peer : plan->peers) peer.step = step + step * 0.3 * random.Unit();
  plan->plan = Half(random) ? "regions" : "flat";
  const uint64_t regions = 1 + random.Below(4);
  for (SwarmPlan::Machine& peer : plan->peers) {
    const uint64_t region = random.Below(regions + 1);
    if (region > 0) peer.region = absl::StrCat("r", region);
  }
  // Late ones join into a run that the others hold up.
  plan->founders = static_cast<uint32_t>(peers);
  if (peers > plan->quorum && Half(random)) {
    const uint64_t late = 1 + random.Below(peers - plan->quorum);
    plan->founders = static_cast<uint32_t>(peers - late);
    for (uint64_t i = peers - late; i < peers; ++i) {
      plan->peers[i].joins_at = 1 + random.Below(plan->rounds / 2);
    }
  }
  plan->latency = absl::Microseconds(static_cast<int64_t>(100 + random.Below(20000)));
  if (Half(random)) plan->jitter = plan->latency * random.Unit();
  if (Half(random)) plan->bytes_per_second = 2e5 + 1e7 * random.Unit();
  plan->pool_cost = absl::Microseconds(static_cast<int64_t>(20 + random.Below(2000)));
  std::vector<size_t> order(peers);
  for (size_t i = 0; i < peers; ++i) order[i] = i;
  for (size_t i = peers; i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
  const uint64_t core = plan->quorum + random.Below(peers - plan->quorum + 1);
  for (size_t i = 0; i < peers; ++i) {
    SwarmPlan::Machine& peer = plan->peers[order[i]];
    peer.core = i < core;
    if (!peer.core) peer.outsider = static_cast<Outsider>(random.Below(5));
  }
}

// Draws peers behind NAT in a third of the seeds, and in half of those an aggregator, with random
// numbers of their own, as for the newer codecs. The core always has a peer that can be dialled.
void DrawReach(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x7265616368).Next());
  if (own.Below(3) != 0) return;
  for (SwarmPlan::Machine& peer : plan->peers) peer.dial_out = Half(own);
  if (Half(own)) {
    // Before and after the others in roster order, and perhaps late.
    SwarmPlan::Machine& aggregator = plan->peers.emplace_back();
    aggregator.name = Half(own) ? "a00" : "z00";
    aggregator.aggregator = true;
    aggregator.core = true;
    if (Half(own)) aggregator.region = "r1";
    return;
  }
  for (SwarmPlan::Machine& peer : plan->peers) {
    if (!peer.core || peer.joins_at != 0) continue;
    peer.dial_out = false;
    return;
  }
  for (SwarmPlan::Machine& peer : plan->peers) peer.dial_out = false;
}

// Draws a peer that corrupts what it serves in a third of the seeds, with random numbers of its
// own, as above.
void DrawForger(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x666f7267).Next());
  if (own.Below(3) == 0) plan->peers[own.Below(plan->peers.size())].forges = true;
}

// Returns how long a fault of a kind lasts, as shares of the time in which silence is noticed.
absl::Duration DrawDuration(SimRandom& random, FaultKind kind, absl::Duration failure_timeout) {
  switch (kind) {
    case FaultKind::kReset:
    case FaultKind::kWorkerDies:
      return Milliseconds(random, 1, 1500);
    case FaultKind::kKillPeer:
    case FaultKind::kKillCoordinator:
    case FaultKind::kKillAtWrite:
    case FaultKind::kKillCoordinatorAtWrite:
      // Back at once, before or after anybody takes it for dead.
      return random.Below(3) == 0 ? Milliseconds(random, 0, 20)
                                  : failure_timeout * 2.5 * random.Unit();
    case FaultKind::kPausePeer:
    case FaultKind::kPauseCoordinator:
      return random.Below(8) == 0 ? Milliseconds(random, 10000, 120000)
                                  : failure_timeout * 2.5 * random.Unit();
    case FaultKind::kWallClock:
      // It shows only where something else is waited for meanwhile.
      return failure_timeout * (2 + 6 * random.Unit());
    default:
      return failure_timeout * (0.1 + 2 * random.Unit());
  }
}

// Returns true if others have to do without the victim, or a link to it.
bool TakesAway(FaultKind kind) {
  switch (kind) {
    case FaultKind::kReset:
    case FaultKind::kCut:
    case FaultKind::kSplit:
    case FaultKind::kOneWay:
    case FaultKind::kBlackHole:
    case FaultKind::kKillPeer:
    case FaultKind::kKillSeveral:
    case FaultKind::kWipePeer:
    case FaultKind::kPausePeer:
      return true;
    default:
      return false;
  }
}

PlannedFault DrawFault(SimRandom& random, FaultKind kind, const SwarmPlan& plan) {
  PlannedFault fault;
  const uint64_t peers = plan.peers.size();
  fault.kind = kind;
  fault.victim = static_cast<int>(random.Below(peers));
  // Most of what goes wrong between two goes wrong towards the coordinator, who is always there.
  const uint64_t other = random.Below(peers - 1);
  fault.other =
      random.Below(3) == 0
          ? -1
          : static_cast<int>(other >= static_cast<uint64_t>(fault.victim) ? other + 1 : other);
  fault.after_commits = random.Below(3);
  // An exchange is short: half of the faults come soon after a round's training has ended.
  const absl::Duration round = plan.peers.front().step * plan.inner_steps;
  fault.after = Half(random) ? round * (0.9 + 0.4 * random.Unit()) : 2 * round * random.Unit();
  fault.lasts = DrawDuration(random, kind, plan.failure_timeout);
  fault.amount = random.Next();
  fault.overlap = random.Below(4) == 0 || kind == FaultKind::kWallClock;
  // An exchange takes a few ways there and back: a fault that is to fall into it must be aimed.
  fault.in_exchange = random.Below(8) < (TakesAway(kind) ? 6 : 1);
  if (fault.in_exchange) {
    fault.after = random.Below(4) == 0 ? (plan.latency + plan.pool_cost) * 8 * random.Unit()
                                       : 0.6 * plan.failure_timeout * random.Unit();
  }
  return fault;
}

// Returns the peers that may lie: the others are enough, and the plan's quorum is set such that
// they are. A needed peer can always stop the run, and a peer that is enough alone can commit
// anything; then none may lie.
std::vector<SwarmPlan::Machine*> MayBeHostile(SwarmPlan* plan) {
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
  if (plan->quorum < 2) able.clear();
  return able;
}

// What a peer claims to hold matters after a restart of the coordinator.
void AddRestarts(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x72657374).Next());
  PlannedFault fault;
  fault.kind = FaultKind::kKillCoordinator;
  fault.after_commits = 2;
  fault.after = plan->peers.front().step * plan->inner_steps * own.Unit();
  fault.lasts = Milliseconds(own, 0, 500);
  plan->faults.push_back(fault);
}

}  // namespace

absl::string_view FaultName(FaultKind kind) { return kNames[static_cast<size_t>(kind)]; }

const std::vector<std::string>& SwarmModes() {
  static const auto& modes =
      *new std::vector<std::string>{"sync", "streaming", "eager", "delayed", "async"};
  return modes;
}

SwarmPlan DrawPlan(uint64_t seed, const std::string& mode, const std::string& store) {
  SwarmPlan plan;
  plan.seed = seed;
  plan.only_mode = mode;
  SimRandom random(SimRandom(seed ^ 0x73776172).Next());
  DrawRun(random, &plan);
  DrawMachines(random, &plan);
  DrawPlanner(&plan);
  DrawAsync(&plan);
  DrawReach(&plan);
  DrawLiars(&plan);
  DrawForger(&plan);
  // Of a draw of its own, so that a seed's story is told with it and without it.
  constexpr std::array<double, 4> kShares = {0, 0.0625, 0.5, 1};
  plan.audit_share = kShares[SimMix(seed, 0x6175646974) % kShares.size()];
  DrawHostile(&plan);
  DrawClaims(&plan);
  DrawHoarder(&plan);
  DrawParties(&plan);
  DrawMasks(&plan);
  DrawMode(&plan);
  DrawFragments(&plan);
  DrawEager(&plan);
  DrawLateRule(&plan);
  DrawMovingClip(&plan);
  DrawExperts(&plan);
  std::vector<FaultKind> kinds;
  for (int kind = 0; kind < kDrawnKinds; ++kind) {
    if (!Half(random)) continue;
    // Death is what all of this is about.
    const int weight = static_cast<FaultKind>(kind) == FaultKind::kKillPeer ? 4 : 1;
    kinds.insert(kinds.end(), weight, static_cast<FaultKind>(kind));
  }
  if (random.Below(kFaultFreeEvery) == 0 || kinds.empty()) {
    if (store == kEtcdStoreName) plan.coordinators = 2;
    DrawGrey(&plan);
    return plan;
  }
  const uint64_t room = plan.rounds - kOtherRounds;
  const uint64_t count = 1 + random.Below(room / 2);
  for (uint64_t i = 0; i < count; ++i) {
    plan.faults.push_back(DrawFault(random, kinds[random.Below(kinds.size())], plan));
  }
  for (const SwarmPlan::Machine& peer : plan.peers) {
    if (peer.hostility == Hostility::kVersionLiar) AddRestarts(&plan);
  }
  if (plan.masked) DrawUnmaskings(&plan);
  SpareHugeUpdates(&plan);
  DrawHangs(&plan);
  if (store == kEtcdStoreName) DrawCoordinators(&plan);
  DrawGrey(&plan);
  return plan;
}

std::string Describe(const SwarmPlan& plan) {
  const auto slow = std::count_if(plan.peers.begin(), plan.peers.end(),
                                  [](const auto& peer) { return peer.bytes_per_second > 0; });
  std::string text = absl::StrFormat(
      "%d peers (%d from the start, quorum %d, plan %s, %d on slow lines), %d rounds of %d values "
      "in chunks of %d, %s%s, "
      "%s, "
      "%s of %d liars and clip %.2g, %d lie, failure_timeout %s, audits of %g, %d faults",
      plan.peers.size(), plan.founders, plan.quorum, plan.plan, slow, plan.rounds, plan.elements,
      plan.chunk_elements,
      plan.codec + (plan.slow_codec.empty() ? "" : "|" + plan.slow_codec) +
          (plan.upper_codec.empty() ? "" : "/" + plan.upper_codec) +
          (plan.stochastic ? " rounded stochastically" : ""),
      plan.error_feedback ? " with error feedback" : "",
      plan.control_variates ? plan.rule + " with control variates" : plan.rule, plan.aggregation,
      plan.faulty, plan.clip, plan.liars, absl::FormatDuration(plan.failure_timeout),
      plan.audit_share, plan.faults.size());
  absl::StrAppend(&text, DescribeMode(plan));
  if (plan.coordinators > 1) absl::StrAppend(&text, ", ", plan.coordinators, " coordinators");
  if (plan.private_data) absl::StrAppend(&text, ", private data");
  if (plan.masked) {
    absl::StrAppend(&text, ", masks of at least ", plan.mask_threshold, " among at least ",
                    plan.mask_roster);
  }
  if (plan.slices) {
    absl::StrAppend(&text, ", ", plan.experts, " slices of adapters");
  } else if (plan.experts > 0) {
    absl::StrAppend(&text, ", ", plan.experts, " experts of ", plan.owners, " owners each");
  }
  if (plan.moving_clip) absl::StrAppend(&text, ", a clip that follows the updates");
  if (plan.participation < 1) absl::StrAppendFormat(&text, ", %.2f drawn", plan.participation);
  if (plan.drop > 0) absl::StrAppendFormat(&text, ", %.2f of the updates dropped", plan.drop);
  for (const SwarmPlan::Machine& peer : plan.peers) {
    if (peer.forges) absl::StrAppend(&text, ", ", peer.name, " forges");
    if (peer.claims_clips) absl::StrAppend(&text, ", ", peer.name, " claims clips");
    if (peer.hostility == Hostility::kNone) continue;
    absl::StrAppend(&text, ", ", peer.name, " is a ", HostilityName(peer.hostility));
  }
  for (const PlannedFault& fault : plan.grey) {
    absl::StrAppend(&text, ", ", FaultName(fault.kind), " from version ", fault.after_commits);
  }
  for (const PlannedFault& fault : plan.faults) {
    absl::StrAppend(&text, text.find(':') == std::string::npos ? ": " : ", ",
                    FaultName(fault.kind));
  }
  return text;
}

uint32_t LeastQuorum(const SwarmPlan& plan) {
  if (plan.drop > 0) return 1;
  const double drawn = std::ceil(plan.participation * plan.quorum - 1e-6);
  return std::max<uint32_t>(1, static_cast<uint32_t>(drawn));
}

// Draws private data in a quarter of the seeds. Participation and drops are drawn in a sixth each
// of those in which no peer lies: if few peers are drawn, the others are not enough to find a lie.
void DrawParties(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x70617274).Next());
  plan->private_data = own.Below(4) == 0;
  if (plan->mode == "async") return;  // nobody is drawn for an entry
  if (IsForPipeline(*plan)) return;
  const uint64_t draw = own.Below(6);
  const double share = own.Unit();
  const bool honest = plan->liars == 0 && plan->aggregation == "mean" &&
                      std::all_of(plan->peers.begin(), plan->peers.end(), [](const auto& peer) {
                        return peer.hostility == Hostility::kNone && !peer.forges;
                      });
  if (!honest) return;
  if (draw == 0 || draw == 2) plan->participation = 0.3 + 0.6 * share;
  if (draw == 1 || draw == 2) plan->drop = 0.1 + 0.4 * share;
}

// Draws a pipeline in two fifths of the seeds that have nothing incompatible; in half of those the
// entry is merged later, in the others it is missed.
void DrawMode(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x6d6f6465).Next());
  uint64_t draw = own.Below(5);
  if (draw == 0 && !MayDraw(*plan, "delayed")) draw = 2;
  if (draw == 1 && !MayDraw(*plan, "streaming")) draw = 2;
  if (MustDraw(*plan, "delayed")) draw = 0;
  if (MustDraw(*plan, "streaming")) draw = 1;
  if (draw > 1 || plan->mode != "sync" || plan->masked || plan->participation < 1 ||
      plan->drop > 0) {
    return;
  }
  plan->control_variates = false;
  plan->mode = draw == 0 ? "delayed" : "streaming";
  if (draw == 0) {
    if (own.Below(3) == 0) plan->age_decay = own.Unit() / 2;
    return;
  }
  plan->fragments = 1;
  plan->overlap = static_cast<uint32_t>(1 + own.Below(plan->inner_steps));
  // With an overlap of the whole round a merge of 0 would drop each update (FaultOfMode).
  const bool drops = own.Below(2) == 0 && plan->overlap < plan->inner_steps;
  plan->merge = drops ? 0 : 0.5;
}

// Draws fragments in a quarter of the seeds whose updates can be judged by themselves, one fragment
// in a third of those, with the overlap that has been drawn or none. Two tensors make a layer, so
// that each fragment has at least one.
void DrawFragments(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x66726167).Next());
  const bool wanted = own.Below(4) == 0;
  const auto fragments = static_cast<uint32_t>(1 + own.Below(3));
  const uint64_t more = own.Below(5);
  AggregationSettings settings;
  settings.rule = plan->aggregation;
  settings.faulty = plan->faulty;
  const absl::StatusOr<AggregationRule> rule = AggregationRule::Make(settings);
  const bool centred = rule.ok() && rule->has_centre();
  const bool streaming = plan->mode == "streaming";
  if (!wanted || plan->masked || (centred && fragments > 1)) return;
  if (!MayDraw(*plan, "streaming")) return;
  if (!streaming && (plan->mode != "sync" || plan->participation < 1 || plan->drop > 0)) return;
  plan->mode = "streaming";
  plan->fragments = fragments;
  plan->tensors = 2 * fragments + more;
  plan->control_variates = false;
}

// Uses random numbers of its own, so that the rest of a seed's plan does not change.
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

// In a third of the seeds some peers never hand over what they learned. The run also works without
// them, and if nothing bounds an update's length none of them makes it grow.
void DrawLiars(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x6c696172).Next());
  if (own.Below(3) != 0) return;
  if (plan->mode == "async") return;  // alone in an entry, a lie is the whole of it
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

// In a third of the seeds in which the others are enough, one peer lies as a reducer or as an
// auditor; in most of those everything is audited, because nothing else guarantees that no lie is
// committed.
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
  const std::vector<SwarmPlan::Machine*> able = MayBeHostile(plan);
  if (able.empty()) return;
  SwarmPlan::Machine* const hostile = able[own.Below(able.size())];
  hostile->hostility = kind;
  hostile->core = false;
  if (own.Below(4) != 0) plan->audit_share = 1;
  // Behind relays nobody is named.
  if (own.Below(2) == 0) plan->plan = "flat";
}

// In a third of the seeds without such a peer, one lies about itself or about which peers can be
// reached.
void DrawClaims(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x636c61696d).Next());
  const bool taken = std::any_of(plan->peers.begin(), plan->peers.end(), [](const auto& peer) {
    return peer.hostility != Hostility::kNone;
  });
  if (taken || own.Below(3) != 0) return;
  constexpr std::array<Hostility, 6> kKinds = {
      Hostility::kReducerAccuser, Hostility::kReducerAccuser, Hostility::kAddressThief,
      Hostility::kEpochLiar,      Hostility::kVersionLiar,    Hostility::kEndLiar};
  const Hostility kind = kKinds[own.Below(kKinds.size())];
  const std::vector<SwarmPlan::Machine*> able = MayBeHostile(plan);
  if (able.empty()) return;
  SwarmPlan::Machine* const hostile = able[own.Below(able.size())];
  // Somebody who can be dialled is needed.
  const bool others = std::any_of(plan->peers.begin(), plan->peers.end(), [&](const auto& peer) {
    const bool there = peer.core && peer.joins_at == 0 && peer.habit == SimWorker::Habit::kNone;
    return &peer != hostile && (peer.aggregator || (there && !peer.dial_out));
  });
  if (!others) return;
  std::vector<std::string> victims;
  for (const SwarmPlan::Machine& peer : plan->peers) {
    if (&peer != hostile && !peer.dial_out) victims.push_back(peer.name);
  }
  if (victims.empty()) return;
  hostile->hostility = kind;
  hostile->core = false;
  if (kind == Hostility::kAddressThief) hostile->steals = victims[own.Below(victims.size())];
}

// In a sixth of the seeds without any other liar, one peer withholds version 0 and its shares of
// evaluations, from the first round to the end.
void DrawHoarder(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x686f617264).Next());
  const bool taken = std::any_of(plan->peers.begin(), plan->peers.end(), [](const auto& peer) {
    return peer.hostility != Hostility::kNone;
  });
  if (taken || own.Below(6) != 0) return;
  std::vector<SwarmPlan::Machine*> able;
  for (SwarmPlan::Machine* const peer : MayBeHostile(plan)) {
    if (peer->joins_at == 0 && !peer->forges) able.push_back(peer);
  }
  if (able.empty()) return;
  SwarmPlan::Machine* const hoarder = able[own.Below(able.size())];
  // Somebody who can be dialled makes version 0 then.
  const bool others = std::any_of(plan->peers.begin(), plan->peers.end(), [&](const auto& peer) {
    return &peer != hoarder && peer.core && peer.joins_at == 0 && !peer.dial_out &&
           !peer.aggregator && peer.habit == SimWorker::Habit::kNone;
  });
  if (!others) return;
  hoarder->hostility = Half(own) ? Hostility::kHoarder : Hostility::kMute;
  hoarder->core = false;
}

// In a third of the seeds with faults a worker hangs after the other faults, so that those stay as
// they are; and in a third of all seeds one hangs at the end.
void DrawHangs(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x68616e67).Next());
  if (own.Below(3) == 0 && !plan->faults.empty()) {
    PlannedFault fault;
    fault.kind = FaultKind::kWorkerHangs;
    fault.victim = static_cast<int>(own.Below(plan->peers.size()));
    fault.after_commits = own.Below(3);
    fault.after = plan->peers.front().step * plan->inner_steps * own.Unit();
    fault.amount = own.Next();
    plan->faults.push_back(fault);
  }
  if (own.Below(3) != 0) return;
  plan->hangs_at_end = static_cast<int>(own.Below(plan->peers.size()));
  plan->hangs_in_evaluation = Half(own);
}

// What is done to a coordinator's own store is done to etcd and to the connection to it; and in
// most seeds with faults the leader changes a few more times.
void DrawCoordinators(SwarmPlan* plan) {
  SimRandom own(SimRandom(plan->seed ^ 0x65746364).Next());
  plan->coordinators = static_cast<uint32_t>(2 + own.Below(2));
  constexpr std::array<FaultKind, 6> kOfEtcd = {
      FaultKind::kCutFromEtcd,      FaultKind::kEtcdSlow,   FaultKind::kEtcdSlow,
      FaultKind::kEtcdLosesAnswers, FaultKind::kEtcdMember, FaultKind::kEtcdDown};
  for (PlannedFault& fault : plan->faults) {
    switch (fault.kind) {
      case FaultKind::kKillCoordinatorAtWrite:
        fault.kind = Half(own) ? FaultKind::kKillCoordinator : FaultKind::kKillStandby;
        break;
      case FaultKind::kStoreFull:
      case FaultKind::kStoreSlow:
      case FaultKind::kStoreRestored:
        fault.kind = kOfEtcd[own.Below(kOfEtcd.size())];
        break;
      default:
        break;
    }
  }
  constexpr std::array<FaultKind, 6> kOfLeader = {
      FaultKind::kKillCoordinator, FaultKind::kPauseCoordinator, FaultKind::kPauseCoordinator,
      FaultKind::kCutFromEtcd,     FaultKind::kEndLeader,        FaultKind::kEtcdSlow};
  const uint64_t more = own.Below(4);
  for (uint64_t i = 0; i < more; ++i) {
    const FaultKind kind = kOfLeader[own.Below(kOfLeader.size())];
    const PlannedFault fault = DrawFault(own, kind, *plan);
    plan->faults.insert(
        plan->faults.begin() + static_cast<ptrdiff_t>(own.Below(plan->faults.size() + 1)), fault);
  }
  // A leader that stops for a moment is still the leader.
  for (PlannedFault& fault : plan->faults) {
    const bool of_etcd = fault.kind >= FaultKind::kKillStandby;
    if (!of_etcd && fault.kind != FaultKind::kPauseCoordinator) continue;
    fault.lasts = std::max(fault.lasts, absl::Seconds(4) * own.Unit());
  }
}

}  // namespace atolld

// SwarmPlan: all that a seed decides - the run, the machines, and what is to be done to them.
//
// A pure function of the seed: the same seed is the same plan, whatever the simulation then makes
// of it. Each kind of fault is on in half of the seeds, and faults are paced so that rounds do
// commit between them: where nothing commits nothing can be found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/sim/hostile_transport.h"
#include "tests/sim/sim_worker.h"

namespace atolld {

enum class FaultKind {
  // network
  kReset,       // the calls of a link break
  kResetAfter,  // ... once so many bytes more have gone over it
  kCut,         // a link is down: calls break, dials are refused
  kSplit,       // some peers (and perhaps the coordinator) see nobody else
  kOneWay,      // nothing arrives in one direction
  kBlackHole,   // a peer's packets vanish, both ways, without an error to anybody
  kClog,        // a link delivers nothing for a while, then all
  kLoss,        // frames come late by a retransmission
  kReplay,      // calls are made a second time by the network
  kThinPipe,    // a peer at 1 % bandwidth
  // process
  kKillPeer,
  kKillAtWrite,  // at a certain change of its disk
  kKillSeveral,  // one by one, back in random order
  kWipePeer,     // comes back with an empty disk
  kPausePeer,    // as by SIGSTOP
  kKillCoordinator,
  kKillCoordinatorAtWrite,
  kPauseCoordinator,
  // storage
  kDiskFull,
  kDiskErrors,
  kBitFlips,  // on read
  kSlowSync,
  kStoreFull,  // the coordinator's
  kStoreSlow,
  // clock
  kWallClock,  // off by minutes, stepped backwards
  kDrift,      // of the monotonic clock
  // worker
  kWorkerDies,
  kStraggler,
  kBadUpdate,   // NaN or infinity
  kHugeUpdate,  // 1e30
  // operator
  kDrain,          // by a signal, or by an order
  kPauseRun,       // and resumed
  kEvict,          // and readmitted
  kStoreRestored,  // the coordinator's store, from a copy some versions older
  // memory
  kMemoryFlip,  // a bit of theta
  // drawn by itself
  kWorkerHangs,  // at its next training or evaluation, until it is killed
  // of several coordinators and their etcd
  kKillStandby,
  kEndLeader,         // it gives its lease back
  kCutFromEtcd,       // a coordinator, or the answers to it
  kEtcdSlow,          // requests come late, also after they have been given up
  kEtcdLosesAnswers,  // to what it has done
  kEtcdMember,        // one of three is down or hangs
  kEtcdDown,          // it has no majority
};
inline constexpr int kFaultKinds = static_cast<int>(FaultKind::kEtcdDown) + 1;
absl::string_view FaultName(FaultKind kind);

struct PlannedFault {
  FaultKind kind = FaultKind::kReset;
  int victim = 0;              // number of a peer
  int other = 0;               // of another one, or -1: the coordinator
  uint64_t after_commits = 1;  // since the fault before was over
  absl::Duration after;        // and then so long
  absl::Duration lasts;
  uint64_t amount = 0;   // bytes, writes or times: by kind
  bool overlap = false;  // the next fault does not wait for this one's end
  // It comes `after` the next plan was told, to a relay or reducer of it.
  bool in_exchange = false;
};

// What happens to a peer outside the core while liveness is judged.
enum class Outsider { kHealthy, kDead, kPaused, kIsolated, kStraggler };

struct SwarmPlan {
  uint64_t seed = 0;

  // The run.
  uint64_t rounds = 20;
  uint64_t elements = 1000;
  uint64_t tensors = 1;
  uint32_t chunk_elements = 100;
  std::string codec = "int8";
  std::string upper_codec;  // of means; empty: codec
  std::string slow_codec;   // of updates over slow lines; empty: codec
  bool error_feedback = false;
  double feedback_decay = 1;
  bool stochastic = false;  // rounding
  std::string aggregation = "mean";
  uint32_t faulty = 0;
  double clip = 0;
  double audit_share = 0;
  std::string rule = "nesterov";
  double learning_rate = 0.7;
  double momentum = 0.9;
  uint32_t outer_buffer = 1;  // N of "delayed_nesterov"
  std::string mode = "sync";
  std::string only_mode;  // that the plan was drawn for; empty: any
  double age_decay = 0;
  uint32_t age_cutoff = 0;
  bool gap_penalty = false;
  double momentum_clip = 0;
  bool control_variates = false;  // their common one: no worker here has one of its own
  uint32_t inner_steps = 5;
  uint32_t evaluate_every = 5;
  bool stopped = false;  // the operator ends it before its last round
  uint32_t quorum = 2;
  bool private_data = false;
  bool masked = false;          // nobody sees a single update
  uint32_t mask_threshold = 0;  // 0: what the number of parties asks for
  double participation = 1;
  double drop = 0;
  // Of mode "streaming" (otherwise 0). With several fragments the tensors are in layers.
  uint32_t fragments = 0;
  uint32_t overlap = 0;
  double merge = 0;
  absl::Duration failure_timeout = absl::Seconds(2);

  // The machines.
  struct Machine {
    std::string name;
    std::string region;  // empty: one of its own
    absl::Duration step = absl::Milliseconds(20);
    uint64_t joins_at = 0;        // version; 0: there from the start
    double bytes_per_second = 0;  // of its own line, each way; 0: no limit
    bool tells_limit = false;     // of it
    Outsider outsider = Outsider::kHealthy;
    bool core = false;
    bool dial_out = false;    // nobody can dial it
    bool aggregator = false;  // it trains nothing; not one of those that the quorum is of
    SimWorker::Habit habit = SimWorker::Habit::kNone;  // other: it lies, round by round
    bool forges = false;                               // as ForgingTransport
    Hostility hostility = Hostility::kNone;            // until it is caught, or all are healed
    std::string steals;                                // of a thief: whose address
  };
  std::vector<Machine> peers;
  size_t liars = 0;           // of them
  std::string plan = "flat";  // as exchange.plan
  uint32_t founders = 2;      // of them, those that are there from the start
  uint32_t snapshot_every = 4;
  uint32_t keep_snapshots = 2;
  uint64_t keep_bytes = 0;  // of log and snapshots; 0: no limit
  absl::Duration latency = absl::Milliseconds(1);
  absl::Duration jitter;
  double bytes_per_second = 0;  // of each link; 0: no limit
  absl::Duration pool_cost = absl::Microseconds(100);
  uint32_t coordinators = 1;  // more: they share a store in etcd

  std::vector<PlannedFault> faults;
  // Whose worker hangs in the run's last evaluation, or when it is to end; -1: nobody's.
  int hangs_at_end = -1;
  bool hangs_in_evaluation = false;
};

// Of a run in this mode ("sync", "streaming", "eager", "delayed", "async"), without what does not
// go with it; empty: in a mode that the seed draws as well. With `store` "etcd" two or three
// coordinators share one; otherwise there is one coordinator.
SwarmPlan DrawPlan(uint64_t seed, const std::string& mode = "", const std::string& store = "");
const std::vector<std::string>& SwarmModes();

// Fewest votes that may commit: of those that are drawn, and whose updates are not dropped.
uint32_t LeastQuorum(const SwarmPlan& plan);

// Parts of it (swarm_async.cc).
void DrawAsync(SwarmPlan* plan);
void DrawEager(SwarmPlan* plan);
bool MayDraw(const SwarmPlan& plan, const std::string& mode);
bool MustDraw(const SwarmPlan& plan, const std::string& mode);
bool IsForPipeline(const SwarmPlan& plan);
void DrawLateRule(SwarmPlan* plan);
std::string DescribeMode(const SwarmPlan& plan);

// Others.
void DrawAggregation(SwarmPlan* plan);
void DrawLiars(SwarmPlan* plan);
void DrawHostile(SwarmPlan* plan);
void DrawClaims(SwarmPlan* plan);
void DrawHoarder(SwarmPlan* plan);
void DrawHangs(SwarmPlan* plan);
void DrawParties(SwarmPlan* plan);
void DrawMasks(SwarmPlan* plan);
void DrawMode(SwarmPlan* plan);
void DrawFragments(SwarmPlan* plan);
void DrawCoordinators(SwarmPlan* plan);

// "5 peers (quorum 3), 24 rounds of 1000 values in 10 chunks, int8, ..."
std::string Describe(const SwarmPlan& plan);

}  // namespace atolld

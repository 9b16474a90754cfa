// SwarmPlan: everything that a seed decides: the run, the machines, and what is done to them.
//
// The plan is a pure function of the seed and does not depend on what happens in the simulation.
// Each kind of fault is on in half of the seeds, and faults are paced so that rounds commit between
// them: without commits there is nothing to check.
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
  kResetAfter,  // the calls of a link break after a number of further bytes
  kCut,         // a link is down: calls break, dials are refused
  kSplit,       // some peers (and perhaps the coordinator) are cut off from all others
  kOneWay,      // nothing arrives in one direction
  kBlackHole,   // a peer's packets vanish in both directions, without an error
  kClog,        // a link delivers nothing for a while, then everything
  kLoss,        // frames are late by a retransmission
  kReplay,      // the network makes calls a second time
  kThinPipe,    // a peer at 1 % bandwidth
  // process
  kKillPeer,
  kKillAtWrite,  // dies at a certain change of its disk
  kKillSeveral,  // one by one; they return in random order
  kWipePeer,     // a peer comes back with an empty disk
  kPausePeer,    // a peer is stopped as by SIGSTOP
  kKillCoordinator,
  kKillCoordinatorAtWrite,
  kPauseCoordinator,
  // storage
  kDiskFull,
  kDiskErrors,
  kBitFlips,  // bits flip when the disk is read
  kSlowSync,
  kStoreFull,  // the coordinator's store has no space
  kStoreSlow,
  // clock
  kWallClock,  // the wall clock is off by minutes or is stepped backwards
  kDrift,      // the monotonic clock drifts
  // worker
  kWorkerDies,
  kStraggler,
  kBadUpdate,   // an update has NaN or infinity
  kHugeUpdate,  // an update has values of 1e30
  // operator
  kDrain,          // a peer drains, by a signal or by an order
  kPauseRun,       // the run is paused and resumed later
  kEvict,          // a peer is evicted and readmitted later
  kStoreRestored,  // the coordinator's store is restored from a copy that is some versions older
  // memory
  kMemoryFlip,  // a bit of theta flips
  // drawn separately
  kWorkerHangs,    // a worker hangs at its next training or evaluation, until it is killed
  kPairCut,        // packets between two peers vanish in both directions
  kHiddenAddress,  // what arrives at a peer's port vanishes; it can dial all others
  kSmallPackets,   // nothing large arrives between a peer and the others
  // faults of several coordinators and their etcd
  kKillStandby,
  kEndLeader,         // the leader gives its lease back
  kCutFromEtcd,       // a coordinator is cut off from etcd, or only the answers to it are lost
  kEtcdSlow,          // requests to etcd arrive late, even after they were given up
  kEtcdLosesAnswers,  // etcd loses the answers of requests that took effect
  kEtcdMember,        // one of etcd's three members is down or hangs
  kEtcdDown,          // etcd has no majority
};
inline constexpr int kFaultKinds = static_cast<int>(FaultKind::kEtcdDown) + 1;
absl::string_view FaultName(FaultKind kind);

struct PlannedFault {
  FaultKind kind = FaultKind::kReset;
  int victim = 0;              // The number of a peer.
  int other = 0;               // the number of another peer; -1 means the coordinator
  uint64_t after_commits = 1;  // how many commits to wait for after the previous fault has ended
  absl::Duration after;        // and how long to wait after these commits
  absl::Duration lasts;
  uint64_t amount = 0;   // Bytes, writes or times, depending on the kind.
  bool overlap = false;  // The next fault does not wait for the end of this one.
  // If true, the fault comes `after` the next plan was told, and hits one of its relays or
  // reducers.
  bool in_exchange = false;
  bool in_unmasking = false;  // if true, it comes once the next share of a mask was revealed
  bool stays = false;         // if true, it lasts until everything is healed, and the run must cope
                              // with it
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
  std::string upper_codec;  // The codec of means; `codec` if empty.
  std::string slow_codec;   // For updates over slow lines; `codec` if empty.
  bool error_feedback = false;
  double feedback_decay = 1;
  bool stochastic = false;  // Rounding.
  std::string aggregation = "mean";
  uint32_t faulty = 0;
  double clip = 0;
  double audit_share = 0;
  std::string rule = "nesterov";
  double learning_rate = 0.7;
  double momentum = 0.9;
  uint32_t outer_buffer = 1;  // N of "delayed_nesterov"
  std::string mode = "sync";
  std::string only_mode;  // The mode for which the plan was drawn; empty for any.
  double age_decay = 0;
  uint32_t age_cutoff = 0;
  bool gap_penalty = false;
  double momentum_clip = 0;
  bool control_variates = false;  // only the common one, because no worker here has its own
  uint32_t inner_steps = 5;
  uint32_t evaluate_every = 5;
  bool stopped = false;  // true if the operator ends the run before its last round
  uint32_t quorum = 2;
  bool private_data = false;
  bool masked = false;          // true if no peer sees a single update
  uint32_t mask_threshold = 0;  // 0 means the one that suits the number of parties
  uint32_t mask_roster = 3;     // The fewest parties among which masks are shared.
  bool moving_clip = false;     // differential privacy with a clip that follows the updates
  double participation = 1;
  double drop = 0;
  // Used in mode "streaming", otherwise 0. With several fragments the tensors form layers.
  uint32_t fragments = 0;
  uint32_t overlap = 0;
  double merge = 0;
  uint32_t experts = 0;  // 0 means a model without experts
  uint32_t owners = 0;   // how many peers own an expert
  bool slices = false;   // true if these are slices of adapters, and each peer says its rank
  absl::Duration failure_timeout = absl::Seconds(2);

  // The machines.
  struct Machine {
    std::string name;
    std::string region;  // if empty, the machine is a region by itself
    absl::Duration step = absl::Milliseconds(20);
    uint64_t joins_at = 0;        // the version at which it joins; 0 means that it is there from
                                  // the start
    double bytes_per_second = 0;  // the rate of its own line in each direction; 0 means no limit
    bool tells_limit = false;     // true if it tells others that limit
    Outsider outsider = Outsider::kHealthy;
    bool core = false;
    bool dial_out = false;    // true if it cannot be dialled
    bool aggregator = false;  // it does not train, and does not count for the quorum
    SimWorker::Habit habit = SimWorker::Habit::kNone;  // if not kNone, it lies in every round
    bool forges = false;                               // true if it forges as ForgingTransport does
    Hostility hostility = Hostility::kNone;            // lasts until it is caught, or all are
                                                       // healed
    std::string steals;                                // the peer whose address a thief claims
    bool claims_clips = false;                         // true if it lies as ClipLiar does
  };
  std::vector<Machine> peers;
  size_t liars = 0;           // How many of the peers are liars.
  std::string plan = "flat";  // see the key exchange.plan
  uint32_t founders = 2;      // The peers that are there from the start.
  uint32_t snapshot_every = 4;
  uint32_t keep_snapshots = 2;
  uint64_t keep_bytes = 0;  // for log and snapshots; 0 means no limit
  absl::Duration latency = absl::Milliseconds(1);
  absl::Duration jitter;
  double bytes_per_second = 0;  // the rate of each link; 0 means no limit
  absl::Duration pool_cost = absl::Microseconds(100);
  uint32_t coordinators = 1;  // if there are several, they share a store in etcd

  // Lines that fail in part and remain so. `after_commits` is the version after which a line fails;
  // 0 means that it never worked. These lines fail before all other faults, so that they can be
  // judged alone. Then they are mended, or stay until everything is healed.
  std::vector<PlannedFault> grey;
  bool grey_stays = false;
  std::vector<PlannedFault> faults;
  // The peer whose worker hangs in the run's last evaluation or when the worker should end; -1
  // means none.
  int hangs_at_end = -1;
  bool hangs_in_evaluation = false;
};

// Draws the plan of a run in this mode ("sync", "streaming", "eager", "delayed" or "async") and
// leaves out whatever this mode excludes. If `mode` is empty, the seed also draws the mode. With
// `store` "etcd" two or three coordinators share a store; otherwise there is one coordinator.
SwarmPlan DrawPlan(uint64_t seed, const std::string& mode = "", const std::string& store = "");
const std::vector<std::string>& SwarmModes();

// Returns the most values that an entry has: it may have more than the state.
uint64_t MostEntryValues(const SwarmPlan& plan);

// Returns the fewest votes that may commit an entry. Only peers that are drawn, and whose updates
// are not dropped, can vote.
uint32_t LeastQuorum(const SwarmPlan& plan);

// These are parts of DrawPlan (swarm_async.cc).
void DrawAsync(SwarmPlan* plan);
void DrawEager(SwarmPlan* plan);
bool MayDraw(const SwarmPlan& plan, const std::string& mode);
bool MustDraw(const SwarmPlan& plan, const std::string& mode);
bool IsForPipeline(const SwarmPlan& plan);
void DrawLateRule(SwarmPlan* plan);
std::string DescribeMode(const SwarmPlan& plan);

// These are other parts of DrawPlan.
void DrawAggregation(SwarmPlan* plan);
void DrawLiars(SwarmPlan* plan);
void DrawHostile(SwarmPlan* plan);
void DrawClaims(SwarmPlan* plan);
void DrawHoarder(SwarmPlan* plan);
void DrawHangs(SwarmPlan* plan);
void DrawParties(SwarmPlan* plan);
void UseWholeCodecs(SwarmPlan* plan);  // swarm_masks.cc
void DrawMasks(SwarmPlan* plan);       // swarm_masks.cc
void DrawUnmaskings(SwarmPlan* plan);  // in the same file; called once the plan has its other
                                       // faults
void DrawMovingClip(SwarmPlan* plan);  // swarm_privacy.cc
void SpareHugeUpdates(SwarmPlan* plan);
void DrawExperts(SwarmPlan* plan);  // swarm_experts.cc
void DrawMode(SwarmPlan* plan);
void DrawFragments(SwarmPlan* plan);
void DrawCoordinators(SwarmPlan* plan);
void DrawGrey(SwarmPlan* plan);  // swarm_grey.cc

// Returns "5 peers (quorum 3), 24 rounds of 1000 values in 10 chunks, int8, ..."
std::string Describe(const SwarmPlan& plan);

}  // namespace atolld

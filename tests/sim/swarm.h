// Swarm: runs one seed from its plan to the verdict.
//
//   lines that fail in part -> faults, paced -> all but a core healed as planned, the core must
//   commit -> all healed, the run must end, sealed, with nothing left over
//
// The run's last rounds are reserved for the last two steps. Trainings are held so that these
// rounds do not begin too early, nor before all peers have caught up. Whenever no process has been
// disturbed for three deadlines, a round must have been committed. A deadline is the longest time
// from a healed world to a commit. It is the sum of the longest pause before a redial (5 s) and the
// same again to fetch what was missed; failure_timeout for a grace or a silence to end; 4 x the
// longest training measured + 1 s for the round to close (1.25 x median and median + 3 MAD are
// below that); and 2 x the median exchange + failure_timeout for the exchange, or 3.25 times that
// with audits. With masks, each of the five steps of masking may wait for silent parties, and so
// may the next attempt.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "tests/sim/invariants.h"
#include "tests/sim/swarm_cluster.h"
#include "tests/sim/swarm_faults.h"
#include "tests/sim/swarm_grey.h"
#include "tests/sim/swarm_plan.h"

namespace atolld {

struct SwarmResult {
  uint64_t seed = 0;
  uint64_t digest = 0;
  uint64_t events = 0;
  uint64_t rounds = 0;          // committed rounds
  bool calm = false;            // true if the faults that the seed draws are left out
  std::string only_mode;        // see SwarmPlan
  uint64_t guesses = 0;         // guesses of states that equalled the oracle's bit for bit
  uint64_t refreshed = 0;       // those guesses in which an update replaced an older one
  uint64_t slow_updates = 0;    // updates in entries that were encoded with the codec for slow
                                // lines
  bool judged = false;          // true if the liveness of a core was judged
  uint64_t hostile_acts = 0;    // hostile acts of peers that lie as reducers or auditors
  uint64_t lies_committed = 0;  // the number of versions that contain a lie
  uint64_t liars_evicted = 0;   // the number of evictions of liars
  uint32_t coordinators = 1;
  uint64_t terms = 0;  // the number of terms, if there are several coordinators
  int stranded = 0;    // peers that were dead at the end and came back when all others had left
  std::array<int, kFaultKinds> planned{};
  std::array<int, kFaultKinds> landed{};
  std::vector<uint64_t> transitions;  // how often each of PeerTraining::Transitions() was made
  std::optional<Violation> violation;

  // Returns true if at least half of the planned faults took effect.
  bool counts() const;
};

class Swarm {
 public:
  // Called with the seed's story, some lines at a time, as it happens.
  using Tell = std::function<void(const std::string& lines)>;

  explicit Swarm(const SwarmPlan& plan, Tell tell = nullptr)
      : plan_(plan),
        tell_(std::move(tell)),
        cluster_(plan, tell_ != nullptr),
        faults_(cluster_),
        grey_(cluster_, faults_) {}

  SwarmResult Run();

 private:
  void StartFounders();
  void DoGrey();
  void DoFaults();
  void JudgeCore();
  std::set<std::string> Core();
  void HealAll();
  void Finish();
  void CheckEnd();
  void CheckJudged();
  void CheckEvicted();
  void StopEarly();
  void HangAtEnd(uint64_t last);
  // Runs the world with all checks until the condition is true and returns true; returns false if
  // `limit` has passed or a check has failed.
  bool RunUntil(const std::function<bool()>& condition, absl::Duration limit);
  void Tick();
  bool HoldsRun();
  bool AllCaughtUp() const;
  absl::Duration Exchange() const;      // the usual duration of an exchange
  absl::Duration LongestRound() const;  // the duration of a round without any faults
  absl::Duration Deadline() const;
  void CheckBounds();
  uint64_t MostOnDisk() const;

  const SwarmPlan plan_;
  const Tell tell_;
  SwarmCluster cluster_;
  SwarmFaults faults_;
  SwarmGrey grey_;
  SwarmResult result_;
  absl::Duration next_tick_;
  absl::Duration last_commit_;
  uint64_t last_version_ = 0;
  uint64_t hold_at_ = 0;  // The version at which the run is held.
  bool ending_ = false;   // true if it is held only while a peer has to catch up
  absl::Duration held_since_;
};

}  // namespace atolld

// Plans the faults of a churn benchmark, and computes its figures from the logs, the commits and
// the faults of a run.
//
// A plan is a pure function of its settings, so that a seed identifies it. All times are times of
// the machine's wall clock, which the benchmark and the logs of all daemons share. Pure. May be
// called from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace atolld {

enum class FaultKind {
  kKillPeer,           // Kills a peer's daemon, and its worker with it; starts it again.
  kFreezePeer,         // Stops a peer's daemon for longer than failure_timeout.
  kBlackHolePeer,      // Holds all of a peer's connections for longer than failure_timeout.
  kRestartPeer,        // Sends SIGTERM, so that the peer drains and leaves; starts it again.
  kKillWorker,         // Kills a peer's worker; the daemon starts another.
  kFreezeWorker,       // Stops a peer's worker for some time.
  kKillCoordinator,    // Kills the coordinator; starts it again.
  kFreezeCoordinator,  // Stops the coordinator for longer than failure_timeout.
};
inline constexpr int kFaultKinds = 8;

absl::string_view FaultKindName(FaultKind kind);  // For example "kill_peer".
bool OfCoordinator(FaultKind kind);
bool OfWorker(FaultKind kind);

struct PlannedFault {
  FaultKind kind;
  uint32_t peer = 0;  // The number of the peer, from 1; 0 means the coordinator.
  // The time from the beginning of the measurement to the fault. The fault comes later if the
  // previous victim is not back yet.
  absl::Duration at;
  absl::Duration hold;  // The time from its effect until it is undone.
};

struct ChurnPlanSettings {
  uint32_t peers = 0;
  uint64_t seed = 0;
  absl::Duration length;
  absl::Duration every;  // There is one fault in each period of this length.
  absl::Duration failure_timeout;
};

// Plans the faults. Each kind occurs once in every eight faults, in random order. The daemon of
// peer 1 may be frozen or cut off, but is never ended, so that at least one daemon runs from start
// to end. `peers` must be at least 2.
std::vector<PlannedFault> PlanFaults(const ChurnPlanSettings& settings);

// -----------------------------------------------------------------------------------------------

struct LogLine {
  absl::Time at;
  std::string text;  // The line without its time and level.
};

// Returns the lines of a daemon's log that begin with a time. Other lines, which come from other
// programs, are left out.
std::vector<LogLine> ParseLog(absl::string_view text);

struct LandedFault {
  PlannedFault planned;
  std::string victim;           // The id of a peer, or "coordinator".
  absl::Time at;                // The time of the signal, or of the hold of the connections.
  absl::Time healed;            // The time from which the victim could come back.
  uint32_t steps_at_stake = 0;  // The inner steps of the victim that the fault may have destroyed.
  // True if these steps were a complete training, which the others may have received.
  bool handed_over = false;
};

struct Commit {
  absl::Time at;
  uint64_t version = 0;
  std::vector<std::string> contributors;
};

// Returns the commits in the coordinator's log. A commit is missing if its line was lost when the
// coordinator was killed.
std::vector<Commit> CommitsOf(const std::vector<LogLine>& coordinator_log);

struct ChurnTrace {
  absl::Time began;  // The beginning of the measurement.
  std::vector<std::string> peers;
  // The log of each process, including the coordinator.
  std::map<std::string, std::vector<LogLine>> logs;
  std::vector<Commit> commits;
  std::vector<LandedFault> faults;  // In order of time; each fault ended before the next began.
};

// Returns the seconds from the fault until the log of every surviving peer has reported it:
//   if a peer is killed, frozen or cut off: "peer X is dead" at every other peer;
//   if the coordinator is killed or frozen: "lost the coordinator" at every peer;
//   if a worker is killed: "the worker is gone" at its own daemon.
// Returns nullopt if one of these logs does not report it, or if there is nothing to detect: a
// drained peer leaves in an orderly way, and a frozen worker is only slow.
std::optional<double> SecondsToDetect(const ChurnTrace& trace, size_t fault);
bool IsDetectable(FaultKind kind);

// Returns the seconds from LandedFault::healed until a round is committed to which the victim
// contributed; for the coordinator, until any round is committed. Returns nullopt if the victim did
// not come back.
std::optional<double> SecondsToRejoin(const ChurnTrace& trace, size_t fault);

// Returns by how many seconds a round was longer than `undisturbed`, the median of the run without
// faults. The round is the longer of two: the one under way at the time of the fault, and the next
// one. Returns nullopt if no commit follows the fault.
std::optional<double> RoundDelay(const ChurnTrace& trace, size_t fault, double undisturbed);

// Returns the median time between two consecutive commits; 0 if there are none.
double MedianRoundSeconds(const std::vector<Commit>& commits);

// Returns the smallest value that at least the share `share` of the values do not exceed; nullopt
// if there are no values.
std::optional<double> Percentile(std::vector<double> values, double share);

// Returns the number of inner steps that were lost by the fault: steps_at_stake, or 0 if the steps
// were handed over and the victim contributed to the next commit.
uint32_t LostSteps(const ChurnTrace& trace, size_t fault);

// Returns how many times a peer that came back had to repeat a finished training.
size_t CountTrainedAnew(const std::vector<LogLine>& coordinator_log);

// The loss of an evaluation, and the number of tokens in all rounds committed before it.
struct LossPoint {
  uint64_t tokens = 0;
  double loss = 0;
};

// Returns the loss at `tokens`, interpolated linearly between the two neighbouring evaluations. The
// points must be in the order of their tokens. Returns nullopt if `tokens` is outside their range.
std::optional<double> LossAt(const std::vector<LossPoint>& points, uint64_t tokens);

// Computes the time-weighted mean of a number that is sampled from time to time.
class MeanOverTime {
 public:
  // `value` is the value that the number has had since the last call.
  void Add(absl::Time now, double value);
  double mean() const;

 private:
  std::optional<absl::Time> last_;
  double seconds_ = 0;
  double sum_ = 0;
};

}  // namespace atolld

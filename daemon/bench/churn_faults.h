// The faults of a churn benchmark: what is done to whom and when, and what can be read of it from
// what a run leaves - logs, commits, the faults that took effect.
//
// A plan is a pure function of its settings, so that a seed names it. Times of a trace are those of
// the machine's wall clock, which the driver and every daemon's log share. Pure functions, any
// thread.
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
  kKillPeer,           // SIGKILL to a peer's daemon (its worker goes with it); started again
  kFreezePeer,         // SIGSTOP to a peer's daemon, longer than failure_timeout; SIGCONT
  kBlackHolePeer,      // all its connections fall silent, longer than failure_timeout
  kRestartPeer,        // SIGTERM: it drains and leaves; started again
  kKillWorker,         // SIGKILL to a peer's worker; its daemon starts another
  kFreezeWorker,       // SIGSTOP to a peer's worker; SIGCONT
  kKillCoordinator,    // SIGKILL; started again
  kFreezeCoordinator,  // SIGSTOP, longer than failure_timeout; SIGCONT
};
inline constexpr int kFaultKinds = 8;

absl::string_view FaultKindName(FaultKind kind);  // "kill_peer"
bool OfCoordinator(FaultKind kind);
bool OfWorker(FaultKind kind);

struct PlannedFault {
  FaultKind kind;
  uint32_t peer = 0;    // from 1; 0: the coordinator
  absl::Duration at;    // since the beginning; later if the victim before it is not back yet
  absl::Duration hold;  // from taking effect to being undone (started again, continued, resumed)
};

struct ChurnPlanSettings {
  uint32_t peers = 0;
  uint64_t seed = 0;
  absl::Duration length;
  absl::Duration every;  // a fault in each such span
  absl::Duration failure_timeout;
};

// Each kind comes once in every eight faults, in an order of its own. The daemon of peer 1 is
// frozen and cut off but never ended, so that one lives through the whole run. `peers` >= 2.
std::vector<PlannedFault> PlanFaults(const ChurnPlanSettings& settings);

// -----------------------------------------------------------------------------------------------

struct LogLine {
  absl::Time at;
  std::string text;  // without time and level
};

// The lines of a daemon's log that begin with a time; what another program wrote between them is
// left out.
std::vector<LogLine> ParseLog(absl::string_view text);

struct LandedFault {
  PlannedFault planned;
  std::string victim;           // a peer's id, or "coordinator"
  absl::Time at;                // the signal, or the hold
  absl::Time healed;            // when its victim could begin to come back
  uint32_t steps_at_stake = 0;  // inner steps of the victim that stood in what the fault destroyed
  bool handed_over = false;     // they were complete, and the others may have had them already
};

struct Commit {
  absl::Time at;
  uint64_t version = 0;
  std::vector<std::string> contributors;
};

// As the coordinator's log tells them; those whose line was lost with a killed coordinator are
// missing.
std::vector<Commit> CommitsOf(const std::vector<LogLine>& coordinator_log);

struct ChurnTrace {
  absl::Time began;  // of the measurement
  std::vector<std::string> peers;
  std::map<std::string, std::vector<LogLine>> logs;  // by process, the coordinator's among them
  std::vector<Commit> commits;
  std::vector<LandedFault> faults;  // in order; the former was over before the next began
};

// Seconds from the fault until the log of every surviving peer has said so:
//   a peer killed, frozen, cut off: "peer X is dead" at every other peer;
//   a coordinator killed, frozen: "lost the coordinator" at every peer;
//   a worker killed: "the worker is gone" at its own daemon.
// Nothing: some log does not say it, or there is nothing to detect (a drained peer has said
// goodbye; a frozen worker is a slow one).
std::optional<double> SecondsToDetect(const ChurnTrace& trace, size_t fault);
bool IsDetectable(FaultKind kind);

// Seconds from the end of the fault (the process started again, continued, the link resumed; a
// worker's death itself) until a round is committed with the victim's part in it. For the
// coordinator: until a round is committed. Nothing: it did not come back.
std::optional<double> SecondsToRejoin(const ChurnTrace& trace, size_t fault);

// By how much the round under way at the fault, or the one after it if that took longer, lasted
// longer than `undisturbed` seconds, the median of a run without faults. Nothing: no commit
// follows.
std::optional<double> RoundDelay(const ChurnTrace& trace, size_t fault, double undisturbed);

// The median time between two commits in a row; 0 where there are none.
double MedianRoundSeconds(const std::vector<Commit>& commits);

// The smallest value that at least `share` of the values do not exceed; nothing of no values.
std::optional<double> Percentile(std::vector<double> values, double share);

// The inner steps that died with the fault: those at stake, unless the next commit has them.
uint32_t LostSteps(const ChurnTrace& trace, size_t fault);

// How often a peer that came back had to throw a finished training away.
size_t CountTrainedAnew(const std::vector<LogLine>& coordinator_log);

// An evaluation, by the tokens that all rounds up to it had committed.
struct LossPoint {
  uint64_t tokens = 0;
  double loss = 0;
};

// The loss at `tokens`, on the straight line between the two evaluations around it; of points in
// the order of their tokens. Nothing: `tokens` lie outside of them.
std::optional<double> LossAt(const std::vector<LossPoint>& points, uint64_t tokens);

// The time-weighted mean of a number that is looked at from time to time.
class MeanOverTime {
 public:
  // `value` has held since the last call.
  void Add(absl::Time now, double value);
  double mean() const;

 private:
  std::optional<absl::Time> last_;
  double seconds_ = 0;
  double sum_ = 0;
};

}  // namespace atolld

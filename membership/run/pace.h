// The pace of a run, computed from measurements: how many inner steps a peer does in a round, and
// how long each wait of a run may take.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace atolld {

// -----------------------------------------------------------------------------------------------
// Pace: computes how many inner steps a peer does in one round.
//
//   fixed  H for every peer
//   time   as many as fit in the round's time at the peer's measured speed
//   auto   H at the median speed and in proportion at any other, so that all are ready together
//
// H is DiLoCo's number of inner steps a round; updates of peers with different numbers are weighted
// by their tokens. With `time` and `auto` a peer of unknown speed does only an eighth of H to
// measure its speed, so that others do not wait long for a peer that turns out to be slow. Pure.
// May be called from any thread.

struct PaceSettings {
  enum class Kind { kFixed, kTime, kAuto };
  Kind kind = Kind::kFixed;
  absl::Duration time;  // the time of a round's training, for kTime
};

struct PacedSteps {
  uint32_t steps;
  // The steps as a fraction of a round's training; less than 1 if they only measure the speed.
  double rounds = 1;
};

// The time of a peer's inner step: the median over its last few contributions, each weighted by its
// number of steps. The few slow steps of a first measurement therefore soon have no effect, and
// neither has a single outlier.
class StepTimes {
 public:
  void Add(absl::Duration step_time, uint32_t steps);
  bool empty() const { return last_.empty(); }
  absl::Duration Median() const;  // zero if empty

 private:
  struct Contribution {
    absl::Duration step_time;
    uint32_t steps;
  };
  std::deque<Contribution> last_;
};

// Returns the steps of a peer for one round. `step_time` is the time of its inner step, or zero if
// unknown; `all` has the known step times of all trainers. The result is between 1 and 16 H with
// kAuto (a wrong measurement must not keep the others waiting), and between 1 and a million with
// kTime.
PacedSteps StepsFor(const PaceSettings& pace, uint32_t fixed_steps, absl::Duration step_time,
                    absl::Span<const absl::Duration> all);

// -----------------------------------------------------------------------------------------------
// Deadlines: compute from measurements when a round stops waiting for stragglers, and how long an
// exchange, a share of an evaluation, and a whole state may take.
//
// They use the medians of the times of the last rounds, so that one outlier changes nothing.
// Deadlines that are shown to people are rounded up to tenths of a second. Pure. May be called from
// any thread.

// The last few measured times; when it is full, the oldest is dropped.
class RecentTimes {
 public:
  explicit RecentTimes(size_t capacity) : capacity_(capacity) {}
  void Add(absl::Duration time);
  bool empty() const { return times_.empty(); }
  absl::Duration Median() const;  // zero if empty
  // The median absolute deviation (MAD).
  absl::Duration MedianDeviation() const;

 private:
  size_t capacity_;
  std::deque<absl::Duration> times_;
};

// Returns how long after a round's beginning the quorum stops waiting for the others:
//   max(1.25 x median, median + 3 x MAD) + 1 s       of the times from Train to Ready
// Returns nullopt while no time is known; the round then waits for a peer until it is dead.
std::optional<absl::Duration> TrainDeadline(const RecentTimes& ready_times);

// Returns how long, in mode "async", a round that has its quorum still waits for more updates: a
// tenth of the median of the ready times, at most 1 s.
absl::Duration AsyncGrace(const RecentTimes& ready_times);

// Returns how long one attempt at an exchange may take: 2 x predicted + failure_timeout. The
// prediction is the median time of past exchanges or, before the first one, the time to send all
// parameters as fp32 at 1 MB/s. Since lines may be slower than that, the prediction is doubled for
// each attempt that was given up since the last commit, up to a factor of 32.
absl::Duration ExchangeDeadline(const RecentTimes& exchange_times, uint64_t parameters,
                                uint64_t given_up, absl::Duration failure_timeout);

// Returns how long a trainer may go without a sign of progress on its share of an evaluation:
//   4 x (median share + median training) + 4 x failure_timeout
// The training counts because a busy worker finishes its inner steps first. If neither time was
// measured, the result is 60 x failure_timeout.
absl::Duration EvaluationPatience(const RecentTimes& share_times, const RecentTimes& ready_times,
                                  absl::Duration failure_timeout);

// Returns how long a peer may take to make a whole state, to give it to another, or to fetch it:
//   2 x predicted + 4 x failure_timeout + 10 s
// The prediction is the time to send the parameters and one buffer as fp32 at 1 MB/s; 10 s are
// twice the longest pause between two dials. The result is doubled for each earlier wait that
// failed, up to a factor of 32.
absl::Duration StateDeadline(uint64_t parameters, uint64_t in_vain, absl::Duration failure_timeout);

// -----------------------------------------------------------------------------------------------
// LookPace: limits how often all peers of a run may be examined.
//
// The cost of examining all peers at each message of each peer would grow with the square of their
// number. If there are few peers they may be examined at any time. If there are many, they are
// examined so rarely that it costs at most a twentieth of a core. Used by one thread.
class LookPace {
 public:
  // Returns true if this many peers may be examined now, and counts the examination as made.
  // Otherwise the examination is postponed.
  bool May(absl::Time now, size_t peers);
  // Returns when a postponed examination may be made, or InfiniteFuture if none was postponed.
  absl::Time Next() const { return put_off_ ? after_ : absl::InfiniteFuture(); }
  // Allows the next examination at once.
  void Reset() { after_ = absl::InfinitePast(); }

 private:
  absl::Time after_ = absl::InfinitePast();
  bool put_off_ = false;
};

// -----------------------------------------------------------------------------------------------

// Returns text such as "2 of 3 peers are here; waiting for one more".
std::string WaitingReason(size_t there, size_t needed);

}  // namespace atolld

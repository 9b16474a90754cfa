// The pace of a run, from what was measured: how many inner steps a peer does in a round, and how
// long each of a run's waits may take.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace atolld {

// -----------------------------------------------------------------------------------------------
// Pace: how many inner steps a peer does in one round.
//
//   fixed  H for everybody
//   time   as many as fit the round's time at the peer's measured speed
//   auto   H at the median speed and in proportion at any other, so that all are ready together
//
// (DiLoCo's H; unequal H_i weigh by their tokens.) With `time` and `auto` a peer whose speed is not
// known yet does an eighth of H, to measure it: nobody waits long for one that turns out to be
// slow. Pure functions.

struct PaceSettings {
  enum class Kind { kFixed, kTime, kAuto };
  Kind kind = Kind::kFixed;
  absl::Duration time;  // of a round's training, with kTime
};

struct PacedSteps {
  uint32_t steps;
  double rounds = 1;  // how much of a round's training they are: less where they only measure
};

// How long an inner step takes a peer, from its last few contributions: their median, in which each
// counts by its steps, so that a few cold ones that only measured soon count for nothing, and one
// outlier moves nothing.
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

// `step_time` is the peer's own, zero if it is not known; `all` are the known ones of all trainers.
// Between 1 and 16 H with kAuto (a wrong measurement must not keep the others waiting), between 1
// and a million with kTime.
PacedSteps StepsFor(const PaceSettings& pace, uint32_t fixed_steps, absl::Duration step_time,
                    absl::Span<const absl::Duration> all);

// -----------------------------------------------------------------------------------------------
// Deadlines that follow what was measured: when a round stops waiting for stragglers, how long an
// exchange may take, how long a share of an evaluation, and how long a whole state.
//
// They come from the times of the last rounds, medians of them, so that one outlier moves nothing.
// Those of which people are told are rounded up to tenths of a second.
// Pure functions.

// The last few measured times, oldest dropped first.
class RecentTimes {
 public:
  explicit RecentTimes(size_t capacity) : capacity_(capacity) {}
  void Add(absl::Duration time);
  bool empty() const { return times_.empty(); }
  absl::Duration Median() const;  // zero if empty
  // Median of the distances from the median.
  absl::Duration MedianDeviation() const;

 private:
  size_t capacity_;
  std::deque<absl::Duration> times_;
};

// How long after a round's beginning the quorum stops waiting for the others:
//   max(1.25 x median, median + 3 x MAD) + 1 s       of the times from Train to Ready
// Nothing while no time is known: then only death ends the wait.
std::optional<absl::Duration> TrainDeadline(const RecentTimes& ready_times);

// In mode "async": how long a round that has its quorum waits for others that come just now, a
// tenth of the median of those times, at most 1 s.
absl::Duration AsyncGrace(const RecentTimes& ready_times);

// How long one attempt at an exchange may take: 2 x predicted + failure_timeout. Predicted is the
// median of past exchanges, and before the first one all parameters as fp32 at 1 MB/s. Lines may be
// slower than that, or have become slower: each time that the round's exchange was given up since
// the last commit doubles what is predicted, up to 32 times.
absl::Duration ExchangeDeadline(const RecentTimes& exchange_times, uint64_t parameters,
                                uint64_t given_up, absl::Duration failure_timeout);

// How long a trainer may go without a sign that its share of an evaluation comes nearer:
//   4 x (median share + median training) + 4 x failure_timeout
// A busy worker ends its inner steps first, and the shares of two versions are alike. Where neither
// was measured, 60 x failure_timeout.
absl::Duration EvaluationPatience(const RecentTimes& share_times, const RecentTimes& ready_times,
                                  absl::Duration failure_timeout);

// How long a peer may take to make a whole state, to give it to another, or to fetch it:
//   2 x predicted + 4 x failure_timeout + 10 s
// Predicted are the parameters and one buffer as fp32 at 1 MB/s; 10 s are twice the longest pause
// between two dials. Each time that it was waited for in vain doubles that, up to 32 times.
absl::Duration StateDeadline(uint64_t parameters, uint64_t in_vain, absl::Duration failure_timeout);

// -----------------------------------------------------------------------------------------------
// LookPace: how often all peers of a run may be looked at.
//
// A look at all of them for each message of each would take the square of their number. Of a few it
// is taken whenever it is asked for; of more so seldom that it costs a twentieth of a core. One
// thread.
class LookPace {
 public:
  // Whether so many may be looked at now; if so, that counts.
  bool May(absl::Time now, size_t peers);
  // When a look that was put off may be taken; InfiniteFuture: none was.
  absl::Time Next() const { return put_off_ ? after_ : absl::InfiniteFuture(); }
  // The next look is not put off.
  void Reset() { after_ = absl::InfinitePast(); }

 private:
  absl::Time after_ = absl::InfinitePast();
  bool put_off_ = false;
};

// -----------------------------------------------------------------------------------------------

// "2 of 3 peers are here; waiting for one more"
std::string WaitingReason(size_t there, size_t needed);

}  // namespace atolld

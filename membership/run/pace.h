// The pace of a run, from what was measured: how many inner steps a peer does in a round, when a
// round stops waiting for stragglers, and how long an exchange may take.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

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
// (DiLoCo's H; unequal H_i weigh by their tokens.) A peer whose speed is not known yet does H. Pure
// functions.

struct PaceSettings {
  enum class Kind { kFixed, kTime, kAuto };
  Kind kind = Kind::kFixed;
  absl::Duration time;  // of a round's training, with kTime
};

// `step_time` is the peer's own, zero if it is not known; `all` are the known ones of all trainers.
// Between 1 and 16 H with kAuto (a wrong measurement must not keep the others waiting), between 1
// and a million with kTime.
uint32_t StepsFor(const PaceSettings& pace, uint32_t fixed_steps, absl::Duration step_time,
                  absl::Span<const absl::Duration> all);

// -----------------------------------------------------------------------------------------------
// Deadlines that follow what was measured: when a round stops waiting for stragglers, and how long
// an exchange may take.
//
// Both come from the times of the last rounds, medians of them, so that one outlier moves nothing.
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

// How long one attempt at an exchange may take: 2 x predicted + failure_timeout. Predicted is the
// median of past exchanges, and before the first one all parameters as fp32 at 1 MB/s. Lines may be
// slower than that, or have become slower: each time that the round's exchange was given up since
// the last commit doubles what is predicted, up to 32 times.
absl::Duration ExchangeDeadline(const RecentTimes& exchange_times, uint64_t parameters,
                                uint64_t given_up, absl::Duration failure_timeout);

}  // namespace atolld

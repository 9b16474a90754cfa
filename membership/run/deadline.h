// Deadlines that follow what was measured: when a round stops waiting for stragglers, and how long
// an exchange may take.
//
// Both come from the times of the last rounds, medians of them, so that one outlier moves nothing.
// Pure functions.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace atolld {

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

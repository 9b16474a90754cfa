// What an update's norm is measured by: this round's median norm, held to what past rounds had.
//
// While most updates are honest the round's own median says how long one may be. Where most lie, or
// where there are but two, it does not: then it is the past that keeps a mean from being carried
// away, since the norm that updates are clipped to cannot grow by more than kMostGrowth over the
// running median, nor fall by more than that below it. Pure functions in double, the same bits on
// every CPU; any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace atolld {

// Rounds whose median norms count. Norms fall by a few per cent a round once training is under way,
// so over 16 rounds the running median stays within a factor of two.
constexpr size_t kNormRounds = 16;
// Above what an honest round has: restarts of a learning-rate schedule change norms by less.
constexpr double kMostGrowth = 4.0;

// The lower median of the last kNormRounds of `medians`, the median norms of committed rounds,
// oldest first; 0 if there are none.
double RunningMedianNorm(absl::Span<const double> medians);

// `round_median`, held between 1 / kMostGrowth and kMostGrowth of RunningMedianNorm(medians);
// `round_median` alone while the running median is 0. What AggregationRule::Plan takes as
// reference_norm.
double ReferenceNorm(absl::Span<const double> medians, double round_median);

// Appends a round's median norm, and drops those that count no more.
void RememberNorm(double round_median, std::vector<double>* medians);

}  // namespace atolld

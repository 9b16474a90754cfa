#include "membership/planning/shard_plan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

namespace atolld {

std::vector<double> ShardWeights(absl::Span<const double> bandwidths) {
  const size_t n = bandwidths.size();
  double sum = 0;
  double least = std::numeric_limits<double>::infinity();
  size_t reachable = 0;
  for (const double bandwidth : bandwidths) {
    if (bandwidth <= 0) continue;
    ++reachable;
    sum += bandwidth;
    least = std::min(least, bandwidth);
  }
  std::vector<double> weights(n, 0);
  if (reachable == 0) return weights;
  if (n < 3) {
    for (size_t i = 0; i < n; ++i) {
      if (bandwidths[i] > 0) weights[i] = 1.0 / static_cast<double>(reachable);
    }
    return weights;
  }
  const double others = static_cast<double>(n - 2);
  const double xi = std::max(1 / least, (others + static_cast<double>(reachable)) / sum);
  double total = 0;
  for (size_t i = 0; i < n; ++i) {
    if (bandwidths[i] > 0) weights[i] = std::max(0.0, (xi * bandwidths[i] - 1) / others);
    total += weights[i];
  }
  for (double& weight : weights) weight /= total;
  return weights;
}

std::vector<uint32_t> SplitChunks(uint32_t chunks, absl::Span<const double> weights) {
  std::vector<uint32_t> counts(weights.size(), 0);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (total <= 0) return counts;
  std::vector<double> remainders(weights.size(), -1);
  uint32_t given = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    const double exact = static_cast<double>(chunks) * weights[i] / total;
    // A sum of rounded quotients may be an ulp above a whole number; never give more than there is.
    counts[i] = std::min(static_cast<uint32_t>(std::floor(exact)), chunks - given);
    remainders[i] = exact - static_cast<double>(counts[i]);
    given += counts[i];
  }
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return remainders[a] > remainders[b]; });
  for (size_t k = 0; given < chunks; k = (k + 1) % order.size()) {
    if (weights[order[k]] <= 0) continue;
    ++counts[order[k]];
    ++given;
  }
  return counts;
}

}  // namespace atolld

#include "optimizer/selection_network.h"

#include <algorithm>

namespace atolld {
namespace {

std::vector<Comparator> MergeExchange(size_t rows) {
  std::vector<Comparator> comparators;
  size_t top = 1;
  while (2 * top < rows) top *= 2;
  if (rows < 2) return comparators;
  for (size_t p = top; p > 0; p /= 2) {
    size_t distance = p;
    size_t rest = 0;
    for (size_t q = top;; q /= 2) {
      for (size_t i = 0; i + distance < rows; ++i) {
        if ((i & p) != rest) continue;
        comparators.push_back(
            {static_cast<uint8_t>(i), static_cast<uint8_t>(i + distance), true, true});
      }
      if (q == p) break;
      distance = q - p;
      rest = p;
    }
  }
  return comparators;
}

}  // namespace

std::vector<Comparator> SelectionNetwork(size_t rows, size_t first_rank, size_t end_rank) {
  const std::vector<Comparator> whole = MergeExchange(rows);
  std::vector<bool> needed(rows, false);
  for (size_t r = first_rank; r < std::min(end_rank, rows); ++r) needed[r] = true;
  std::vector<Comparator> kept;
  for (auto it = whole.rbegin(); it != whole.rend(); ++it) {
    Comparator comparator = *it;
    comparator.needs_low = needed[comparator.low];
    comparator.needs_high = needed[comparator.high];
    if (!comparator.needs_low && !comparator.needs_high) continue;
    needed[comparator.low] = needed[comparator.high] = true;
    kept.push_back(comparator);
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

}  // namespace atolld

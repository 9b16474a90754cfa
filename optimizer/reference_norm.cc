#include "optimizer/reference_norm.h"

#include <algorithm>

#include "optimizer/robust_shares.h"

namespace atolld {

double RunningMedianNorm(absl::Span<const double> medians) {
  const size_t counted = std::min(medians.size(), kNormRounds);
  const absl::Span<const double> last = medians.last(counted);
  return LowerMedian(std::vector<double>(last.begin(), last.end()));
}

double ReferenceNorm(absl::Span<const double> medians, double round_median) {
  const double running = RunningMedianNorm(medians);
  if (!(running > 0)) return round_median;
  return std::max(running / kMostGrowth, std::min(round_median, kMostGrowth * running));
}

void RememberNorm(double round_median, std::vector<double>* medians) {
  medians->push_back(round_median);
  if (medians->size() > kNormRounds) {
    medians->erase(medians->begin(), medians->end() - static_cast<std::ptrdiff_t>(kNormRounds));
  }
}

}  // namespace atolld

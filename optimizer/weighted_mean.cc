#include "optimizer/weighted_mean.h"

#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "optimizer/outer_kernels.h"

namespace atolld {

absl::StatusOr<float> MeanFactor(absl::Span<const float> weights) {
  if (weights.empty()) return absl::InvalidArgumentError("a mean needs at least one weight");
  float total = 0.0f;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] <= 0.0f) {
      return absl::InvalidArgumentError(
          absl::StrCat("weight ", i, " is ", weights[i], ", not finite and above 0"));
    }
    total = total + weights[i];
  }
  const float factor = 1.0f / total;
  if (!std::isnormal(factor)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the weights' sum ", total, " has no usable inverse"));
  }
  return factor;
}

absl::Status FinishMean(absl::Span<const float> weights, absl::Span<float> sum) {
  const absl::StatusOr<float> factor = MeanFactor(weights);
  if (!factor.ok()) return factor.status();
  ScaleValues(*factor, sum.size(), sum.data());
  return absl::OkStatus();
}

}  // namespace atolld

#include "membership/trust/contribution_weight.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

// Weight lost per missed commit (ALGORITHMS.md: lambda of stale updates).
constexpr double kStaleness = 0.25;

}  // namespace

float ContributionWeight(uint64_t tokens, uint32_t age) {
  return static_cast<float>(static_cast<double>(tokens) /
                            (1.0 + kStaleness * static_cast<double>(age)));
}

absl::Status CheckClaims(const v1::RunSpec& spec, const v1::Ready& ready, uint64_t samples) {
  const uint64_t batch = spec.inner().batch();
  const uint64_t trained = uint64_t{ready.steps()} * batch;
  if (trained > samples) {
    return absl::InvalidArgumentError(absl::StrCat("an update of ", ready.steps(), " steps, ",
                                                   trained, " samples; it holds ", samples));
  }
  const uint64_t context = spec.model().context();
  if (batch == 0 || context == 0 || ready.tokens() <= trained * context) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("an update of ", ready.tokens(), " tokens; ",
                                                 ready.steps(), " steps have ", trained * context));
}

void CapWeights(float cap, std::vector<float>* weights) {
  if (cap <= 0 || weights->empty()) return;
  std::vector<float> sorted = *weights;
  std::sort(sorted.begin(), sorted.end());
  const float bound = cap * sorted[(sorted.size() - 1) / 2];
  for (float& weight : *weights) weight = std::min(weight, bound);
}

}  // namespace atolld

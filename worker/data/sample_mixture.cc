#include "worker/data/sample_mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

// Whole numbers that sum to the cycle, as near to the weights as such can be, none 0.
std::vector<uint64_t> Deal(absl::Span<const double> weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<uint64_t> slots;
  uint64_t dealt = 0;
  for (const double weight : weights) {
    const double exact = weight / total * static_cast<double>(SampleMixture::kCycle);
    slots.push_back(std::max<uint64_t>(1, static_cast<uint64_t>(exact)));
    dealt += slots.back();
  }
  // What rounding down left goes to the largest, and what the ones took comes from it.
  uint64_t& largest = *std::max_element(slots.begin(), slots.end());
  largest += SampleMixture::kCycle - dealt;
  return slots;
}

}  // namespace

absl::StatusOr<SampleMixture> SampleMixture::Make(uint64_t seed, absl::Span<const uint64_t> tokens,
                                                  absl::Span<const double> weights,
                                                  uint32_t context) {
  if (tokens.empty() || tokens.size() != weights.size() || tokens.size() > kCycle / 16) {
    return absl::InvalidArgumentError(absl::StrCat(tokens.size(), " sources and ", weights.size(),
                                                   " weights; there must be one each, 1 to ",
                                                   kCycle / 16));
  }
  SampleMixture mixture;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!(weights[i] > 0) || !std::isfinite(weights[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat("the weight of source ", i + 1, " is ", weights[i], "; it must be above 0"));
    }
    auto order = SampleOrder::Make(seed + i, tokens[i], context);
    const std::string name = absl::StrCat("source ", i + 1);
    RETURN_IF_ERROR(tokens.size() == 1 ? order.status() : Annotate(order.status(), name));
    mixture.orders_.push_back(*order);
  }
  mixture.slots_ = Deal(weights);
  // Each slot goes to the source whose next one is due first: rank r of n is due at (r + 1/2) / n.
  std::vector<uint32_t> dealt(tokens.size(), 0);
  while (tokens.size() > 1 && mixture.cycle_.size() < kCycle) {
    size_t next = 0;
    for (size_t i = 1; i < dealt.size(); ++i) {
      if ((2 * dealt[i] + 1) * mixture.slots_[next] < (2 * dealt[next] + 1) * mixture.slots_[i]) {
        next = i;
      }
    }
    mixture.cycle_.push_back({static_cast<uint32_t>(next), dealt[next]++});
  }
  return mixture;
}

SampleMixture::Place SampleMixture::Of(uint64_t sample) const {
  if (cycle_.empty()) return {0, orders_[0].FirstToken(sample)};
  const Slot slot = cycle_[sample % kCycle];
  const uint64_t own = sample / kCycle * slots_[slot.source] + slot.rank;
  return {slot.source, orders_[slot.source].FirstToken(own)};
}

double SampleMixture::Epochs(uint64_t samples) const {
  double most = 0;
  for (size_t i = 0; i < orders_.size(); ++i) {
    const double share = static_cast<double>(slots_[i]) / static_cast<double>(kCycle);
    most = std::max(
        most, static_cast<double>(samples) * share / static_cast<double>(orders_[i].windows()));
  }
  return most;
}

}  // namespace atolld

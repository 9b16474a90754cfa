#include "daemon/peer/party_mean.h"

#include "compression/base/check.h"
#include "membership/trust/contribution.h"

namespace atolld {

void PartyMean::Add(double weight, uint32_t steps, absl::Span<const float> update) {
  if (sum_.empty()) sum_.assign(update.size(), 0.0f);
  CHECK(sum_.size() == update.size());
  UseUnit(WeightUnit(weight));
  const double counted = weight / unit_;
  const float factor = static_cast<float>(normalised_ ? counted / steps : counted);
  for (size_t i = 0; i < update.size(); ++i) {
    const float part = factor * update[i];
    sum_[i] = sum_[i] + part;
  }
  ++parties_;
  weight_ += weight;
  steps_ += steps;
}

// Changes only to a greater unit, and converts the existing sum to it.
void PartyMean::UseUnit(double unit) {
  if (unit <= unit_) return;
  if (parties_ > 0) {
    const float factor = static_cast<float>(unit_ / unit);
    for (float& value : sum_) value *= factor;
  }
  unit_ = unit;
}

void PartyMean::Write(absl::Span<float> out) const {
  CHECK(parties_ > 0 && out.size() == sum_.size());
  const double tau = static_cast<double>(steps_) / static_cast<double>(parties_);
  const float factor = static_cast<float>((normalised_ ? tau : 1.0) / (weight_ / unit_));
  for (size_t i = 0; i < out.size(); ++i) out[i] = sum_[i] * factor;
}

}  // namespace atolld

#include "daemon/peer/party_mean.h"

#include "compression/base/check.h"

namespace atolld {

void PartyMean::Add(double weight, uint32_t steps, absl::Span<const float> update) {
  if (sum_.empty()) sum_.assign(update.size(), 0.0f);
  CHECK(sum_.size() == update.size());
  const float factor = static_cast<float>(normalised_ ? weight / steps : weight);
  for (size_t i = 0; i < update.size(); ++i) {
    const float part = factor * update[i];
    sum_[i] = sum_[i] + part;
  }
  ++parties_;
  weight_ += weight;
  steps_ += steps;
}

void PartyMean::Write(absl::Span<float> out) const {
  CHECK(parties_ > 0 && out.size() == sum_.size());
  const double tau = static_cast<double>(steps_) / static_cast<double>(parties_);
  const float factor = static_cast<float>((normalised_ ? tau : 1.0) / weight_);
  for (size_t i = 0; i < out.size(); ++i) out[i] = sum_[i] * factor;
}

}  // namespace atolld

#include "membership/masking/masked_terms.h"

#include <algorithm>
#include <cmath>

#include "membership/masking/mask_announcement.h"

namespace atolld {
namespace {

constexpr float kFirstRangeInSteps = 16;

}  // namespace

MaskedTerms MaskedTermsOf(const v1::RunSpec& spec, const v1::MaskAttempt& attempt) {
  MaskedTerms terms;
  terms.ring = RingForm{4, kMostMaskedParties};
  terms.weight_exponent = attempt.weight_exponent();
  const v1::InnerSpec& inner = spec.inner();
  const double range = kFirstRangeInSteps * inner.learning_rate() * inner.steps() *
                       std::max(1.0, inner.gradient_clip());
  if (range > 0 && range < 1e30) terms.first_range = static_cast<float>(range);
  return terms;
}

int WeightExponentOf(absl::Span<const float> weights) {
  float most = 0;
  for (const float weight : weights) most = std::max(most, weight);
  if (!(most > 0)) return 0;
  int exponent = 0;
  const float fraction = std::frexp(most, &exponent);
  return fraction == 0.5F ? exponent - 1 : exponent;  // a power of two itself
}

float RingWeight(const MaskedTerms& terms, float weight) {
  return std::min(1.0F, std::ldexp(weight, -terms.weight_exponent));
}

double RingWeightSum(const MaskedTerms& terms, absl::Span<const float> weights) {
  double sum = 0;
  for (const float weight : weights) sum = sum + RingWeight(terms, weight);
  return sum;
}

}  // namespace atolld

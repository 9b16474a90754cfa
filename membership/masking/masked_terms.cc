#include "membership/masking/masked_terms.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compression/base/planted_bug.h"
#include "membership/masking/mask_announcement.h"
#include "membership/privacy/privacy_budget.h"

namespace atolld {
namespace {

constexpr uint32_t kFewestInASum = 3;
constexpr float kFirstRangeInSteps = 16;
// If a round is a number of passes over a party's data, only the party knows how many steps it
// takes.
constexpr double kStepsOfPasses = 4096;
// A draw of noise is at most 8.57 deviations.
constexpr double kMostDeviations = 9;

}  // namespace

MaskedTerms MaskedTermsOf(const v1::RunSpec& spec, const v1::MaskAttempt& attempt) {
  MaskedTerms terms;
  terms.ring = RingForm{4, kMostMaskedParties};
  terms.weight_exponent = attempt.weight_exponent();
  const v1::InnerSpec& inner = spec.inner();
  const double steps =
      inner.epochs() > 0 ? std::max<double>(kStepsOfPasses, inner.steps()) : inner.steps();
  double range =
      kFirstRangeInSteps * inner.learning_rate() * steps * std::max(1.0, inner.gradient_clip());
  const PrivacyTerms privacy = PrivacyTermsOf(spec.privacy());
  if (range > 0 && privacy.on()) range += kMostDeviations * privacy.Deviation(privacy.clip, 1);
  if (range > 0 && range < 1e30) terms.first_range = static_cast<float>(range);
  return terms;
}

absl::Status CheckMaskedSpec(const v1::RunSpec& spec) {
  if (!spec.privacy().masked()) return absl::OkStatus();
  const v1::ExchangeSpec& exchange = spec.exchange();
  const char* const beside =
      !exchange.aggregation().empty() && exchange.aggregation() != "mean" ? "a robust aggregation"
      : exchange.clip_bits() != 0             ? "a clip at those who average"
      : exchange.audit_share_bits() != 0      ? "audits of means"
      : exchange.error_feedback()             ? "error feedback"
      : spec.federation().weights() == "loss" ? "weights by the loss"
      : spec.federation().normalised()        ? "updates that are normalised"
      : spec.inner().control_variates()       ? "control variates"
      : spec.privacy().quantile_bits() != 0   ? "a clip that follows a quantile"
      : spec.privacy().place() == "mean"      ? "noise in the mean"
                                              : nullptr;
  if (beside == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the run's updates are masked, and it has ", beside,
      " too: the two exclude each other, and this peer would not hide what masks promise to hide"));
}

MaskRosterRule RosterRuleOf(const v1::PrivacySpec& spec) {
  MaskRosterRule rule;
  rule.threshold = std::max(kFewestInASum, spec.threshold());
  rule.fewest = std::max(rule.threshold, Planted(PlantedBug::kRosterOfFew) ? 0 : spec.roster());
  rule.closed = spec.closed();
  return rule;
}

int WeightExponentOf(absl::Span<const float> weights) {
  float most = 0;
  for (const float weight : weights) most = std::max(most, weight);
  if (!(most > 0)) return 0;
  int exponent = 0;
  const float fraction = std::frexp(most, &exponent);
  return fraction == 0.5F ? exponent - 1 : exponent;  // `most` is a power of two itself
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

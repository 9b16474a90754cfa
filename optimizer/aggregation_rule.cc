#include "optimizer/aggregation_rule.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "optimizer/aggregation_kernels.h"
#include "optimizer/robust_shares.h"

namespace atolld {
namespace {

using Kind = UpdateProducts::Kind;
using Updates = absl::Span<const absl::Span<const float>>;

constexpr uint32_t kMostFaulty = (kMostContributors - 1) / 2;

// The inputs of a rule that judges whole updates.
struct Round {
  const AggregationSettings& settings;
  const UpdateProducts& products;  // the products of the scaled updates
  absl::Span<const float> weights;
};

// Treats shares like block scales: one below 2^-100 is left out.
float ToWeight(double share) { return share < 0x1p-100 ? 0.0f : static_cast<float>(share); }

std::vector<double> SharesOf(absl::Span<const float> weights) {
  double total = 0;
  for (const float weight : weights) total = total + static_cast<double>(weight);
  std::vector<double> shares;
  for (const float weight : weights) shares.push_back(static_cast<double>(weight) / total);
  return shares;
}

void KeepWeights(const Round& round, AggregationPlan* plan) {
  plan->weights.assign(round.weights.begin(), round.weights.end());
}

void CountHeads(const Round& round, AggregationPlan* plan) {
  plan->weights.assign(round.weights.size(), 1.0f);
}

void MedianShares(const Round& round, AggregationPlan* plan) {
  for (const double share : GeometricMedianShares(round.products, SharesOf(round.weights))) {
    plan->weights.push_back(ToWeight(share));
  }
}

void ClippedShares(const Round& round, AggregationPlan* plan) {
  const std::vector<double> shares = CentredClippingShares(round.products, SharesOf(round.weights));
  for (const double share : shares) plan->weights.push_back(ToWeight(share));
  plan->centre_weight = plan->weights.back();
  plan->weights.pop_back();
}

// Keeps the weights of the updates with the least scores; among equals, those of the first.
void KeepBest(const Round& round, size_t kept, AggregationPlan* plan) {
  const std::vector<double> scores = KrumScores(round.products, round.settings.faulty);
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  plan->weights.assign(scores.size(), 0.0f);
  for (size_t k = 0; k < kept; ++k) plan->weights[order[k]] = round.weights[order[k]];
}

void KeepOne(const Round& round, AggregationPlan* plan) { KeepBest(round, 1, plan); }

// Keeps as many as the published proof is for.
void KeepMany(const Round& round, AggregationPlan* plan) {
  KeepBest(round, round.weights.size() - round.settings.faulty - 2, plan);
}

}  // namespace

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
  ASSIGN_OR_RETURN(const float factor, MeanFactor(weights));
  ScaleValues(factor, sum.size(), sum.data());
  return absl::OkStatus();
}

// The way in which a rule combines a coordinate's values.
enum class AggregationRule::Columns { kWeighted, kRanks, kSent };

struct AggregationRule::Form {
  const char* name;
  Kind needs;
  Columns columns;
  bool has_centre;
  uint32_t least_faulty;  // the least `faulty` that the rule allows
  uint32_t most_faulty;
  size_t spare;  // the rule needs 2 faulty + spare contributors
  void (*weigh)(const Round& round, AggregationPlan* plan);
};

// Sorted by name.
absl::Span<const AggregationRule::Form> AggregationRule::Forms() {
  static constexpr Form kForms[] = {
      {"centred_clipping", Kind::kProducts, Columns::kWeighted, true, 0, kMostFaulty, 1,
       ClippedShares},
      {"geometric_median", Kind::kProducts, Columns::kWeighted, false, 0, kMostFaulty, 1,
       MedianShares},
      {"krum", Kind::kProducts, Columns::kWeighted, false, 1, kMostFaulty - 1, 3, KeepOne},
      {"mean", Kind::kNone, Columns::kWeighted, false, 0, 0, 1, KeepWeights},
      {"median", Kind::kNone, Columns::kRanks, false, 0, kMostFaulty, 1, CountHeads},
      {"multi_krum", Kind::kProducts, Columns::kWeighted, false, 1, kMostFaulty - 1, 3, KeepMany},
      {"sent_mean", Kind::kNone, Columns::kSent, false, 0, 0, 1, KeepWeights},
      {"trimmed_mean", Kind::kNone, Columns::kRanks, false, 1, kMostFaulty, 1, CountHeads},
  };
  return kForms;
}

std::vector<std::string> AggregationRule::Names() {
  std::vector<std::string> names;
  for (const Form& form : Forms()) names.emplace_back(form.name);
  return names;
}

AggregationRule::AggregationRule(const Form* form, AggregationSettings settings)
    : form_(form), settings_(std::move(settings)) {}

absl::StatusOr<AggregationRule> AggregationRule::Make(const AggregationSettings& settings) {
  const auto* const form = std::find_if(Forms().begin(), Forms().end(), [&](const Form& candidate) {
    return candidate.name == settings.rule;
  });
  if (form == Forms().end()) {
    return absl::InvalidArgumentError(
        UnknownNameMessage("aggregation rule", settings.rule, Names()));
  }
  if (settings.faulty < form->least_faulty || settings.faulty > form->most_faulty) {
    return absl::InvalidArgumentError(absl::StrCat("the rule ", form->name, " takes faulty from ",
                                                   form->least_faulty, " to ", form->most_faulty,
                                                   ", not ", settings.faulty));
  }
  if (!std::isfinite(settings.clip) || settings.clip < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("clip is ", settings.clip, ", not a factor above 0, or 0 for none"));
  }
  return AggregationRule(form, settings);
}

Kind AggregationRule::needs() const {
  return form_->needs == Kind::kNone && settings_.clip > 0 ? Kind::kNorms : form_->needs;
}

bool AggregationRule::has_centre() const { return form_->has_centre; }

bool AggregationRule::coordinatewise() const { return form_->columns != Columns::kWeighted; }

size_t AggregationRule::LeastContributors() const { return 2 * settings_.faulty + form_->spare; }

absl::Status AggregationRule::CheckProducts(const UpdateProducts& products,
                                            size_t contributors) const {
  if (needs() == Kind::kNone) return absl::OkStatus();
  const size_t vectors = contributors + (has_centre() ? 1 : 0);
  if (products.kind() == needs() && products.vectors() == vectors) return products.Check();
  return absl::InvalidArgumentError(
      absl::StrCat("sums of ", products.vectors(), " vectors, where the rule ", form_->name,
                   " takes ", needs() == Kind::kNorms ? "norms" : "products", " of ", vectors));
}

UpdateProducts AggregationRule::Clip(const UpdateProducts& products, double reference_norm,
                                     AggregationPlan* plan) const {
  if (settings_.clip == 0) return products;
  std::vector<double> norms;
  for (size_t i = 0; i < plan->scales.size(); ++i) norms.push_back(products.Norm(i));
  const double reference = reference_norm > 0 ? reference_norm : LowerMedian(norms);
  plan->scales = ClipScales(norms, settings_.clip * reference);
  std::vector<double> factors(plan->scales.begin(), plan->scales.end());
  factors.resize(products.vectors(), 1.0);  // the centre's factor
  return products.Scaled(factors);
}

absl::StatusOr<AggregationPlan> AggregationRule::Plan(absl::Span<const float> weights,
                                                      const UpdateProducts& products,
                                                      double reference_norm) const {
  const size_t n = weights.size();
  if (n < LeastContributors() || n > kMostContributors) {
    return absl::InvalidArgumentError(
        absl::StrCat("the rule ", form_->name, " with faulty = ", settings_.faulty, " takes ",
                     LeastContributors(), " to ", kMostContributors, " updates, not ", n));
  }
  absl::Status status = MeanFactor(weights).status();
  status.Update(CheckProducts(products, n));
  if (!status.ok()) return status;
  if (!std::isfinite(reference_norm) || reference_norm < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the reference norm is ", reference_norm, ", not finite and 0 or more"));
  }
  AggregationPlan plan;
  plan.scales.assign(n, 1.0f);
  const UpdateProducts scaled = Clip(products, reference_norm, &plan);
  form_->weigh({settings_, scaled, weights}, &plan);
  return plan;
}

absl::Status AggregationRule::Combine(const AggregationPlan& plan, Updates updates,
                                      absl::Span<const float> centre,
                                      absl::Span<float> mean) const {
  if (updates.size() != plan.weights.size() || updates.size() != plan.scales.size() ||
      updates.size() > kMostContributors) {
    return absl::InvalidArgumentError(absl::StrCat(updates.size(), " updates for a plan of ",
                                                   plan.weights.size(), " contributors"));
  }
  for (size_t i = 0; i < updates.size(); ++i) {
    if (updates[i].empty() || updates[i].size() == mean.size()) continue;
    return absl::InvalidArgumentError(absl::StrCat("update ", i, " has ", updates[i].size(),
                                                   " values in a chunk of ", mean.size()));
  }
  if (!centre.empty() && centre.size() != mean.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the centre has ", centre.size(), " values in a chunk of ", mean.size()));
  }
  switch (form_->columns) {
    case Columns::kRanks:
      return CombineRanks(plan, updates, mean);
    case Columns::kSent:
      return CombineSent(plan, updates, mean);
    case Columns::kWeighted:
      break;
  }
  return CombineWeighted(plan, updates, centre, mean);
}

absl::Status AggregationRule::CombineWeighted(const AggregationPlan& plan, Updates updates,
                                              absl::Span<const float> centre,
                                              absl::Span<float> mean) const {
  std::vector<ScaledRow> rows;
  std::vector<float> weights;
  for (size_t i = 0; i < updates.size(); ++i) {
    if (updates[i].empty() || plan.weights[i] == 0) continue;
    weights.push_back(plan.weights[i]);
    const float coefficient = plan.Coefficient(i);
    if (coefficient != 0) rows.push_back({updates[i].data(), coefficient});
  }
  if (plan.centre_weight != 0) {
    weights.push_back(plan.centre_weight);
    if (!centre.empty()) rows.push_back({centre.data(), plan.centre_weight});
  }
  ASSIGN_OR_RETURN(const float factor, MeanFactor(weights));
  WeightedSum(rows.data(), rows.size(), factor, mean.size(), mean.data());
  return absl::OkStatus();
}

absl::Status AggregationRule::CombineRanks(const AggregationPlan& plan, Updates updates,
                                           absl::Span<float> mean) const {
  std::vector<ScaledRow> rows;
  for (size_t i = 0; i < updates.size(); ++i) {
    if (updates[i].empty() || plan.weights[i] == 0) continue;
    rows.push_back({updates[i].data(), plan.scales[i]});
  }
  const size_t n = rows.size();
  if (n < LeastContributors()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the rule ", form_->name, " with faulty = ", settings_.faulty, " takes ",
                     LeastContributors(), " updates of a chunk, ", n, " are here"));
  }
  const bool trims = form_->least_faulty > 0;
  const size_t first = trims ? settings_.faulty : (n - 1) / 2;
  MeanOfRanks(rows.data(), n, SelectionNetwork(n, first, n - first), first, n - first, mean.size(),
              mean.data());
  return absl::OkStatus();
}

absl::Status AggregationRule::CombineSent(const AggregationPlan& plan, Updates updates,
                                          absl::Span<float> mean) const {
  std::vector<SentRow> rows;
  for (size_t i = 0; i < updates.size(); ++i) {
    if (updates[i].empty() || plan.weights[i] == 0) continue;
    rows.push_back({updates[i].data(), plan.Coefficient(i), plan.weights[i]});
  }
  if (rows.empty()) return absl::InvalidArgumentError("no update of a chunk is here");
  MeanOfSent(rows.data(), rows.size(), mean.size(), mean.data());
  return absl::OkStatus();
}

}  // namespace atolld

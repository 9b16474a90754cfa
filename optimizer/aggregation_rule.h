// AggregationRule: how the updates of a round become one mean, and what a liar among them can do.
//
// It works in three steps, of which the first two are for rules that judge whole updates (needs()):
//   1. each reducer adds up norms or products of its chunks (UpdateProducts), and those of all
//      shards are added in the order of the plan: a few doubles, no parameters;
//   2. Plan: one pure function of those sums gives each contributor a weight and a scale;
//   3. Combine, chunk by chunk: the weighted mean, or, for coordinatewise() rules, a mean of ranks.
// Anybody who has the chunks repeats all of it and gets the same bits (docs/aggregation.md): fp32
// and double operations rounded one by one, in roster order; no FMA, no libm but square roots.
//
// Rules: mean; trimmed_mean, median, sent_mean (coordinate by coordinate); geometric_median,
// centred_clipping, krum, multi_krum (by whole updates). Each may be preceded by clipping to the
// median norm. Values are finite: codecs refuse others. Immutable; any thread, on disjoint chunks
// at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "optimizer/update_products.h"

namespace atolld {

// The weighted mean of one chunk, as arithmetic that anybody can repeat:
//
//   sum[i]  = +0, then for each contributor in roster order: sum[i] = sum[i] + w * value[i]
//   total   = +0, then for each contributor in roster order: total = total + w
//   mean[i] = sum[i] * (1 / total)
//
// All in fp32, each operation rounded to nearest even on its own: no fused multiply-add, no double,
// no other order. An independent program recomputes the mean from the header's contributors and
// weights and gets the same bits.
//
// Codec::DecodeSum does all of it with MeanFactor(weights); where not all chunks are of one codec,
// or a centre is added, it makes the sum alone, the others follow by Codec::DecodeAccumulate, and
// FinishMean ends it.

// 1 / total. INVALID_ARGUMENT if there are no weights, if one is not finite and above 0, or if 1 /
// total is not a normal number (totals of about 1e38 or 1e-38).
absl::StatusOr<float> MeanFactor(absl::Span<const float> weights);

// Turns the sum into the mean: sum[i] = sum[i] * MeanFactor(weights); `weights` are those of the
// contributors that were accumulated, in the same order. Nothing is changed on error. A sum that
// overflowed stays infinite: encoding refuses it.
absl::Status FinishMean(absl::Span<const float> weights, absl::Span<float> sum);

struct AggregationSettings {
  std::string rule = "mean";
  // How many liars a round must bear: what trimmed_mean, krum and multi_krum are made for, and what
  // the others but mean ask of the number of contributors.
  uint32_t faulty = 0;
  // Updates longer than clip x the median norm are scaled down to it, before the rule; 0: none are.
  double clip = 0;
};

// What a round's scalars have decided.
struct AggregationPlan {
  std::vector<float> weights;  // one a contributor; 0: left out
  std::vector<float> scales;   // from 0 to 1: what its update is multiplied by
  float centre_weight = 0;     // of the centre, whose scale is 1

  // What a contributor's values are multiplied by in the sum of a weighted mean, as fp32.
  float Coefficient(size_t contributor) const { return weights[contributor] * scales[contributor]; }
};

class AggregationRule {
 public:
  // INVALID_ARGUMENT if the name is unknown (with the nearest one) or a value makes no sense.
  static absl::StatusOr<AggregationRule> Make(const AggregationSettings& settings);
  static std::vector<std::string> Names();

  const AggregationSettings& settings() const { return settings_; }

  // What Plan takes.
  UpdateProducts::Kind needs() const;

  // Whether there is one vector more in the products, the last: the centre, which is the mean of
  // the round before, or nothing (zeros) before the first.
  bool has_centre() const;

  // Whether Combine must see all updates of a chunk at once. Of any other rule a mean can be made
  // one update after another, as MeanFactor says: sum = sum + Coefficient x value for each
  // whose coefficient is above 0, the centre last, and FinishMean with the weights above 0.
  bool coordinatewise() const;

  // The fewest contributors among whom `faulty` liars cannot prevail; at least 1.
  size_t LeastContributors() const;

  // `weights` are the contributors', finite and above 0, in roster order. Where rules judge, a
  // weight tells how much an update counts if it is believed: mean, geometric_median (which bears
  // less than half of the *weight* in lies), centred_clipping and multi_krum use it; trimmed_mean
  // and median count heads, as Yin et al. 2018 have it, so a weight that somebody claims buys
  // nothing.
  //
  // `products` are of needs() and of whole updates: who lacks a chunk is none of the contributors.
  // `reference_norm`: what is clipped to, if not 0, instead of this round's median norm.
  // INVALID_ARGUMENT if there are too few contributors or more than kMostContributors, or if
  // weights or sums make no sense.
  absl::StatusOr<AggregationPlan> Plan(absl::Span<const float> weights,
                                       const UpdateProducts& products,
                                       double reference_norm = 0) const;

  // The mean of one chunk. `updates`: a span a contributor of the plan, as long as `mean`, or empty
  // if its chunk is not here; `centre`: as long, or empty for zeros.
  //
  // Weighted rules: the mean of MeanFactor over those that are here and the centre, each value
  // times its Coefficient, over the sum of the weights; sums of it that overflow stay infinite, and
  // encoding refuses them. Coordinatewise rules: in each coordinate the plain mean of the scaled
  // values of those that are here and not left out, without the `faulty` least and the `faulty`
  // greatest; the median without all but the middle one or two; sent_mean the weighted mean of
  // those that are not zeros.
  //
  // INVALID_ARGUMENT if sizes differ, or too few are here; `mean` is unchanged then.
  absl::Status Combine(const AggregationPlan& plan,
                       absl::Span<const absl::Span<const float>> updates,
                       absl::Span<const float> centre, absl::Span<float> mean) const;

 private:
  enum class Columns;
  struct Form;  // what a rule is, as a row of the table of all
  static absl::Span<const Form> Forms();

  AggregationRule(const Form* form, AggregationSettings settings);

  absl::Status CheckProducts(const UpdateProducts& products, size_t contributors) const;
  // Sets the plan's scales, and returns the products of the scaled updates.
  UpdateProducts Clip(const UpdateProducts& products, double reference_norm,
                      AggregationPlan* plan) const;
  absl::Status CombineWeighted(const AggregationPlan& plan,
                               absl::Span<const absl::Span<const float>> updates,
                               absl::Span<const float> centre, absl::Span<float> mean) const;
  absl::Status CombineRanks(const AggregationPlan& plan,
                            absl::Span<const absl::Span<const float>> updates,
                            absl::Span<float> mean) const;
  absl::Status CombineSent(const AggregationPlan& plan,
                           absl::Span<const absl::Span<const float>> updates,
                           absl::Span<float> mean) const;

  const Form* form_;
  AggregationSettings settings_;
};

}  // namespace atolld

// AggregationRule: combines the updates of a round to one mean, and limits how much a lying
// contributor can change it.
//
// A rule works in three steps. Only rules that judge whole updates have the first two (needs()):
//   1. Each reducer adds up norms or products of its chunks (UpdateProducts). Those of all shards
//      are added in the order of the plan. They are a few doubles, and contain no parameters.
//   2. Plan, a pure function of those sums, gives each contributor a weight and a scale.
//   3. Combine computes, chunk by chunk, the weighted mean or, for coordinatewise() rules, a
//      mean of ranks.
// Anyone who has the chunks can repeat all steps and get the same bits (docs/aggregation.md). The
// arithmetic is fp32 and double operations rounded one by one, in roster order, without FMA and
// without libm functions other than square roots.
//
// The rules are mean; trimmed_mean, median and sent_mean, which work coordinate by coordinate; and
// geometric_median, centred_clipping, krum and multi_krum, which judge whole updates. In each of
// them updates may be clipped to the median norm first. All values are finite, because codecs
// refuse others. A rule is immutable, therefore thread-safe; several threads may work on disjoint
// chunks at once.
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

// The weighted mean of one chunk is defined so that anyone can repeat the arithmetic:
//
//   sum[i]  = +0, then for each contributor in roster order: sum[i] = sum[i] + w * value[i]
//   total   = +0, then for each contributor in roster order: total = total + w
//   mean[i] = sum[i] * (1 / total)
//
// Everything is in fp32 and in this order, and each operation is rounded to nearest even on its
// own, without fused multiply-add or double. An independent program can recompute the mean from the
// contributors and weights in the header and get the same bits.
//
// Codec::DecodeSum computes this mean if it is given MeanFactor(weights). If the chunks use several
// codecs, or a centre is added, DecodeSum computes only the sum of its chunks,
// Codec::DecodeAccumulate adds the others, and FinishMean turns the sum into the mean.

// Returns 1 / total. Fails with INVALID_ARGUMENT if there are no weights, if a weight is not finite
// and above 0, or if 1 / total is not a normal number (because the total is about 1e38 or 1e-38).
absl::StatusOr<float> MeanFactor(absl::Span<const float> weights);

// Turns the sum into the mean: sum[i] = sum[i] * MeanFactor(weights). `weights` has the weights of
// the contributors whose values were added, in the same order. Changes nothing on error. A sum that
// overflowed remains infinite, so that encoding refuses it.
absl::Status FinishMean(absl::Span<const float> weights, absl::Span<float> sum);

struct AggregationSettings {
  std::string rule = "mean";
  // The number of lying contributors that a round must withstand. trimmed_mean, krum and multi_krum
  // compute with this number; for the other rules except mean it only determines the least number
  // of contributors.
  uint32_t faulty = 0;
  // If not 0, updates longer than clip x the median norm are scaled down to that length before the
  // rule is applied.
  double clip = 0;
};

// The result of judging a round's updates.
struct AggregationPlan {
  std::vector<float> weights;  // one per contributor; 0 if it is left out
  std::vector<float> scales;   // one per contributor: the factor, from 0 to 1, of its update
  float centre_weight = 0;     // the weight of the centre, whose scale is 1

  // The fp32 factor of a contributor's values in the sum of a weighted mean.
  float Coefficient(size_t contributor) const { return weights[contributor] * scales[contributor]; }
};

class AggregationRule {
 public:
  // Fails with INVALID_ARGUMENT if the name is unknown (the message gives the nearest one) or if a
  // value is invalid.
  static absl::StatusOr<AggregationRule> Make(const AggregationSettings& settings);
  static std::vector<std::string> Names();

  const AggregationSettings& settings() const { return settings_; }

  // The kind of products that Plan needs.
  UpdateProducts::Kind needs() const;

  // True if the products have one more vector after the updates, which is the centre. The centre is
  // the mean of the previous round, or zeros before the first.
  bool has_centre() const;

  // True if Combine must see all updates of a chunk at once. For any other rule the mean can be
  // computed one update after another: add Coefficient x value for each contributor with a
  // coefficient above 0, then add the centre, then call FinishMean with the weights that are above
  // 0.
  bool coordinatewise() const;

  // Returns the fewest contributors among which `faulty` liars cannot prevail; at least 1.
  size_t LeastContributors() const;

  // Judges a round's updates. `weights` has the contributors' weights in roster order, which must
  // be finite and above 0. A weight says how much an update counts if the rule believes it. mean,
  // geometric_median (which withstands lies of less than half of the *weight*), centred_clipping
  // and multi_krum use it. trimmed_mean and median count every contributor once, as in Yin et al.
  // 2018, so claiming a greater weight gains nothing.
  //
  // `products` must be of the kind needs() and cover whole updates: an update that lacks a chunk
  // does not count as a contributor. If `reference_norm` is not 0, updates are clipped relative to
  // it instead of relative to this round's median norm. Fails with INVALID_ARGUMENT if there are
  // too few contributors, if there are more than kMostContributors, or if weights or sums are
  // invalid.
  absl::StatusOr<AggregationPlan> Plan(absl::Span<const float> weights,
                                       const UpdateProducts& products,
                                       double reference_norm = 0) const;

  // Computes the mean of one chunk. `updates` has one span for each contributor of the plan; a span
  // is as long as `mean`, or empty if that contributor's chunk is missing. `centre` is as long as
  // `mean`, or empty for zeros.
  //
  // Weighted rules compute the weighted mean over the chunks that are present and the centre: each
  // value is multiplied by its Coefficient, and the sum is divided by the sum of the weights. Sums
  // that overflow remain infinite, so that encoding refuses them. In each coordinate,
  // coordinatewise rules compute the plain mean of the scaled values that are present and not left
  // out, without the `faulty` least and the `faulty` greatest; median keeps only the middle one or
  // two. sent_mean computes the weighted mean of the values that are not zero.
  //
  // Fails with INVALID_ARGUMENT, and leaves `mean` unchanged, if sizes differ or too few chunks are
  // present.
  absl::Status Combine(const AggregationPlan& plan,
                       absl::Span<const absl::Span<const float>> updates,
                       absl::Span<const float> centre, absl::Span<float> mean) const;

 private:
  enum class Columns;
  struct Form;  // the properties of one rule
  static absl::Span<const Form> Forms();

  AggregationRule(const Form* form, AggregationSettings settings);

  absl::Status CheckProducts(const UpdateProducts& products, size_t contributors) const;
  // Sets the plan's scales and returns the products of the scaled updates.
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

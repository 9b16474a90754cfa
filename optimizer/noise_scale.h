// NoiseScale: estimates the number of tokens a round above which more peers hardly help any more.
// It uses only the lengths of a round's updates and the length of their mean.
//
// This is the gradient noise scale of McCandlish et al. 2018 (arXiv:1812.06162, appendix A.1), with
// a peer's update in place of a gradient. The updates of a round are treated as samples of
//   x_i = h_i (G + n_i),  E n_i = 0,  E |n_i|^2 = S / B_i
// B_i is the number of tokens behind update i, h_i its length without noise divided by the mean of
// these lengths, G the mean update that there would be without noise, and S the noise at one token.
// With shares p_i that add up to 1, and sum of p_i h_i = 1,
//   a = sum of p_i |x_i|^2    E a = |G|^2 sum of p_i h_i^2 + S sum of p_i h_i^2 / B_i
//   b = |sum of p_i x_i|^2    E b = |G|^2                  + S sum of p_i^2 h_i^2 / B_i
// are two equations for |G|^2 and S. If all lengths and tokens are equal they are the equations of
// the paper, with B_small = B and B_big = M B. The estimates of a single round vary a lot and may
// be negative, so their ratio means nothing. The noise scale is the ratio of their running means, S
// / |G|^2, in tokens. Pure. Used by one thread.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/types/span.h"

namespace atolld {

// One update in the form in which it entered the mean, after it was scaled.
struct NoiseSample {
  double weight = 0;  // above 0; a share is the weight divided by the sum of all weights
  double squared_norm = 0;
  double tokens = 0;
  // The length without noise, in any unit: the update's inner steps x the factor by which it was
  // scaled.
  double length = 0;
};

// The estimate from one round. It is unbiased, and its values may be negative.
struct NoiseEstimate {
  double squared_gradient = 0;  // |G|^2
  double noise = 0;             // S, in tokens x the unit of |G|^2
};

// Returns the estimate from one round. Returns nullopt if there are fewer than two updates, if an
// update has no tokens, length or weight, if a figure is not finite, or if the weights are so
// unequal that the mean nearly equals one update.
std::optional<NoiseEstimate> EstimateNoise(absl::Span<const NoiseSample> samples,
                                           double squared_mean);

class NoiseScale {
 public:
  // Adds the estimate of the next round. Older rounds count less and less, so that the running
  // means are mostly made up of the last ten rounds.
  void Note(const NoiseEstimate& estimate);

  uint64_t rounds() const { return rounds_; }
  // True if the running mean of the quantity is positive. It may not be positive while noise hides
  // the quantity.
  bool gradient_seen() const { return mean_.squared_gradient > 0; }
  bool noise_seen() const { return mean_.noise > 0; }
  // Returns S / |G|^2, or nullopt until both running means are positive.
  std::optional<double> tokens() const;

 private:
  NoiseEstimate mean_;  // the means times 1 - kKeep^rounds, which cancels in the ratio
  uint64_t rounds_ = 0;
};

}  // namespace atolld

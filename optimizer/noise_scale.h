// NoiseScale: with how many tokens a round more peers stop helping, told by nothing but how long
// the updates of a round are and how long their mean is.
//
// The gradient noise scale of McCandlish et al. 2018 (arXiv:1812.06162, appendix A.1), with a
// peer's update for a gradient. The updates of a round are taken for samples of
//   x_i = h_i (G + n_i),  E n_i = 0,  E |n_i|^2 = S / B_i
// with B_i the tokens behind update i, h_i its length without noise over the mean one, G the mean
// update that there would be without noise, and S the noise at one token. With shares p_i that add
// up to 1, and sum of p_i h_i = 1,
//   a = sum of p_i |x_i|^2    E a = |G|^2 sum of p_i h_i^2 + S sum of p_i h_i^2 / B_i
//   b = |sum of p_i x_i|^2    E b = |G|^2                  + S sum of p_i^2 h_i^2 / B_i
// are two equations for |G|^2 and S. For equal lengths and tokens they are the paper's, with
// B_small = B and B_big = M B. A round's estimates scatter, and may be negative; their ratio means
// nothing. The noise scale is the ratio of their running means, S / |G|^2, in tokens. Pure; one
// thread.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/types/span.h"

namespace atolld {

// One update as it was averaged: after it was scaled down.
struct NoiseSample {
  double weight = 0;  // > 0; shares are weights over their sum
  double squared_norm = 0;
  double tokens = 0;
  double length = 0;  // without noise, in any unit: its inner steps x what it was scaled by
};

// Of one round; unbiased, of either sign.
struct NoiseEstimate {
  double squared_gradient = 0;  // |G|^2
  double noise = 0;             // S, tokens x the same unit
};

// Nothing: fewer than two updates, one of no tokens, length or weight, a figure that is not finite,
// or updates that count so unequally that the mean is as good as one of them.
std::optional<NoiseEstimate> EstimateNoise(absl::Span<const NoiseSample> samples,
                                           double squared_mean);

class NoiseScale {
 public:
  // The next round's. Older ones count less and less: about the last ten make the means.
  void Note(const NoiseEstimate& estimate);

  uint64_t rounds() const { return rounds_; }
  // The means' signs; a sum of estimates is not positive while noise hides it.
  bool gradient_seen() const { return mean_.squared_gradient > 0; }
  bool noise_seen() const { return mean_.noise > 0; }
  // S / |G|^2; nothing until both are seen.
  std::optional<double> tokens() const;

 private:
  NoiseEstimate mean_;  // times 1 - kKeep^rounds, which the ratio does not see
  uint64_t rounds_ = 0;
};

}  // namespace atolld

#include "optimizer/noise_scale.h"

#include <cmath>

namespace atolld {
namespace {

// The factor by which the running means decay each round. Single estimates scatter by their own
// size, and the noise scale grows over a run, so neither one round nor all of them will do.
constexpr double kKeep = 0.9;
// The determinant of the two equations over its first product. Equal updates have 1 - 1/M; below
// this one update has nearly all the weight, and rounding would be taken for noise.
constexpr double kLeastSeparation = 0.01;

}  // namespace

std::optional<NoiseEstimate> EstimateNoise(absl::Span<const NoiseSample> samples,
                                           double squared_mean) {
  if (samples.size() < 2) return std::nullopt;
  double weights = 0;
  double lengths = 0;
  for (const NoiseSample& sample : samples) {
    if (!(sample.weight > 0) || !(sample.tokens > 0) || !(sample.length > 0)) return std::nullopt;
    weights += sample.weight;
    lengths += sample.weight * sample.length;
  }
  const double mean_length = lengths / weights;
  double a = 0;
  double gradient_in_a = 0;
  double noise_in_a = 0;
  double noise_in_b = 0;
  for (const NoiseSample& sample : samples) {
    const double share = sample.weight / weights;
    const double length = sample.length / mean_length;
    a += share * sample.squared_norm;
    gradient_in_a += share * length * length;
    noise_in_a += share * length * length / sample.tokens;
    noise_in_b += share * share * length * length / sample.tokens;
  }
  const double determinant = noise_in_a - gradient_in_a * noise_in_b;
  if (!(determinant > kLeastSeparation * noise_in_a)) return std::nullopt;
  NoiseEstimate estimate;
  estimate.noise = (a - gradient_in_a * squared_mean) / determinant;
  estimate.squared_gradient = squared_mean - noise_in_b * estimate.noise;
  if (!std::isfinite(estimate.noise) || !std::isfinite(estimate.squared_gradient)) {
    return std::nullopt;
  }
  return estimate;
}

void NoiseScale::Note(const NoiseEstimate& estimate) {
  mean_.squared_gradient = kKeep * mean_.squared_gradient + (1 - kKeep) * estimate.squared_gradient;
  mean_.noise = kKeep * mean_.noise + (1 - kKeep) * estimate.noise;
  ++rounds_;
}

std::optional<double> NoiseScale::tokens() const {
  if (!gradient_seen() || !noise_seen()) return std::nullopt;
  const double tokens = mean_.noise / mean_.squared_gradient;
  if (!std::isfinite(tokens)) return std::nullopt;
  return tokens;
}

}  // namespace atolld

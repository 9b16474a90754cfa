#include "worker/model/rotary.h"

#include <algorithm>
#include <cmath>

namespace atolld {
namespace {

constexpr double kCircle = 6.283185307179586;  // 2 pi

// Frequencies that turn often within the original context stay, slow ones are divided by the
// factor, and between the two bounds the share that stays grows with the number of turns.
std::vector<double> Llama3Factors(const DecoderShape& shape, double theta, uint64_t width) {
  std::vector<double> factors;
  for (uint64_t i = 0; i < width; i += 2) {
    const double exponent = static_cast<double>(i) / static_cast<double>(width);
    const double turns = shape.rope_context * std::pow(theta, -exponent) / kCircle;
    const double kept =
        std::clamp((turns - shape.rope_low) / (shape.rope_high - shape.rope_low), 0.0, 1.0);
    factors.push_back((1 - kept) / shape.rope_factor + kept);
  }
  return factors;
}

// The same, where the share depends on the pair's number.
std::vector<double> YarnFactors(const DecoderShape& shape, double theta, uint64_t width) {
  const auto size = static_cast<double>(width);
  // The pair that turns so often within the first context; not whole.
  const auto pair_of = [&](double turns) {
    return size * std::log(shape.rope_context / (turns * kCircle)) / (2 * std::log(theta));
  };
  const double low = std::max(std::floor(pair_of(shape.rope_high)), 0.0);
  double high = std::min(std::ceil(pair_of(shape.rope_low)), size - 1);
  constexpr double kApart = 0.001;  // transformers': no division by 0
  if (low == high) high += kApart;
  std::vector<double> factors;
  for (uint64_t pair = 0; pair < width / 2; ++pair) {
    const double slowed = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
    factors.push_back(slowed / shape.rope_factor + (1 - slowed));
  }
  return factors;
}

}  // namespace

std::vector<double> RotaryFactors(const DecoderShape& shape, double theta, uint64_t width) {
  if (shape.rope_scaling == "linear") return std::vector<double>(width / 2, 1 / shape.rope_factor);
  if (shape.rope_scaling == "llama3") return Llama3Factors(shape, theta, width);
  if (shape.rope_scaling == "yarn") return YarnFactors(shape, theta, width);
  return {};
}

double RotaryScale(const DecoderShape& shape) {
  if (shape.rope_scaling != "yarn") return 1;
  if (shape.rope_attention != 0) return shape.rope_attention;
  return 0.1 * std::log(shape.rope_factor) + 1;  // of the paper, equation 22
}

}  // namespace atolld

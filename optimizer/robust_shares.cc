#include "optimizer/robust_shares.h"

#include <algorithm>
#include <cmath>

namespace atolld {
namespace {

constexpr int kWeiszfeldIterations = 32;
// Negligible beside any update that fp32 can hold, whose norm is below 2^160.
constexpr double kLeastDistance = 0x1p-200;
constexpr double kLeastScale = 0x1p-100;

// Divides the shares by their sum, which is added up in order.
void Normalise(std::vector<double>* shares) {
  double total = 0;
  for (const double share : *shares) total = total + share;
  for (double& share : *shares) share = share / total;
}

// Returns |x_i - v| for each vector i, where v = sum of coefficients[j] x_j.
std::vector<double> DistancesFrom(const UpdateProducts& products,
                                  absl::Span<const double> coefficients) {
  const size_t n = products.vectors();
  std::vector<double> along(n, 0.0);  // x_i . v
  double square = 0;                  // v . v
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) along[i] = along[i] + coefficients[j] * products.Product(i, j);
  }
  for (size_t i = 0; i < n; ++i) square = square + coefficients[i] * along[i];
  std::vector<double> distances(n);
  for (size_t i = 0; i < n; ++i) {
    const double squared = (products.SquaredNorm(i) - 2.0 * along[i]) + square;
    distances[i] = squared > 0 ? std::sqrt(squared) : 0;
  }
  return distances;
}

}  // namespace

double LowerMedian(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<float> ClipScales(absl::Span<const double> norms, double limit) {
  std::vector<float> scales;
  scales.reserve(norms.size());
  for (const double norm : norms) {
    const double scale = norm <= limit ? 1.0 : limit / norm;
    scales.push_back(scale < kLeastScale ? 0.0f : static_cast<float>(scale));
  }
  return scales;
}

std::vector<double> KrumScores(const UpdateProducts& products, size_t faulty) {
  const size_t n = products.vectors();
  const size_t neighbours = n - faulty - 2;
  std::vector<double> scores(n, 0.0);
  for (size_t i = 0; i < n; ++i) {
    std::vector<double> distances;
    for (size_t j = 0; j < n; ++j) {
      if (j != i) distances.push_back(products.SquaredDistance(i, j));
    }
    std::sort(distances.begin(), distances.end());
    for (size_t k = 0; k < neighbours; ++k) scores[i] = scores[i] + distances[k];
  }
  return scores;
}

std::vector<double> GeometricMedianShares(const UpdateProducts& products,
                                          absl::Span<const double> shares) {
  const size_t n = shares.size();
  std::vector<double> norms(n), distances(n);
  for (size_t i = 0; i < n; ++i) {
    norms[i] = products.Norm(i);
    std::vector<double> others;
    for (size_t j = 0; j < n; ++j) {
      if (j != i) others.push_back(std::sqrt(products.SquaredDistance(i, j)));
    }
    distances[i] = LowerMedian(std::move(others));
  }
  const double rounding = std::max(0x1p-22 * LowerMedian(norms), kLeastDistance);
  const double nu = std::max(0x1p-16 * LowerMedian(distances), rounding);
  std::vector<double> result(n);
  for (int iteration = 0;; ++iteration) {
    for (size_t i = 0; i < n; ++i) result[i] = shares[i] / std::max(nu, distances[i]);
    Normalise(&result);
    if (iteration == kWeiszfeldIterations) return result;
    distances = DistancesFrom(products, result);
  }
}

std::vector<double> CentredClippingShares(const UpdateProducts& products,
                                          absl::Span<const double> shares) {
  const size_t n = shares.size();
  std::vector<double> result(n + 1, 0.0);
  result[n] = 1;
  std::vector<double> distances = DistancesFrom(products, result);
  distances.pop_back();  // the centre's distance
  const double tau = LowerMedian(distances);
  double pulled = 0;
  for (size_t i = 0; i < n; ++i) {
    result[i] = distances[i] <= tau ? shares[i] : shares[i] * (tau / distances[i]);
    pulled = pulled + result[i];
  }
  // Rounding may make the sum a little more than 1.
  result[n] = std::max(0.0, 1.0 - pulled);
  return result;
}

}  // namespace atolld

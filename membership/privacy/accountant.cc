#include "membership/privacy/accountant.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace atolld {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;
// Runs have few kinds of rounds; whoever has more has each computed anew.
constexpr size_t kMostKnown = 4096;
// A term of a series so far below the sum no longer changes it.
constexpr double kNegligible = -40;

// Finely where one round spends much, coarsely where thousands spend little.
std::vector<double> Orders() {
  std::vector<double> orders;
  for (int tenth = 11; tenth < 110; ++tenth) orders.push_back(tenth / 10.0);
  for (int whole = 11; whole < 64; ++whole) orders.push_back(whole);
  for (const double whole : {64, 80, 96, 128, 192, 256, 384, 512, 768, 1024})
    orders.push_back(whole);
  return orders;
}

const std::vector<double>& AllOrders() {
  static const std::vector<double>& orders = *new std::vector<double>(Orders());
  return orders;
}

// log(exp(a) + exp(b))
double LogAdd(double a, double b) {
  const double high = std::max(a, b);
  if (high == -kInfinity) return high;
  return high + std::log1p(std::exp(std::min(a, b) - high));
}

// log(exp(a) - exp(b)); -infinity where b is not below a.
double LogSubtract(double a, double b) {
  if (b >= a) return -kInfinity;
  return a + std::log1p(-std::exp(b - a));
}

// log(erfc(x)); by its asymptotic series (Abramowitz and Stegun, 7.1.23) where erfc leaves doubles.
double LogErfc(double x) {
  if (x < 20) return std::log(std::erfc(x));
  const double inverse = 1 / (2 * x * x);
  const double series = 1 - inverse * (1 - 3 * inverse * (1 - 5 * inverse));
  return -x * x - std::log(x * std::sqrt(kPi)) + std::log(series);
}

double LogBinomial(double n, double k) {
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
}

double LogOfWhole(double order, double sampling, double noise) {
  double sum = -kInfinity;
  for (double k = 0; k <= order; ++k) {
    sum = LogAdd(sum, LogBinomial(order, k) + k * std::log(sampling) +
                          (order - k) * std::log1p(-sampling) + (k * k - k) / (2 * noise * noise));
  }
  return sum;
}

// Terms alternate in sign once their index has passed the order: what is added and what is taken
// away are summed apart.
double LogOfBroken(double order, double sampling, double noise) {
  const double split = noise * noise * std::log(1 / sampling - 1) + 0.5;
  const double scale = std::sqrt(2.0) * noise;
  double added = -kInfinity;
  double taken = -kInfinity;
  double log_binomial = 0;  // of |binomial(order, i)|
  bool negative = false;
  for (double i = 0;; ++i) {
    const double j = order - i;
    const double low = log_binomial + i * std::log(sampling) + j * std::log1p(-sampling) +
                       (i * i - i) / (2 * noise * noise) + LogErfc((i - split) / scale) -
                       std::log(2.0);
    const double high = log_binomial + j * std::log(sampling) + i * std::log1p(-sampling) +
                        (j * j - j) / (2 * noise * noise) + LogErfc((split - j) / scale) -
                        std::log(2.0);
    double& sum = negative ? taken : added;
    sum = LogAdd(sum, LogAdd(low, high));
    if (i > order && std::max(low, high) < added + kNegligible) break;
    log_binomial += std::log(std::fabs(order - i)) - std::log(i + 1);
    if (order - i < 0) negative = !negative;
  }
  return LogSubtract(added, taken);
}

}  // namespace

double RdpOfRound(double order, double sampling, double noise) {
  if (!(noise > 0)) return kInfinity;
  if (std::isinf(noise)) return 0;
  if (sampling >= 1) return order / (2 * noise * noise);
  const double log_a = order == std::floor(order) ? LogOfWhole(order, sampling, noise)
                                                  : LogOfBroken(order, sampling, noise);
  return std::max(0.0, log_a / (order - 1));
}

double EpsilonOf(absl::Span<const double> orders, absl::Span<const double> rdp, double delta) {
  double least = kInfinity;
  for (size_t i = 0; i < orders.size(); ++i) {
    const double a = orders[i];
    least =
        std::min(least, rdp[i] + std::log1p(-1 / a) - (std::log(delta) + std::log(a)) / (a - 1));
  }
  return std::max(0.0, least);
}

PrivacyAccountant::PrivacyAccountant() : spent_(AllOrders().size(), 0) {}

const std::vector<double>& PrivacyAccountant::OfRound(double sampling, double noise) const {
  if (known_.size() >= kMostKnown) known_.clear();
  std::vector<double>& rdp = known_[{sampling, noise}];
  if (rdp.empty()) {
    for (const double order : AllOrders()) rdp.push_back(RdpOfRound(order, sampling, noise));
  }
  return rdp;
}

void PrivacyAccountant::Add(double sampling, double noise, double rounds) {
  const std::vector<double>& rdp = OfRound(sampling, noise);
  for (size_t i = 0; i < spent_.size(); ++i) spent_[i] += rounds * rdp[i];
}

double PrivacyAccountant::Epsilon(double delta) const {
  const bool none = *std::max_element(spent_.begin(), spent_.end()) <= 0;
  return none ? 0 : EpsilonOf(AllOrders(), spent_, delta);
}

double PrivacyAccountant::EpsilonAfter(double sampling, double noise, double rounds,
                                       double delta) const {
  PrivacyAccountant after;
  after.spent_ = spent_;
  const std::vector<double>& rdp = OfRound(sampling, noise);
  for (size_t i = 0; i < spent_.size(); ++i) after.spent_[i] += rounds * rdp[i];
  return after.Epsilon(delta);
}

}  // namespace atolld

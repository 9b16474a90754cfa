#include "membership/privacy/accountant.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace atolld {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;
// Runs have few kinds of rounds. With more than this, each further kind is computed anew.
constexpr size_t kMostKnown = 4096;

// The orders are dense where one round spends much, and sparse where thousands of rounds spend
// little.
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

// Returns log(exp(a) + exp(b)).
double LogAdd(double a, double b) {
  const double high = std::max(a, b);
  if (high == -kInfinity) return high;
  return high + std::log1p(std::exp(std::min(a, b) - high));
}

double LogBinomial(double n, double k) {
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
}

// Computes log B(l) for even l: the moment of |exp(x / t - 1 / (2 t^2)) - 1|^l under a standard
// normal x. It uses the trapezoid rule, which is exact to the last digits for functions that are
// smooth and vanish at both ends. As an alternating sum it would lose all digits.
class Moments {
 public:
  // `noise` is t. Computes moments with l up to at most `most`.
  Moments(double noise, int most) {
    most_ = static_cast<int>(std::min<double>(most, kWidest * noise));
    if (most_ < 2) return;
    const double end = kTail + most_ / noise;
    for (double x = -kTail; x <= end; x += kStep) {
      const double exponent = x / noise - 1 / (2 * noise * noise);
      // For a large e, exp(e) - 1 equals exp(e).
      const double change = exponent > 30 ? exponent : std::log(std::fabs(std::expm1(exponent)));
      densities_.push_back(-x * x / 2 + std::log(kStep / std::sqrt(2 * kPi)));
      changes_.push_back(change);
    }
  }

  // Returns infinity if it was not computed: the other bound is then the smaller one.
  double LogOf(int even) {
    if (even > most_) return kInfinity;
    double& known = known_[even];
    if (known != 0) return known;
    double highest = -kInfinity;
    for (size_t i = 0; i < changes_.size(); ++i) {
      highest = std::max(highest, densities_[i] + even * changes_[i]);
    }
    double sum = 0;
    for (size_t i = 0; i < changes_.size(); ++i) {
      sum += std::exp(densities_[i] + even * changes_[i] - highest);
    }
    return known = highest + std::log(sum);
  }

 private:
  static constexpr double kStep = 0.1;
  static constexpr double kTail = 14;    // standard deviations, beyond which nothing counts
  static constexpr double kWidest = 60;  // standard deviations to the middle of the largest moment

  int most_;
  std::vector<double> densities_;  // the logarithms of the densities, by x
  std::vector<double> changes_;
  std::map<int, double> known_;
};

// Above this order only the simpler bound is used. It costs nothing to compute, and for long runs,
// whose best orders are low, the result is the same.
constexpr int kMostExact = 256;

// The bound for draws of a fixed number, at whole orders.
class FixedDraws {
 public:
  FixedDraws(double sampling, double noise)
      : sampling_(sampling), noise_(noise / 2), moments_(noise / 2, kMostExact) {}

  // Returns rdp(a) for any order above 1.
  double Rdp(double order) {
    const double below = std::floor(order);
    const double part = order - below;
    double log_a = LogOfWhole(static_cast<int>(below));
    if (part > 0) log_a = (1 - part) * log_a + part * LogOfWhole(static_cast<int>(below) + 1);
    return log_a / (order - 1);
  }

 private:
  // Returns (a - 1) rdp(a).
  double LogOfWhole(int order) {
    double sum = 0;  // the sum without its 1
    for (int j = 2; j <= order; ++j) {
      sum = LogAdd(sum, LogBinomial(order, j) + j * std::log(sampling_) + LogTerm(j));
    }
    return sum;
  }

  double LogTerm(int j) {
    const double simple = std::log(2.0) + j * (j - 1.0) / (2 * noise_ * noise_);
    if (j == 2) {
      const double change = 1 / (noise_ * noise_);
      const double exact = change > 30 ? change : std::log(std::expm1(change));
      return std::min(std::log(4.0) + exact, simple);
    }
    const double both = moments_.LogOf(j / 2 * 2) + moments_.LogOf((j + 1) / 2 * 2);
    return std::min(std::log(4.0) + both / 2, simple);
  }

  const double sampling_;
  const double noise_;  // in units of the change that one replaced party can make
  Moments moments_;
};

std::vector<double> RdpOfRounds(absl::Span<const double> orders, double sampling, double noise) {
  std::vector<double> rdp(orders.size(), kInfinity);
  if (!(noise > 0)) return rdp;
  if (std::isinf(noise)) return std::vector<double>(orders.size(), 0);
  for (size_t i = 0; i < orders.size(); ++i) rdp[i] = orders[i] / (2 * noise * noise);
  if (sampling >= 1) return rdp;
  FixedDraws draws(sampling, noise);
  for (size_t i = 0; i < orders.size(); ++i) rdp[i] = std::min(rdp[i], draws.Rdp(orders[i]));
  return rdp;
}

}  // namespace

double RdpOfRound(double order, double sampling, double noise) {
  return RdpOfRounds({order}, sampling, noise).front();
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
  if (rdp.empty()) rdp = RdpOfRounds(AllOrders(), sampling, noise);
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

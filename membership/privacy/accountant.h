// PrivacyAccountant: what a run's noise has spent so far, as differential privacy counts it.
//
// Renyi differential privacy of the sampled Gaussian mechanism, at a fixed list of orders, summed
// over rounds (Mironov, Talwar, Zhang, "Renyi Differential Privacy of the Sampled Gaussian
// Mechanism", arXiv:1908.10530, section 3.3). With q the probability that a party is in a round and
// s the noise's standard deviation in units of the largest change that one party can make:
//   rdp(a) = a / (2 s^2)  for q = 1, else log A(a) / (a - 1), with, for a whole order,
//   A(a) = sum over k of binomial(a, k) (1 - q)^(a - k) q^k exp((k^2 - k) / (2 s^2))
// and the two series of that paper for one between. Sums are taken of logarithms.
//
// Epsilon at delta is the least, over the orders, of
//   rdp(a) + log((a - 1) / a) - (log(delta) + log(a)) / (a - 1)
// (Balle et al., arXiv:1905.09982, theorem 21; Canonne, Kamath, Steinke, arXiv:2004.00010,
// proposition 12), which Opacus and TensorFlow Privacy use too. Two runs are neighbours here if one
// party's updates are zeros in one of them.
//
// Pure; one thread.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace atolld {

// Of one round. `order` above 1, `sampling` above 0 and up to 1, `noise` above 0.
double RdpOfRound(double order, double sampling, double noise);

// Of all orders together: the best of them. Never below 0.
double EpsilonOf(absl::Span<const double> orders, absl::Span<const double> rdp, double delta);

class PrivacyAccountant {
 public:
  PrivacyAccountant();

  // A round in which a party takes part with probability `sampling`, and whose noise is `noise`
  // times the largest change that one party can make. Infinite noise spends nothing, none spends
  // all.
  void Add(double sampling, double noise, double rounds = 1);

  double Epsilon(double delta) const;
  // If so many such rounds followed.
  double EpsilonAfter(double sampling, double noise, double rounds, double delta) const;

 private:
  const std::vector<double>& OfRound(double sampling, double noise) const;

  std::vector<double> spent_;  // of each order
  mutable std::map<std::pair<double, double>, std::vector<double>> known_;
};

}  // namespace atolld

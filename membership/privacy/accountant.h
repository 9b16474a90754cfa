// PrivacyAccountant: computes how much differential privacy a run has spent so far, given its
// noise.
//
// It uses Renyi differential privacy at a fixed list of orders, summed over rounds. Two runs are
// neighbours if one party's updates are zeros in one of them. Let s be the noise's standard
// deviation in units of the largest change that one party can make to a round's sum:
//   rdp(a) = a / (2 s^2)
// (Mironov, "Renyi Differential Privacy", arXiv:1702.07476, corollary 3). If a fixed number of the
// parties is drawn (a share q of them) and no outsider knows which, the bound for draws without
// replacement also holds (Wang, Balle, Kasiviswanathan, "Subsampled Renyi Differential Privacy and
// Analytical Moments Accountant", arXiv:1808.00087, theorem 27), and the smaller of the two counts.
// That bound replaces one party by another, so a sum may change by twice as much. With t = s / 2
// and a whole order a,
//   (a - 1) rdp(a) = log(1 + sum over j from 2 to a of  binomial(a, j) q^j T(j))
//   T(2) = min(4 (exp(1 / t^2) - 1), 2 exp(1 / t^2))
//   T(j) = min(4 sqrt(B(2 floor(j/2)) B(2 ceil(j/2))), 2 exp(j (j - 1) / (2 t^2)))
//   B(l) = the mean of (p/q - 1)^l under q, for q, p normal with deviation t, around 0 and 1
// For an order between two whole numbers, (a - 1) rdp(a) is interpolated linearly between them
// (corollary 10 of the same paper). The formula for parties that are each drawn independently (the
// "sampled Gaussian mechanism" of arXiv:1908.10530) does not apply to such draws: it gives too
// small an epsilon.
//
// Epsilon at delta is the least, over the orders, of
//   rdp(a) + log((a - 1) / a) - (log(delta) + log(a)) / (a - 1)
// (Balle et al., arXiv:1905.09982, theorem 21; Canonne, Kamath, Steinke, arXiv:2004.00010,
// proposition 12).
//
// Pure. Used by one thread. The first call with new values of `sampling` and `noise` takes some
// milliseconds.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace atolld {

// Returns the Renyi divergence of one round. `order` is above 1, `sampling` above 0 and at most 1,
// and `noise` above 0.
double RdpOfRound(double order, double sampling, double noise);

// Returns the least epsilon over all orders, at least 0.
double EpsilonOf(absl::Span<const double> orders, absl::Span<const double> rdp, double delta);

class PrivacyAccountant {
 public:
  PrivacyAccountant();

  // Adds `rounds` rounds, for each of which a share `sampling` of a fixed number of parties is
  // drawn, and whose noise is `noise` times the largest change that one party can make. Infinite
  // noise spends nothing, and a noise of 0 spends everything.
  void Add(double sampling, double noise, double rounds = 1);

  double Epsilon(double delta) const;
  // Returns the value that epsilon would have after `rounds` more such rounds.
  double EpsilonAfter(double sampling, double noise, double rounds, double delta) const;

 private:
  const std::vector<double>& OfRound(double sampling, double noise) const;

  std::vector<double> spent_;  // the divergence spent so far, for each order
  mutable std::map<std::pair<double, double>, std::vector<double>> known_;
};

}  // namespace atolld

// Which share each update has in the mean of a rule that judges whole updates: pure functions of
// their norms and products alone.
//
// The iterates of the geometric median and of centred clipping are weighted sums of the updates
// (and the centre), so their distances follow from the products and no round of exchange is needed
// after the one that added those up: |x_i - v|^2 = G_ii - 2 (G c)_i + c'G c for v = sum of c_j x_j.
// All is in double, each operation rounded on its own, sums in roster order, square roots as IEEE
// 754 has them: the same bits on every CPU. Any thread.
//
// A *lower median* is the smaller of the two middle values where their number is even. While fewer
// than half of the values are lies it lies between two honest ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "optimizer/update_products.h"

namespace atolld {

// 0 of nothing.
double LowerMedian(std::vector<double> values);

// min(1, limit / norm), as fp32; 1 for a norm of 0. What is below 2^-100 is 0: it could not be
// seen.
std::vector<float> ClipScales(absl::Span<const double> norms, double limit);

// Krum's scores (Blanchard et al. 2017): of each update the sum of its squared distances from the
// n - faulty - 2 others that are nearest, added from the nearest on. n >= 2 faulty + 3.
std::vector<double> KrumScores(const UpdateProducts& products, size_t faulty);

// The updates' shares (they add up to 1) in their geometric median, the point with the least sum of
// shares[i] x distance: smoothed Weiszfeld (Pillutla et al. 2019)
//   d_i = max(nu, |x_i - v|),  v = sum of (shares_i / d_i) x_i / sum of shares_i / d_i
// for 32 iterations, which cost n^2 operations each. v begins with d_i = the lower median of x_i's
// distances from the others, which no minority can make small for itself, so an update of any
// length has next to no part from the start on. nu = max(2^-16 x the lower median of those, 2^-22 x
// the lower median norm): below the latter distances are rounding.
std::vector<double> GeometricMedianShares(const UpdateProducts& products,
                                          absl::Span<const double> shares);

// Shares of the updates and, last, of the centre (they add up to 1) after one step of centred
// clipping (Karimireddy et al. 2021) from the centre v on, the last vector of `products`:
//   d_i = |x_i - v|,  v + sum of shares_i min(1, tau / d_i) (x_i - v),  tau = lower median of d_i
std::vector<double> CentredClippingShares(const UpdateProducts& products,
                                          absl::Span<const double> shares);

}  // namespace atolld

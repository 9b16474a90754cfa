// Computes the share of each update in the mean, for rules that judge whole updates. The functions
// use only the norms and products of the updates.
//
// The iterates of the geometric median and of centred clipping are weighted sums of the updates
// (and the centre). Their distances can therefore be computed from the products, without another
// exchange between the reducers: |x_i - v|^2 = G_ii - 2 (G c)_i + c'G c for v = sum of c_j x_j. All
// arithmetic is in double, with each operation rounded on its own, sums in roster order, and square
// roots as in IEEE 754, so every CPU computes the same bits. Pure. May be called from any thread.
//
// A *lower median* is the smaller of the two middle values if there is an even number of values. If
// fewer than half of the values are false, it is between two honest values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "optimizer/update_products.h"

namespace atolld {

// Returns the lower median, or 0 if `values` is empty.
double LowerMedian(std::vector<double> values);

// Returns min(1, limit / norm) for each norm, as fp32, and 1 for a norm of 0. Values below 2^-100
// become 0, because they would have no visible effect.
std::vector<float> ClipScales(absl::Span<const double> norms, double limit);

// Returns Krum's scores (Blanchard et al. 2017). The score of an update is the sum of its squared
// distances from the n - faulty - 2 nearest other updates, added from the nearest to the farthest.
// Requires n >= 2 faulty + 3.
std::vector<double> KrumScores(const UpdateProducts& products, size_t faulty);

// Returns the updates' shares, which add up to 1, in their geometric median: the point with the
// least sum of shares[i] x distance. It is computed with the smoothed Weiszfeld algorithm (Pillutla
// et al. 2019)
//   d_i = max(nu, |x_i - v|),  v = sum of (shares_i / d_i) x_i / sum of shares_i / d_i
// in 32 iterations, which cost n^2 operations each. In the first iteration d_i is the lower median
// of the distances of x_i from the others. A minority cannot make this small for its own updates,
// so a very long update has almost no share from the start. nu = max(2^-16 x the lower median of
// those distances, 2^-22 x the lower median norm); distances below the second value are rounding
// errors.
std::vector<double> GeometricMedianShares(const UpdateProducts& products,
                                          absl::Span<const double> shares);

// Returns the shares of the updates and, as the last one, of the centre, after one step of centred
// clipping (Karimireddy et al. 2021) from the centre v, which is the last vector of `products`. The
// shares add up to 1. The step is
//   d_i = |x_i - v|,  v + sum of shares_i min(1, tau / d_i) (x_i - v),  tau = lower median of d_i
std::vector<double> CentredClippingShares(const UpdateProducts& products,
                                          absl::Span<const double> shares);

}  // namespace atolld

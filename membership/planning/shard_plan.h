// How the parameter vector is divided among reducers so that a flat exchange takes the least time.
//
// Contributor i sends what others reduce and, as reducer, its means to the n-1 others: (1 - w_i) +
// (n-1) w_i = 1 + (n-2) w_i of the vector, at b_i. The plan minimises the largest of
// these times. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace atolld {

// Minimises max_i (1 + (n-2) w_i) / b_i over the reducers, sum w = 1, w_i = 0 where b_i is 0 (not
// reachable):
//   xi = max(1 / b_min, (n - 2 + m) / sum b),  w_i proportional to (xi b_i - 1) / (n - 2),
//   m the number with b_i > 0.
// n < 3: equal shares of the reachable, whatever b. `bandwidths` has one value a contributor, any
// common unit, none negative, at least one positive.
std::vector<double> ShardWeights(absl::Span<const double> bandwidths);

// Whole chunks in these proportions, by largest remainder, the earlier first among equals. They sum
// to `chunks`, and a weight of 0 gets none.
std::vector<uint32_t> SplitChunks(uint32_t chunks, absl::Span<const double> weights);

}  // namespace atolld

// The loops of the aggregation rules, compiled once a SIMD target and chosen at run time; same bits
// on every target.
//
// Rows are one contributor's values each, all equally long. Every operation is rounded on its own,
// in the order written here; nothing is fused or reordered. Rows may be anywhere in memory; `out`
// overlaps none of them. Values are finite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace atolld {

// How many updates a rule takes: more would not fit the sorted blocks' cache, and pairs grow with
// the square.
constexpr size_t kMostContributors = 64;

// values = values * factor, each product rounded.
void ScaleValues(float factor, size_t elements, float* values);

struct ScaledRow {
  const float* values;
  float factor;
};

// fp32, for each i:
//   sum = +0, then for each row in order: sum = sum + factor_r * value_r[i];  out[i] = sum * finish
// the arithmetic of MeanFactor (aggregation_rule.h) in one pass.
void WeightedSum(const ScaledRow* rows, size_t count, float finish, size_t elements, float* out);

// A comparator leaves the smaller of two rows' values in the lower row and the larger in the other.
struct Comparator {
  uint8_t low;  // row; low < high
  uint8_t high;
  // Whether anything later reads the row. At least one of them is true.
  bool needs_low;
  bool needs_high;
};

// Which rows to compare, in which order, so that the values of chosen ranks come to stand in the
// rows of those numbers. The sequence depends on the shape alone, never on values, so a whole
// vector of columns goes through it at once without a branch. It is Batcher's merge exchange
// (Knuth, TAOCP 3, 5.2.2, algorithm M) for any number of rows, less what no chosen rank depends on.
//
// Rows are 0 to rows - 1, at most 256. After the comparators row r holds the value of rank r
// (0: the smallest) for every r from first_rank to below end_rank; other rows hold anything.
std::vector<Comparator> SelectionNetwork(size_t rows, size_t first_rank, size_t end_rank);

// fp32, for each i: the products factor_r * value_r[i] in ascending order, -0 before +0, of which
// those of the ranks first to end - 1 are added up from the smallest on: sum = v_first, then
// sum = sum + v for each next one;  out[i] = sum * (1 / (end - first)).
//
// `network` is SelectionNetwork(count, first, end), with first < end <= count <=
// kMostContributors.
void MeanOfRanks(const ScaledRow* rows, size_t count, const std::vector<Comparator>& network,
                 size_t first, size_t end, size_t elements, float* out);

struct SentRow {
  const float* values;
  float factor;
  float weight;  // above 0
};

// fp32, for each i, over the rows whose value_r[i] is not a zero, in order: sum = +0, then
// sum = sum + factor_r * value_r[i]; total = +0, then total = total + weight_r;
// out[i] = sum / total, +0 without such a row.
void MeanOfSent(const SentRow* rows, size_t count, size_t elements, float* out);

// Products of two fp32 values are exact in double; only their sums are rounded. Of rows x and y,
// for each block of 1,024 elements (the last may be shorter):
//   lane_l  = +0, then for each k: lane_l = lane_l + x[8 k + l] * y[8 k + l],  l = 0..7
//   four_l  = lane_l + lane_(l+4);  two_l = four_l + four_(l+2);  block = two_0 + two_1
// and sum = +0, then for each block in order: sum = sum + block.

// The sum of one row with itself; and of x[i] - from[i], each difference rounded to double, with
// itself.
double SquaredNorm(const float* values, size_t elements);
double SquaredDistance(const float* values, const float* from, size_t elements);

// At most kMostContributors + 1 rows.

// sums[r] = the sum for row r with itself.
void SquaredNorms(const float* const* rows, size_t count, size_t elements, double* sums);

// sums[r (r + 1) / 2 + s] = the sum for the rows r and s, s <= r.
void PairProducts(const float* const* rows, size_t count, size_t elements, double* sums);

}  // namespace atolld

// The loops of the aggregation rules. Each loop is compiled once for every SIMD target, and the
// target is chosen at run time. The result has the same bits on every target.
//
// A row holds the values of one contributor; all rows have the same length. Every operation is
// rounded on its own, in the order of the formulas; nothing is fused or reordered. Rows need not be
// next to each other in memory, and `out` must not overlap any of them. All values must be finite.
// May be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace atolld {

// The greatest number of updates that a rule accepts. With more updates, the sorted blocks would
// not fit in the cache, and the number of pairs grows with the square of the number of updates.
constexpr size_t kMostContributors = 64;

// Multiplies each value by `factor` and rounds the product.
void ScaleValues(float factor, size_t elements, float* values);

struct ScaledRow {
  const float* values;
  float factor;
};

// Computes in fp32, for each i:
//   sum = +0, then for each row in order: sum = sum + factor_r * value_r[i];  out[i] = sum * finish
// This is the weighted mean that aggregation_rule.h defines, computed in one pass.
void WeightedSum(const ScaledRow* rows, size_t count, float finish, size_t elements, float* out);

// A step of a sorting network: it puts the smaller of two rows' values into the row `low` and the
// larger into the row `high`.
struct Comparator {
  uint8_t low;  // a row number; low < high
  uint8_t high;
  // True if the value in the row is used later. At least one of the two is true.
  bool needs_low;
  bool needs_high;
};

// Returns the comparators, in order, that move the value of each chosen rank into the row with that
// number. The sequence depends only on the arguments, never on values, so it can be applied to a
// whole vector of columns at once without a branch. It is Batcher's merge exchange (Knuth, TAOCP 3,
// 5.2.2, algorithm M) for any number of rows. Comparators on which no chosen rank depends are left
// out.
//
// Rows are numbered from 0 to rows - 1; there are at most 256. After the comparators, row r holds
// the value of rank r (rank 0 is the smallest) for every r with first_rank <= r < end_rank. The
// contents of the other rows are unspecified.
std::vector<Comparator> SelectionNetwork(size_t rows, size_t first_rank, size_t end_rank);

// Computes in fp32, for each i: the products factor_r * value_r[i] are sorted in ascending order,
// with -0 before +0. The products with ranks from first to end - 1 are added, starting with the
// smallest: sum = v_first, then sum = sum + v for each next one; out[i] = sum * (1 / (end -
// first)).
//
// `network` must be SelectionNetwork(count, first, end), with first < end <= count <=
// kMostContributors.
void MeanOfRanks(const ScaledRow* rows, size_t count, const std::vector<Comparator>& network,
                 size_t first, size_t end, size_t elements, float* out);

struct SentRow {
  const float* values;
  float factor;
  float weight;  // above 0
};

// Computes in fp32, for each i, over the rows whose value_r[i] is not zero, in order: sum = +0,
// then sum = sum + factor_r * value_r[i]; total = +0, then total = total + weight_r; out[i] = sum /
// total. If every row has a zero at i, out[i] = +0.
void MeanOfSent(const SentRow* rows, size_t count, size_t elements, float* out);

// The functions below compute sums of products in the following way. Products of two fp32 values
// are exact in double, so only their sums are rounded. For rows x and y, and for each block of
// 1,024 elements (the last may be shorter):
//   lane_l  = +0, then for each k: lane_l = lane_l + x[8 k + l] * y[8 k + l],  l = 0..7
//   four_l  = lane_l + lane_(l+4);  two_l = four_l + four_(l+2);  block = two_0 + two_1
// Then sum = +0, and for each block in order: sum = sum + block.

// SquaredNorm returns the sum with x = y = `values`. SquaredDistance does so for the row of the
// differences values[i] - from[i], each rounded to double.
double SquaredNorm(const float* values, size_t elements);
double SquaredDistance(const float* values, const float* from, size_t elements);

// The functions below take at most kMostContributors + 1 rows.

// Sets sums[r] to the sum for row r with itself.
void SquaredNorms(const float* const* rows, size_t count, size_t elements, double* sums);

// Sets sums[r (r + 1) / 2 + s] to the sum for rows r and s, for every s <= r.
void PairProducts(const float* const* rows, size_t count, size_t elements, double* sums);

}  // namespace atolld

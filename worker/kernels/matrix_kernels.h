// Products of fp32 matrices, and causal attention, in plain memory on a CPU.
//
// Both use one small kernel, which keeps a tile of the result in registers while it runs along the
// depth. Every value is summed over the depth in ascending order, independent of its tile, so that
// no result depends on how callers divide the work among threads. On a CPU with another vector
// width, results are rounded differently. The functions may be called from any thread; each thread
// has its own scratch memory.
#pragma once

#include <cstddef>

namespace atolld {

// Value (i, j) of a matrix is data[i * row + j * column]; `row` or `column` is 1.
struct MatrixView {
  const float* data;
  size_t row, column;
};

// Computes c = a b, or c += a b if `add` is true. `a` is [rows, depth], `b` is [depth, columns],
// and `c` is [rows, columns] with a distance of `c_row` values between rows. `c` must not overlap
// `a` or `b`.
void Multiply(const MatrixView& a, const MatrixView& b, size_t rows, size_t columns, size_t depth,
              bool add, float* c, size_t c_row);

// The shape of an attention of one key head and the `shared` query heads that use it. Matrices have
// one row per token, at the given distances. In a row, the query heads follow one another, each
// `head` values wide.
struct AttentionShape {
  size_t tokens, head;  // The number of tokens, and the width of a head, which is at least 1.
  size_t shared;
  size_t window;  // The number of tokens that a position sees, including itself; 0 means no limit.
  // The factor by which the products of queries and keys are multiplied; it is positive.
  float scale;
};

// Queries of the `shared` heads, keys and values of one key head, and the distances between their
// rows. Rows of results and of their gradients are as wide as those of queries.
struct AttentionInput {
  const float *q, *k, *v;
  size_t q_row, k_row, v_row;
};

// Writes the results to `out`, and the logarithm of each softmax's denominator to `lse` [shared,
// tokens]. The backward pass recomputes the probabilities from `lse`.
void AttentionForward(const AttentionShape& shape, const AttentionInput& in, float* out,
                      size_t out_row, float* lse);

struct AttentionGradient {
  const float *out, *out_gradient;  // The distance between their rows is out_row.
  const float* lse;
  size_t out_row;
  float *q, *k, *v;  // The gradients that are written, with the layout of the input.
  size_t q_row, k_row, v_row;
};
void AttentionBackward(const AttentionShape& shape, const AttentionInput& in,
                       const AttentionGradient& gradient);

}  // namespace atolld

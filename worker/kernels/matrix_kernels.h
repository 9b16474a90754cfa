// Products of fp32 matrices and causal attention on a CPU, on plain memory.
//
// Both stand on one small kernel, a tile of the result that stays in registers while the depth runs
// by. The sum behind each value goes over the depth in ascending order, whatever tile it lies in,
// so that no result depends on how callers divide the work among threads. Another kind of CPU has
// other vectors, and another rounding. Any thread; calls share nothing but the scratch memory of
// their own thread.
#pragma once

#include <cstddef>

namespace atolld {

// Value (i, j) of a matrix is data[i * row + j * column]; one of the two is 1.
struct MatrixView {
  const float* data;
  size_t row, column;
};

// c = a b, or c += a b with `add`. `a` is [rows, depth], `b` [depth, columns], `c` [rows, columns]
// with rows `c_row` apart. `c` overlaps neither.
void Multiply(const MatrixView& a, const MatrixView& b, size_t rows, size_t columns, size_t depth,
              bool add, float* c, size_t c_row);

// Attention of one key head and of the `shared` query heads that it serves. Matrices have a row a
// token; rows lie the given distances apart, and the query heads `head` values one after the other
// within a row.
struct AttentionShape {
  size_t tokens, head;  // the width of a head: 1 or more
  size_t shared;
  size_t window;  // tokens that a position sees, itself among them; 0: all before it
  float scale;    // of the products of queries and keys; above 0
};

// Rows of the queries' width: queries, results, and their gradients.
struct AttentionInput {
  const float *q, *k, *v;
  size_t q_row, k_row, v_row;
};

// Writes the results to `out`, and the logarithm of each softmax's denominator to `lse`,
// [shared, tokens], from which the backward pass has the probabilities again.
void AttentionForward(const AttentionShape& shape, const AttentionInput& in, float* out,
                      size_t out_row, float* lse);

struct AttentionGradient {
  const float *out, *out_gradient;  // rows out_row apart
  const float* lse;
  size_t out_row;
  float *q, *k, *v;  // written; rows as those of the input
  size_t q_row, k_row, v_row;
};
void AttentionBackward(const AttentionShape& shape, const AttentionInput& in,
                       const AttentionGradient& gradient);

}  // namespace atolld

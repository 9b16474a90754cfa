#include "worker/kernels/matrix_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "worker/kernels/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/kernels/matrix_kernels.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/aligned_allocator.h>
#include <hwy/highway.h>

#include "worker/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace atolld {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
constexpr size_t kLanes = hn::MaxLanes(Floats());

// A tile of kRows rows and kMostVectors vectors fills the registers: 24 sums of the 32 registers of
// AVX-512 and NEON, 12 of the 16 that other CPUs have.
constexpr size_t kRows = 6;
#if (HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86) || HWY_ARCH_ARM_A64
constexpr size_t kMostVectors = 4;
#else
constexpr size_t kMostVectors = 2;
#endif
constexpr size_t kPanel = kMostVectors * kLanes;  // columns
constexpr size_t kDepth = 384;                    // of a packed panel, which fits the second cache

size_t VectorsOf(size_t values) { return (values + kLanes - 1) / kLanes; }

// ------------------------------------------------------------------------------------------------
// One tile: c[kR, kV vectors] (+)= a[kR, depth] b[depth, kV vectors].

template <size_t kR, size_t kV>
void Tile(size_t depth, const float* HWY_RESTRICT a, size_t a_row, size_t a_step,
          const float* HWY_RESTRICT b, size_t b_step, bool add, float* HWY_RESTRICT c,
          size_t c_row) {
  const Floats d;
  hn::Vec<Floats> sum[kR][kV];
#pragma GCC unroll 8
  for (size_t r = 0; r < kR; ++r) {
#pragma GCC unroll 4
    for (size_t v = 0; v < kV; ++v) sum[r][v] = hn::Zero(d);
  }
  for (size_t k = 0; k < depth; ++k) {
    hn::Vec<Floats> of_b[kV];
#pragma GCC unroll 4
    for (size_t v = 0; v < kV; ++v) of_b[v] = hn::LoadU(d, b + v * kLanes);
#pragma GCC unroll 8
    for (size_t r = 0; r < kR; ++r) {
      const auto of_a = hn::Set(d, a[r * a_row]);
#pragma GCC unroll 4
      for (size_t v = 0; v < kV; ++v) sum[r][v] = hn::MulAdd(of_a, of_b[v], sum[r][v]);
    }
    a += a_step;
    b += b_step;
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kR; ++r) {
#pragma GCC unroll 4
    for (size_t v = 0; v < kV; ++v) {
      float* const at = c + r * c_row + v * kLanes;
      hn::StoreU(add ? hn::Add(sum[r][v], hn::LoadU(d, at)) : sum[r][v], d, at);
    }
  }
}

using TileFunction = void (*)(size_t, const float*, size_t, size_t, const float*, size_t, bool,
                              float*, size_t);

template <size_t kV>
TileFunction TileOfRows(size_t rows) {
  switch (rows) {
    case 1:
      return &Tile<1, kV>;
    case 2:
      return &Tile<2, kV>;
    case 3:
      return &Tile<3, kV>;
    case 4:
      return &Tile<4, kV>;
    case 5:
      return &Tile<5, kV>;
    default:
      return &Tile<6, kV>;
  }
}

TileFunction TileOf(size_t rows, size_t vectors) {
  switch (vectors) {
    case 1:
      return TileOfRows<1>(rows);
#if HWY_ARCH_ARM_A64 || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3)
    case 2:
      return TileOfRows<2>(rows);
    case 3:
      return TileOfRows<3>(rows);
    default:
      return TileOfRows<4>(rows);
#else
    default:
      return TileOfRows<2>(rows);
#endif
  }
}

// The same for at most kRows rows and any number of vectors.
HWY_INLINE void Strip(size_t rows, size_t vectors, size_t depth, const float* a, size_t a_row,
                      size_t a_step, const float* b, size_t b_step, bool add, float* c,
                      size_t c_row) {
  for (size_t v = 0; v < vectors; v += kMostVectors) {
    const size_t some = std::min(kMostVectors, vectors - v);
    TileOf(rows, some)(depth, a, a_row, a_step, b + v * kLanes, b_step, add, c + v * kLanes, c_row);
  }
}

// Computes to(c, r) = from(r, c), four by four in registers, and one cache line of `from` at a
// time.
void Transpose(const float* HWY_RESTRICT from, size_t from_row, size_t rows, size_t columns,
               float* HWY_RESTRICT to, size_t to_row) {
  constexpr size_t kSome = 16;
  for (size_t c0 = 0; c0 < columns; c0 += kSome) {
    const size_t end = std::min(columns, c0 + kSome);
    size_t r = 0;
#if HWY_TARGET != HWY_SCALAR
    const hn::CappedTag<float, 4> d;
    for (; r + 4 <= rows; r += 4) {
      size_t c = c0;
      for (; c + 4 <= end; c += 4) {
        const float* const at = from + r * from_row + c;
        const auto row0 = hn::LoadU(d, at), row1 = hn::LoadU(d, at + from_row);
        const auto row2 = hn::LoadU(d, at + 2 * from_row), row3 = hn::LoadU(d, at + 3 * from_row);
        const auto low01 = hn::InterleaveLower(d, row0, row1);
        const auto low23 = hn::InterleaveLower(d, row2, row3);
        const auto high01 = hn::InterleaveUpper(d, row0, row1);
        const auto high23 = hn::InterleaveUpper(d, row2, row3);
        float* const there = to + c * to_row + r;
        hn::StoreU(hn::ConcatLowerLower(d, low23, low01), d, there);
        hn::StoreU(hn::ConcatUpperUpper(d, low23, low01), d, there + to_row);
        hn::StoreU(hn::ConcatLowerLower(d, high23, high01), d, there + 2 * to_row);
        hn::StoreU(hn::ConcatUpperUpper(d, high23, high01), d, there + 3 * to_row);
      }
      for (; c < end; ++c) {
        for (size_t i = r; i < r + 4; ++i) to[c * to_row + i] = from[i * from_row + c];
      }
    }
#endif
    for (; r < rows; ++r) {
      for (size_t c = c0; c < end; ++c) to[c * to_row + r] = from[r * from_row + c];
    }
  }
}

// ------------------------------------------------------------------------------------------------
// Products of any size.

// Copies the values (k, n) of `b` to rows of kPanel, with zeros behind the last column.
void PackPanel(const MatrixView& b, size_t depth, size_t columns, float* HWY_RESTRICT panel) {
  if (b.column == 1) {
    for (size_t k = 0; k < depth; ++k, panel += kPanel) {
      std::memcpy(panel, b.data + k * b.row, columns * sizeof(float));
      std::fill(panel + columns, panel + kPanel, 0.0f);
    }
    return;
  }
  Transpose(b.data, b.column, columns, depth, panel, kPanel);
  if (columns == kPanel) return;
  for (size_t k = 0; k < depth; ++k) {
    std::fill(panel + k * kPanel + columns, panel + (k + 1) * kPanel, 0.0f);
  }
}

// Computes c (+)= a b for the columns of one panel, at most kPanel.
void MultiplyPanel(const MatrixView& a, size_t rows, size_t depth, const float* panel,
                   size_t panel_row, size_t columns, bool add, float* c, size_t c_row) {
  const size_t vectors = VectorsOf(columns);
  const bool whole = vectors * kLanes == columns;
  HWY_ALIGN float edge[kRows * kPanel];
  for (size_t m = 0; m < rows; m += kRows) {
    const size_t some = std::min(kRows, rows - m);
    const float* const from = a.data + m * a.row;
    float* const to = c + m * c_row;
    const TileFunction tile = TileOf(some, vectors);
    if (whole) {
      tile(depth, from, a.row, a.column, panel, panel_row, add, to, c_row);
      continue;
    }
    tile(depth, from, a.row, a.column, panel, panel_row, false, edge, kPanel);
    for (size_t r = 0; r < some; ++r) {
      for (size_t n = 0; n < columns; ++n) {
        float& at = to[r * c_row + n];
        at = add ? at + edge[r * kPanel + n] : edge[r * kPanel + n];
      }
    }
  }
}

size_t MultiplyScratch() { return kDepth * kPanel; }

// `a` is read in place, and so is `b` if its rows are contiguous: packed copies would cost more
// than the cache misses, which the tile's products hide.
void MultiplyBlocks(const MatrixView& a, const MatrixView& b, size_t rows, size_t columns,
                    size_t depth, bool add, float* c, size_t c_row, float* panel) {
  for (size_t k = 0; k < depth; k += kDepth) {
    const size_t deep = std::min(kDepth, depth - k);
    const MatrixView part{a.data + k * a.column, a.row, a.column};
    for (size_t n = 0; n < columns; n += kPanel) {
      const size_t wide = std::min(kPanel, columns - n);
      const MatrixView from{b.data + k * b.row + n * b.column, b.row, b.column};
      const bool direct = b.column == 1 && wide % kLanes == 0;
      if (!direct) PackPanel(from, deep, wide, panel);
      MultiplyPanel(part, rows, deep, direct ? from.data : panel, direct ? b.row : kPanel, wide,
                    add || k > 0, c + n, c_row);
    }
  }
}

// ------------------------------------------------------------------------------------------------
// Attention, a block of queries by a block of keys at a time (Dao et al., "FlashAttention",
// arXiv:2205.14135): the scores of a whole sequence are never in memory.

constexpr size_t kQueries = 8 * kRows;
constexpr size_t kKeys = kPanel > 64 ? kPanel : 64;  // whole vectors of every target

size_t Padded(size_t values) { return VectorsOf(values) * kLanes; }
size_t KeyBlocks(size_t tokens) { return (tokens + kKeys - 1) / kKeys; }

// Copies [tokens, width] to blocks of [width, kKeys], with zeros behind the last token.
void PackTransposed(const float* HWY_RESTRICT from, size_t row, size_t tokens, size_t width,
                    float* HWY_RESTRICT to) {
  for (size_t t0 = 0; t0 < tokens; t0 += kKeys, to += width * kKeys) {
    const size_t some = std::min(kKeys, tokens - t0);
    if (some < kKeys) std::fill(to, to + width * kKeys, 0.0f);
    Transpose(from + t0 * row, row, some, width, to, kKeys);
  }
}

// Copies [tokens, width] to [tokens, Padded(width)].
void PackRows(const float* HWY_RESTRICT from, size_t row, size_t tokens, size_t width,
              float* HWY_RESTRICT to) {
  const size_t padded = Padded(width);
  for (size_t t = 0; t < tokens; ++t, to += padded) {
    std::memcpy(to, from + t * row, width * sizeof(float));
    std::fill(to + width, to + padded, 0.0f);
  }
}

// The reverse, scaled.
void UnpackRows(const float* HWY_RESTRICT from, size_t tokens, size_t width, float scale,
                float* HWY_RESTRICT to, size_t row) {
  const size_t padded = Padded(width);
  for (size_t t = 0; t < tokens; ++t) {
    for (size_t i = 0; i < width; ++i) to[t * row + i] = from[t * padded + i] * scale;
  }
}

// The columns [first, end) of a block of keys from `key` on that query `i` sees; empty if end <=
// first.
struct Seen {
  Seen(const AttentionShape& shape, size_t i, size_t key) {
    end = i < key ? 0 : std::min(kKeys, i - key + 1);
    const size_t oldest = shape.window == 0 || i + 1 <= shape.window ? 0 : i + 1 - shape.window;
    first = oldest <= key ? 0 : oldest - key;
  }
  bool none() const { return end <= first; }
  // Whether a vector of columns from `at` on is seen in part only.
  bool cuts(size_t at) const { return at < first || at + kLanes > end; }

  template <class D>
  HWY_INLINE hn::Mask<D> Mask(D d, size_t at) const {
    const auto column = hn::Iota(d, static_cast<float>(at));
    return hn::And(hn::Ge(column, hn::Set(d, static_cast<float>(first))),
                   hn::Lt(column, hn::Set(d, static_cast<float>(end))));
  }

  size_t first, end;
};

// Returns how many columns of a block of keys, counted from 0, some of the queries [i, i + rows)
// see.
size_t ColumnsSeen(const AttentionShape& shape, size_t i, size_t rows, size_t key) {
  const size_t last = i + rows - 1;
  if (last < key) return 0;
  if (shape.window != 0 && key + kKeys - 1 + shape.window <= i) return 0;
  return std::min({kKeys, last - key + 1, shape.tokens - key});
}

// For one query: the running maximum and sum of its softmax, and the factor of earlier results.
struct Running {
  float most = -std::numeric_limits<float>::infinity();
  float sum = 0;
};

// Turns scores into exp(scaled score - most), and returns the factor of what came before.
float ExponentiateRow(const Seen& seen, size_t vectors, float scale, float* HWY_RESTRICT scores,
                      Running& running) {
  const Floats d;
  const auto hidden = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto most = hidden;
  for (size_t v = 0; v < vectors; ++v) {
    auto score = hn::Mul(hn::Load(d, scores + v * kLanes), hn::Set(d, scale));
    if (seen.cuts(v * kLanes)) score = hn::IfThenElse(seen.Mask(d, v * kLanes), score, hidden);
    most = hn::Max(most, score);
    hn::Store(score, d, scores + v * kLanes);
  }
  const float before = running.most;
  running.most = std::max(before, hn::GetLane(hn::MaxOfLanes(d, most)));
  const auto shift = hn::Set(d, running.most);
  auto sum = hn::Zero(d);
  for (size_t v = 0; v < vectors; ++v) {
    const auto p = Exp(d, hn::Sub(hn::Load(d, scores + v * kLanes), shift));
    sum = hn::Add(sum, p);
    hn::Store(p, d, scores + v * kLanes);
  }
  const bool stays = before == running.most || std::isinf(before);  // or nothing was before
  const float factor = stays ? 1.0f : hn::GetLane(Exp(d, hn::Set(d, before - running.most)));
  running.sum = running.sum * factor + hn::GetLane(hn::SumOfLanes(d, sum));
  return factor;
}

void ScaleRow(float factor, size_t vectors, float* HWY_RESTRICT values) {
  const Floats d;
  for (size_t v = 0; v < vectors; ++v) {
    float* const at = values + v * kLanes;
    hn::Store(hn::Mul(hn::Load(d, at), hn::Set(d, factor)), d, at);
  }
}

// Computes queries [i, i + rows), at most kRows, with the keys of one block.
void ForwardStrip(const AttentionShape& shape, const float* q, size_t q_row, const float* keys,
                  const float* values, size_t i, size_t rows, size_t key, float* scores,
                  float* results, Running* running) {
  const size_t columns = ColumnsSeen(shape, i, rows, key);
  if (columns == 0) return;
  const size_t vectors = VectorsOf(columns), wide = VectorsOf(shape.head);
  Strip(rows, vectors, shape.head, q + i * q_row, q_row, 1, keys + key * shape.head, kKeys, false,
        scores, kKeys);
  for (size_t r = 0; r < rows; ++r) {
    const Seen seen(shape, i + r, key);
    if (seen.none()) {
      std::fill(scores + r * kKeys, scores + r * kKeys + vectors * kLanes, 0.0f);
      continue;
    }
    const float factor =
        ExponentiateRow(seen, vectors, shape.scale, scores + r * kKeys, running[r]);
    if (factor != 1.0f) ScaleRow(factor, wide, results + r * wide * kLanes);
  }
  Strip(rows, wide, columns, scores, kKeys, 1, values + key * wide * kLanes, wide * kLanes, true,
        results, wide * kLanes);
}

size_t ForwardScratch(const AttentionShape& shape) {
  return KeyBlocks(shape.tokens) * kKeys * shape.head + shape.tokens * Padded(shape.head) +
         kRows * kKeys + kQueries * Padded(shape.head) + 4 * kLanes;
}

// Returns the next piece of scratch memory, aligned to whole vectors.
float* Take(float*& scratch, size_t values) {
  float* const taken = scratch;
  scratch += Padded(values);
  return taken;
}

void ForwardHead(const AttentionShape& shape, const float* q, size_t q_row, const float* keys,
                 const float* values, float* scores, float* results, float* out, size_t out_row,
                 float* lse) {
  const size_t padded = Padded(shape.head);
  for (size_t i0 = 0; i0 < shape.tokens; i0 += kQueries) {
    const size_t rows = std::min(kQueries, shape.tokens - i0);
    std::fill(results, results + rows * padded, 0.0f);
    Running running[kQueries];
    const size_t oldest = shape.window == 0 || i0 + 1 <= shape.window ? 0 : i0 + 1 - shape.window;
    for (size_t key = oldest / kKeys * kKeys; key < i0 + rows; key += kKeys) {
      for (size_t r = 0; r < rows; r += kRows) {
        ForwardStrip(shape, q, q_row, keys, values, i0 + r, std::min(kRows, rows - r), key, scores,
                     results + r * padded, running + r);
      }
    }
    for (size_t r = 0; r < rows; ++r) {
      UnpackRows(results + r * padded, 1, shape.head, 1.0f / running[r].sum,
                 out + (i0 + r) * out_row, out_row);
      lse[i0 + r] = running[r].most + std::log(running[r].sum);
    }
  }
}

void Forward(const AttentionShape& shape, const AttentionInput& in, float* out, size_t out_row,
             float* lse, float* scratch) {
  float* const keys = Take(scratch, KeyBlocks(shape.tokens) * kKeys * shape.head);
  float* const values = Take(scratch, shape.tokens * Padded(shape.head));
  float* const scores = Take(scratch, kRows * kKeys);
  float* const results = Take(scratch, kQueries * Padded(shape.head));
  PackTransposed(in.k, in.k_row, shape.tokens, shape.head, keys);
  PackRows(in.v, in.v_row, shape.tokens, shape.head, values);
  for (size_t h = 0; h < shape.shared; ++h) {
    ForwardHead(shape, in.q + h * shape.head, in.q_row, keys, values, scores, results,
                out + h * shape.head, out_row, lse + h * shape.tokens);
  }
}

// What the backward pass of one key head has besides its arguments.
struct BackwardMemory {
  BackwardMemory(const AttentionShape& shape, float* scratch) {
    const size_t transposed = KeyBlocks(shape.tokens) * kKeys * shape.head;
    const size_t rows = shape.tokens * Padded(shape.head);
    keys = Take(scratch, transposed);
    values = Take(scratch, transposed);
    for (float** one : {&k, &q, &out_gradient, &q_gradient, &k_gradient, &v_gradient}) {
      *one = Take(scratch, rows);
    }
    p = Take(scratch, kQueries * kKeys);
    s = Take(scratch, kQueries * kKeys);
    delta = Take(scratch, shape.tokens);
  }
  static size_t Values(const AttentionShape& shape) {
    return 2 * KeyBlocks(shape.tokens) * kKeys * shape.head +
           6 * shape.tokens * Padded(shape.head) + 2 * kQueries * kKeys + shape.tokens +
           12 * kLanes;
  }

  float *keys, *values;                         // transposed blocks
  float *k, *q, *out_gradient;                  // packed rows
  float *q_gradient, *k_gradient, *v_gradient;  // the same, of sums
  float *p, *s;                                 // probabilities and gradients of scores
  float* delta;                                 // a token: results times their gradient
};

// Computes the probabilities p and the gradients s = p (dp - delta) of the scores of one query; the
// arrays hold scores and dp before.
void ScoreGradientRow(const AttentionShape& shape, const Seen& seen, size_t vectors, float lse,
                      float delta, float* HWY_RESTRICT p, float* HWY_RESTRICT s) {
  const Floats d;
  for (size_t v = 0; v < vectors; ++v) {
    const size_t at = v * kLanes;
    auto probability =
        Exp(d, hn::MulSub(hn::Load(d, p + at), hn::Set(d, shape.scale), hn::Set(d, lse)));
    if (seen.cuts(at)) probability = hn::IfThenElseZero(seen.Mask(d, at), probability);
    hn::Store(probability, d, p + at);
    hn::Store(hn::Mul(probability, hn::Sub(hn::Load(d, s + at), hn::Set(d, delta))), d, s + at);
  }
}

// Computes queries [i, i + rows), at most kRows, with one block of keys: fills their rows of `p`
// and `s`, and adds to the gradient of the queries.
void BackwardStrip(const AttentionShape& shape, const BackwardMemory& memory, const float* lse,
                   size_t i, size_t rows, size_t key, float* p, float* s) {
  const size_t columns = ColumnsSeen(shape, i, rows, key);
  const size_t padded = Padded(shape.head), vectors = VectorsOf(columns);
  if (columns > 0) {
    Strip(rows, vectors, shape.head, memory.q + i * padded, padded, 1,
          memory.keys + key * shape.head, kKeys, false, p, kKeys);
    Strip(rows, vectors, shape.head, memory.out_gradient + i * padded, padded, 1,
          memory.values + key * shape.head, kKeys, false, s, kKeys);
  }
  for (size_t r = 0; r < rows; ++r) {
    const Seen seen(shape, i + r, key);
    const size_t used = seen.none() ? 0 : vectors;
    ScoreGradientRow(shape, seen, used, lse[i + r], memory.delta[i + r], p + r * kKeys,
                     s + r * kKeys);
    std::fill(p + r * kKeys + used * kLanes, p + (r + 1) * kKeys, 0.0f);
    std::fill(s + r * kKeys + used * kLanes, s + (r + 1) * kKeys, 0.0f);
  }
  if (columns > 0) {
    Strip(rows, padded / kLanes, columns, s, kKeys, 1, memory.k + key * padded, padded, true,
          memory.q_gradient + i * padded, padded);
  }
}

// Adds the part of a block of queries to the gradients of a block of keys.
void AddToKeys(const AttentionShape& shape, const BackwardMemory& memory, size_t i, size_t queries,
               size_t key) {
  const size_t padded = Padded(shape.head), wide = padded / kLanes;
  const size_t keys = std::min(kKeys, shape.tokens - key);
  for (size_t m = 0; m < keys; m += kRows) {
    const size_t some = std::min(kRows, keys - m);
    const size_t first = key + m <= i ? 0 : key + m - i;  // queries before it do not see the key
    if (first >= queries) break;
    const size_t deep = queries - first;
    Strip(some, wide, deep, memory.p + first * kKeys + m, 1, kKeys,
          memory.out_gradient + (i + first) * padded, padded, true,
          memory.v_gradient + (key + m) * padded, padded);
    Strip(some, wide, deep, memory.s + first * kKeys + m, 1, kKeys, memory.q + (i + first) * padded,
          padded, true, memory.k_gradient + (key + m) * padded, padded);
  }
}

void BackwardHead(const AttentionShape& shape, const BackwardMemory& memory, const float* lse) {
  for (size_t key = 0; key < shape.tokens; key += kKeys) {
    for (size_t i = key / kQueries * kQueries; i < shape.tokens; i += kQueries) {
      const size_t queries = std::min(kQueries, shape.tokens - i);
      if (ColumnsSeen(shape, i, queries, key) == 0) {
        if (i > key) break;  // the window has passed
        continue;
      }
      for (size_t r = 0; r < queries; r += kRows) {
        BackwardStrip(shape, memory, lse, i + r, std::min(kRows, queries - r), key,
                      memory.p + r * kKeys, memory.s + r * kKeys);
      }
      AddToKeys(shape, memory, i, queries, key);
    }
  }
}

// Returns for each token the sum over a head of the results times their gradient.
void Deltas(const AttentionShape& shape, const AttentionGradient& gradient, size_t offset,
            float* delta) {
  const Floats d;
  for (size_t t = 0; t < shape.tokens; ++t) {
    const float* const out = gradient.out + t * gradient.out_row + offset;
    const float* const dout = gradient.out_gradient + t * gradient.out_row + offset;
    auto sum = hn::Zero(d);
    size_t i = 0;
    for (; i + kLanes <= shape.head; i += kLanes) {
      sum = hn::MulAdd(hn::LoadU(d, out + i), hn::LoadU(d, dout + i), sum);
    }
    float rest = 0;
    for (; i < shape.head; ++i) rest += out[i] * dout[i];
    delta[t] = rest + hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

void Backward(const AttentionShape& shape, const AttentionInput& in,
              const AttentionGradient& gradient, float* scratch) {
  const BackwardMemory memory(shape, scratch);
  const size_t values = shape.tokens * Padded(shape.head);
  PackTransposed(in.k, in.k_row, shape.tokens, shape.head, memory.keys);
  PackTransposed(in.v, in.v_row, shape.tokens, shape.head, memory.values);
  PackRows(in.k, in.k_row, shape.tokens, shape.head, memory.k);
  std::fill(memory.k_gradient, memory.k_gradient + values, 0.0f);
  std::fill(memory.v_gradient, memory.v_gradient + values, 0.0f);
  for (size_t h = 0; h < shape.shared; ++h) {
    const size_t offset = h * shape.head;
    PackRows(in.q + offset, in.q_row, shape.tokens, shape.head, memory.q);
    PackRows(gradient.out_gradient + offset, gradient.out_row, shape.tokens, shape.head,
             memory.out_gradient);
    Deltas(shape, gradient, offset, memory.delta);
    std::fill(memory.q_gradient, memory.q_gradient + values, 0.0f);
    BackwardHead(shape, memory, gradient.lse + h * shape.tokens);
    UnpackRows(memory.q_gradient, shape.tokens, shape.head, shape.scale, gradient.q + offset,
               gradient.q_row);
  }
  UnpackRows(memory.k_gradient, shape.tokens, shape.head, shape.scale, gradient.k, gradient.k_row);
  UnpackRows(memory.v_gradient, shape.tokens, shape.head, 1.0f, gradient.v, gradient.v_row);
}

size_t BackwardScratch(const AttentionShape& shape) { return BackwardMemory::Values(shape); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace atolld
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace atolld {
namespace {

HWY_EXPORT(MultiplyScratch);
HWY_EXPORT(MultiplyBlocks);
HWY_EXPORT(ForwardScratch);
HWY_EXPORT(Forward);
HWY_EXPORT(BackwardScratch);
HWY_EXPORT(Backward);

// Returns this thread's memory of at least `values` values, aligned; its former content is lost.
float* Scratch(size_t values) {
  thread_local size_t held = 0;
  thread_local hwy::AlignedFreeUniquePtr<float[]> memory;
  if (values > held) {
    memory = hwy::AllocateAligned<float>(values);
    held = values;
  }
  return memory.get();
}

}  // namespace

void Multiply(const MatrixView& a, const MatrixView& b, size_t rows, size_t columns, size_t depth,
              bool add, float* c, size_t c_row) {
  float* const scratch = Scratch(HWY_DYNAMIC_DISPATCH(MultiplyScratch)());
  HWY_DYNAMIC_DISPATCH(MultiplyBlocks)(a, b, rows, columns, depth, add, c, c_row, scratch);
}

void AttentionForward(const AttentionShape& shape, const AttentionInput& in, float* out,
                      size_t out_row, float* lse) {
  float* const scratch = Scratch(HWY_DYNAMIC_DISPATCH(ForwardScratch)(shape));
  HWY_DYNAMIC_DISPATCH(Forward)(shape, in, out, out_row, lse, scratch);
}

void AttentionBackward(const AttentionShape& shape, const AttentionInput& in,
                       const AttentionGradient& gradient) {
  float* const scratch = Scratch(HWY_DYNAMIC_DISPATCH(BackwardScratch)(shape));
  HWY_DYNAMIC_DISPATCH(Backward)(shape, in, gradient, scratch);
}

}  // namespace atolld
#endif  // HWY_ONCE

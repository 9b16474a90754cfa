// The int2 format: what the bytes of a chunk mean, and the statistical codebook that topk shares.
//
//   chunk of n values = for each 4096 a codebook of four fp32 (little-endian), then the codes
//   value = codebook[code]
//
// A block of t values has q = ceil(t / 4) bytes of codes: bits 2k and 2k+1 of byte j are code
// j + k * q; those beyond the block are 0. About 2.03 bits a value.
//
// The codebook is that of SparseLoCo (arXiv 2508.15706) and of hivemind's uniform quantisation with
// four bins of 1.5 standard deviations around the mean, where each code stands for the mean of its
// bin. Relative error 42 % on Gaussian values: it wants error feedback. Encoding a block, every
// operation rounded to fp32 on its own:
//   E        = the exponent field of max |x|, at most 253; below 2^-100 the block is zero
//   y        = x * 2^(127 - E), so no square overflows
//   sum of f = f(y_0) ... in 16 partial sums, value i into number i mod 16, ascending; then
//              s_l = s_l + s_(l + w) for all l < w, with w = 8, 4, 2, 1: the same on every CPU
//   mean     = (sum of y) / t;  sigma = sqrt((sum of (y - mean)^2) / max(t - 1, 1))
//   code     = how many of mean - 2.25 sigma, mean - 0.75 sigma, mean + 0.75 sigma are <= y
//   codebook = (sum of y with that code) / (their count) * 2^(E - 127), no larger than max |x|;
//              +0 where no value has the code, or below 2^-100
#pragma once

#include <cstddef>
#include <cstdint>

namespace atolld {

inline constexpr size_t kInt2BlockElements = 4096;
inline constexpr size_t kInt2Codes = 4;
inline constexpr size_t kInt2CodebookBytes = kInt2Codes * sizeof(float);

// An entry of a codebook is +0 or finite and of at least this magnitude.
inline constexpr uint32_t kInt2MinEntryBits = 0x0d800000;  // 2^-100

inline constexpr size_t Int2Blocks(size_t elements) {
  return elements / kInt2BlockElements + (elements % kInt2BlockElements != 0 ? 1 : 0);
}
// Whole blocks have no unused bits, so this holds for chunks and for single blocks.
inline constexpr size_t Int2CodeBytes(size_t elements) {
  return elements / 4 + (elements % 4 != 0 ? 1 : 0);
}
inline constexpr size_t Int2Bytes(size_t elements) {
  return Int2Blocks(elements) * kInt2CodebookBytes + Int2CodeBytes(elements);
}

}  // namespace atolld

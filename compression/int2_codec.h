// The int2 codec: two bits a value, which choose one of four values that fit a block of 4096; and
// the statistical codebook that topk shares.
//
// Without error feedback it loses too much; with it, two bits train about as well as four (MuLoCo,
// arXiv 2505.23725).
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

#include "compression/codec.h"

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

class Int2Codec final : public Codec {
 public:
  absl::string_view name() const override { return "int2"; }
  size_t block_elements() const override { return kInt2BlockElements; }
  size_t MaxEncodedBytes(size_t elements) const override { return Int2Bytes(elements); }
  absl::StatusOr<size_t> Encode(absl::Span<const float> values,
                                absl::Span<uint8_t> out) const override;
  absl::Status Check(absl::Span<const uint8_t> bytes, size_t elements) const override;
  absl::Status Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const override;
  absl::Status DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                absl::Span<float> sum) const override;
};

// Reads a codebook. INVALID_ARGUMENT names the entry that is neither +0 nor finite and from 2^-100.
absl::Status ReadCodebook(const uint8_t* bytes, float* codebook);

// Whether all bits of the codes of a block that stand for no value are 0.
bool Int2PaddingIsZero(const uint8_t* bytes, size_t elements);

// The loops of two-bit codes, compiled once a SIMD target and chosen at run time; same bits on
// every target. Each works on one block of 1 to kInt2BlockElements values. Spans are trusted.

// The block's codebook, and its codes, one a byte. False, with the output unspecified, if a value
// is not finite.
bool QuantizeInt2(const float* values, size_t elements, float* codebook, uint8_t* codes);

// Codes, one a byte, into Int2CodeBytes(elements) bytes.
void PackInt2(const uint8_t* codes, size_t elements, uint8_t* bytes);

// values[i] = codebook[code[i]]
void DecodeInt2(const float* codebook, const uint8_t* bytes, size_t elements, float* values);

// sum[i] = sum[i] + weight * codebook[code[i]]
void DecodeAccumulateInt2(const float* codebook, const uint8_t* bytes, size_t elements,
                          float weight, float* sum);

}  // namespace atolld

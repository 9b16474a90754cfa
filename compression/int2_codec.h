// The int2 codec: each value is encoded in two bits, which choose one of four values that are
// fitted to a block of 4096 values. The topk codec uses the same four-value codebook.
//
// Without error feedback the codec loses too much. With error feedback, two bits train about as
// well as four (MuLoCo, arXiv 2505.23725).
//
//   chunk of n values = a codebook of four fp32 (little-endian) for each 4096, then the codes
//   value = codebook[code]
//
// A block of t values has q = ceil(t / 4) bytes of codes. Bits 2k and 2k+1 of byte j are code j + k
// * q; codes beyond the block are 0. The format takes about 2.03 bits a value.
//
// SparseLoCo (arXiv 2508.15706) and hivemind's uniform quantisation use the same codebook: there
// are four bins of 1.5 standard deviations around the mean, and each code is decoded as the mean of
// its bin. The relative error is 42 % on Gaussian values, so error feedback is needed. A block is
// encoded as follows, with every operation rounded to fp32 on its own:
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

// The bits of the smallest magnitude of a codebook entry that is not +0.
inline constexpr uint32_t kInt2MinEntryBits = 0x0d800000;  // the bits of 2^-100

inline constexpr size_t Int2Blocks(size_t elements) {
  return elements / kInt2BlockElements + (elements % kInt2BlockElements != 0 ? 1 : 0);
}
// The formula holds for chunks and for single blocks, because whole blocks have no unused bits.
inline constexpr size_t Int2CodeBytes(size_t elements) {
  return elements / 4 + (elements % 4 != 0 ? 1 : 0);
}
inline constexpr size_t Int2Bytes(size_t elements) {
  return Int2Blocks(elements) * kInt2CodebookBytes + Int2CodeBytes(elements);
}

class Int2Codec final : public Codec {
 public:
  absl::string_view name() const override { return "int2"; }
  size_t MaxEncodedBytes(size_t elements) const override { return Int2Bytes(elements); }
  absl::StatusOr<size_t> Encode(absl::Span<const float> values,
                                absl::Span<uint8_t> out) const override;
  absl::Status Check(absl::Span<const uint8_t> bytes, size_t elements) const override;
  absl::Status Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const override;
  absl::Status DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                absl::Span<float> sum) const override;
};

// Reads a codebook. Fails with INVALID_ARGUMENT if an entry is neither +0 nor finite with a
// magnitude of at least 2^-100; the message names the entry.
absl::Status ReadCodebook(const uint8_t* bytes, float* codebook);

// Returns true if all unused bits in the bytes of a block's codes are 0.
bool Int2PaddingIsZero(const uint8_t* bytes, size_t elements);

// The loops over two-bit codes are compiled once for each SIMD target and chosen at run time; they
// give the same bits on every target. Each function works on one block of 1 to kInt2BlockElements
// values and does not check lengths.

// Computes the block's codebook and its codes, with one code in each byte. Returns false, with the
// output unspecified, if a value is not finite.
bool QuantizeInt2(const float* values, size_t elements, float* codebook, uint8_t* codes);

// Packs codes, which are given in one byte each, into Int2CodeBytes(elements) bytes.
void PackInt2(const uint8_t* codes, size_t elements, uint8_t* bytes);

// Sets values[i] = codebook[code[i]].
void DecodeInt2(const float* codebook, const uint8_t* bytes, size_t elements, float* values);

// Sets sum[i] = sum[i] + weight * codebook[code[i]].
void DecodeAccumulateInt2(const float* codebook, const uint8_t* bytes, size_t elements,
                          float weight, float* sum);

}  // namespace atolld

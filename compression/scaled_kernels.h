// The int8 and int4 formats: integer codes under one fp32 scale a block; and the loops of their
// codecs, compiled once a SIMD target and chosen at run time.
//
//   chunk of n values = a scale a block (fp32, little-endian), then the codes
//   value = code * scale
//
//   int8: blocks of 256; codes from -127 to 127, a byte each
//   int4: blocks of 64; codes from -7 to 7 in two's complement, two a byte. A block of t values has
//         h = ceil(t / 2) bytes of codes: the low half of byte j is code j, the high half code
//         j + h (of the last byte of an odd block: 0). So no bits cross a vector's lanes, and a
//         byte's two codes are as independent as any two: a zstd frame's byte-wise entropy coder
//         gets nearly all that a coder of single codes would.
//
// Encoding a block, every operation rounded to fp32 on its own, ties to even; `most` is the
// greatest code, 127 or 7:
//   absmax  = max |x|, found on the bits: NaN and infinity show as 0x7f800000 or more
//   scale   = min(absmax / most, the greatest scale); below 2^-100 the block is zero: scale +0,
//             codes 0
//   inverse = 1 / scale
//   code    = round(x * inverse); |code| <= most without a clamp: the product exceeds it by a few
//             ulps at most
// Division and multiplication are correctly rounded on every target, so is adding 1.5 * 2^23, which
// rounds a small float to an integer in the low bits of its mantissa: that is how the kernels
// round.
//
// Stochastic rounding takes either of the two nearest codes at random, so that the
// expectation is the value itself. The randomness is a function of a key and of the value's place i
// in the chunk, integer arithmetic alone: the same bits on every CPU, nothing to store, and anybody
// who knows the key encodes to the same bytes. (Salmon et al. 2011 call that a counter-based
// generator.) The error's variance is up to twice that of rounding to nearest; it pays where errors
// would add up in one direction: few bits without error feedback.
//   h = i * 0x9e3779b9 + low(key);  h = (h ^ h >> 16) * 0x85ebca6b + high(key)
//   h = (h ^ h >> 13) * 0xc2b2ae35;  h = h ^ h >> 16               (murmur3's finaliser, keyed)
//   dither = ((h >> 16) + 1/2) / 2^16 - 1/2, above -1/2 and below 1/2
//   code = round(x * inverse + dither), clamped to the codec's codes
// A value that is a code already stays one.
//
// The kernels give the same bits on every target: only adds, multiplies and one division a block,
// each rounded on its own; no fused operation, no estimate, no float sum across lanes. Spans are
// trusted: the codec has checked every length and scale. `scales` and `codes` need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atolld {

enum class ScaledForm { kInt8, kInt4 };

inline constexpr size_t kInt8BlockElements = 256;
inline constexpr size_t kInt4BlockElements = 64;

// The largest floats s for which 127 * s and 7 * s are finite: absmax / most may round up past them
// when absmax nears FLT_MAX.
inline constexpr float kInt8MaxScale = 0x1.020406p+121f;
inline constexpr float kInt4MaxScale = 0x1.249248p+125f;

inline constexpr size_t BlockElements(ScaledForm form) {
  return form == ScaledForm::kInt8 ? kInt8BlockElements : kInt4BlockElements;
}
inline constexpr float MaxScale(ScaledForm form) {
  return form == ScaledForm::kInt8 ? kInt8MaxScale : kInt4MaxScale;
}
// The bytes of the scales of so many values, and of their codes. A whole block of int4 has an even
// number of values, so only the last byte of a chunk can be half empty.
inline constexpr size_t ScaleBytes(ScaledForm form, size_t elements) {
  const size_t block = BlockElements(form);
  return (elements / block + (elements % block != 0 ? 1 : 0)) * sizeof(float);
}
inline constexpr size_t CodeBytes(ScaledForm form, size_t elements) {
  return form == ScaledForm::kInt8 ? elements : elements / 2 + elements % 2;
}

// Writes ScaleBytes and CodeBytes of the values, rounded by `key`, to nearest even without one.
// False, with the output unspecified, if a value is not finite.
bool EncodeScaled(ScaledForm form, const float* values, size_t elements, const uint64_t* key,
                  uint8_t* scales, uint8_t* codes);

// Streamed: past the caches, which saves reading what is about to be overwritten; int8 alone.
// Values at odd addresses are written through them all the same.
enum class ScaledStore { kCached, kStreamed };

// values[i] = code[i] * scale. False, with `values` unspecified, if a code is the one that no
// encoder writes, -128 or -8. The scales must be valid.
bool DecodeScaled(ScaledForm form, const uint8_t* scales, const uint8_t* codes, size_t elements,
                  ScaledStore store, float* values);

// *norm = Codec::SquaredNorm of valid scales. False, with *norm unspecified, if a code is -128 or
// -8.
bool SquaredNormScaled(ScaledForm form, const uint8_t* scales, const uint8_t* codes,
                       size_t elements, double* norm);

// Whether one of so many bytes of codes holds a -128 or -8.
bool HasForbiddenCode(ScaledForm form, const uint8_t* codes, size_t bytes);

// sum[i] = sum[i] + weight * (code[i] * scale). Scales and codes must be valid.
void DecodeAccumulateScaled(ScaledForm form, const uint8_t* scales, const uint8_t* codes,
                            size_t elements, float weight, float* sum);

// A chunk of a sum: valid scales, any codes.
struct Int8Term {
  const uint8_t* scales;
  const uint8_t* codes;
  float weight;
};

// sum[i] = (+0 + weight * (code[i] * scale), term by term in their order) * factor. False, with
// `sum` unspecified, if a code is -128.
bool DecodeSumInt8(const Int8Term* terms, size_t count, size_t elements, float factor, float* sum);

}  // namespace atolld

// The formats int8 and int4, which have integer codes and one fp32 scale a block, and the loops of
// their codecs. The loops are compiled once for each SIMD target and chosen at run time.
//
//   chunk of n values = a scale a block (fp32, little-endian), then the codes
//   value = code * scale
//
//   int8: blocks of 256; codes from -127 to 127, a byte each
//   int4: blocks of 64; codes from -7 to 7 in two's complement, two a byte. A block of t values has
//         h = ceil(t / 2) bytes of codes. The low half of byte j is code j, and the high half is
//         code j + h, or 0 in the last byte of an odd block. No bits therefore cross a vector's
//         lanes. The two codes of a byte are also as independent as any two codes, so the byte-wise
//         entropy coder of a zstd frame compresses nearly as well as a coder of single codes would.
//
// A block is encoded as follows. Every operation is rounded to fp32 on its own, ties to even;
// `most` is the greatest code, 127 or 7:
//   absmax  = max |x|, found on the bits: NaN and infinity show as 0x7f800000 or more
//   scale   = min(absmax / most, the greatest scale); below 2^-100 the block is zero: scale +0,
//             codes 0
//   inverse = 1 / scale
//   code    = round(x * inverse); |code| <= most without a clamp: the product exceeds it by a few
//             ulps at most
// Division and multiplication are correctly rounded on every target. The kernels round a small
// float to an integer by adding 1.5 * 2^23. This addition is also correctly rounded, and leaves the
// integer in the low bits of the mantissa.
//
// Stochastic rounding chooses one of the two nearest codes at random, so that the result is right
// on average. The randomness is a function of a key and of the value's place i in the chunk, in
// integer arithmetic only. It therefore has the same bits on every CPU and needs no stored state,
// and every process that knows the key encodes the values to the same bytes. (Salmon et al. 2011
// call this a counter-based generator.) The variance of the error is up to twice that of rounding
// to nearest. This is acceptable where errors would otherwise add up in one direction: with few
// bits and without error feedback.
//   h = i * 0x9e3779b9 + low(key);  h = (h ^ h >> 16) * 0x85ebca6b + high(key)
//   h = (h ^ h >> 13) * 0xc2b2ae35;  h = h ^ h >> 16               (murmur3's finaliser, keyed)
//   dither = ((h >> 16) + 1/2) / 2^16 - 1/2, above -1/2 and below 1/2
//   code = round(x * inverse + dither), clamped to the codec's codes
// A value that already equals a code is encoded as that code.
//
// The kernels give the same bits on every target, because they use only additions, multiplications
// and one division a block, each rounded on its own. They use no fused operations, no approximate
// instructions and no sums of floats across lanes. They check neither lengths nor scales, because
// the codec has done so. `scales` and `codes` need no alignment. Pure. May be called from any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atolld {

enum class ScaledForm { kInt8, kInt4 };

inline constexpr size_t kInt8BlockElements = 256;
inline constexpr size_t kInt4BlockElements = 64;

// The largest floats s for which 127 * s and 7 * s are finite. If absmax is close to FLT_MAX,
// absmax / most may be rounded to a value above them.
inline constexpr float kInt8MaxScale = 0x1.020406p+121f;
inline constexpr float kInt4MaxScale = 0x1.249248p+125f;

inline constexpr size_t BlockElements(ScaledForm form) {
  return form == ScaledForm::kInt8 ? kInt8BlockElements : kInt4BlockElements;
}
inline constexpr float MaxScale(ScaledForm form) {
  return form == ScaledForm::kInt8 ? kInt8MaxScale : kInt4MaxScale;
}
// The bytes of the scales of `elements` values, and of their codes. A whole block of int4 has an
// even number of values, so only the last byte of a chunk can be half empty.
inline constexpr size_t ScaleBytes(ScaledForm form, size_t elements) {
  const size_t block = BlockElements(form);
  return (elements / block + (elements % block != 0 ? 1 : 0)) * sizeof(float);
}
inline constexpr size_t CodeBytes(ScaledForm form, size_t elements) {
  return form == ScaledForm::kInt8 ? elements : elements / 2 + elements % 2;
}

// Writes the scales (ScaleBytes bytes) and codes (CodeBytes bytes) of the values. Rounds
// stochastically with `key`, or to nearest even if it is null. Returns false, with the output
// unspecified, if a value is not finite.
bool EncodeScaled(ScaledForm form, const float* values, size_t elements, const uint64_t* key,
                  uint8_t* scales, uint8_t* codes);

// The way in which values are written to memory. kStreamed writes directly to memory, so that the
// memory to be overwritten need not be read into the caches first. It only has an effect for int8
// and for values at aligned addresses.
enum class ScaledStore { kCached, kStreamed };

// Sets values[i] = code[i] * scale. Returns false, with `values` unspecified, if a code is -128
// (int8) or -8 (int4), which no encoder writes. Each scale
// must be valid (see CheckScales in codec.h).
bool DecodeScaled(ScaledForm form, const uint8_t* scales, const uint8_t* codes, size_t elements,
                  ScaledStore store, float* values);

// Sets *norm to the result of Codec::SquaredNorm. Each scale must be valid. Returns false, with
// *norm unspecified, if a code is -128 (int8) or -8 (int4).
bool SquaredNormScaled(ScaledForm form, const uint8_t* scales, const uint8_t* codes,
                       size_t elements, double* norm);

// Returns true if these `bytes` bytes of codes contain a -128 (int8) or -8 (int4).
bool HasForbiddenCode(ScaledForm form, const uint8_t* codes, size_t bytes);

// Sets sum[i] = sum[i] + weight * (code[i] * scale). Scales and codes must be valid.
void DecodeAccumulateScaled(ScaledForm form, const uint8_t* scales, const uint8_t* codes,
                            size_t elements, float weight, float* sum);

// A chunk of a sum. Its scales must be valid; its codes need not be.
struct Int8Term {
  const uint8_t* scales;
  const uint8_t* codes;
  float weight;
};

// Computes sum[i] = +0, then sum[i] = sum[i] + weight * (code[i] * scale) for each term in order,
// then sum[i] = sum[i] * factor. Returns false, with `sum` unspecified, if a code is -128.
bool DecodeSumInt8(const Int8Term* terms, size_t count, size_t elements, float factor, float* sum);

}  // namespace atolld

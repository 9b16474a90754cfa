// The loops of the fp16 and bf16 codecs, compiled once a SIMD target and chosen at run time; same
// bits on every target.
//
// Halves are made and read in integer code, since a CPU's own conversions differ between targets;
// the additions that round a number below fp16's normal range are correctly rounded everywhere.
// Spans are trusted: the codec has checked every length. Bytes need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atolld {

enum class HalfForm { kFp16, kBf16 };

// Rounds to nearest, ties to even; what would round to infinity becomes the largest finite half.
// False, with `bytes` unspecified, if a value is not finite.
bool EncodeHalves(HalfForm form, const float* values, size_t elements, uint8_t* bytes);

// False, with `values` unspecified, if a half is not finite.
bool DecodeHalves(HalfForm form, const uint8_t* bytes, size_t elements, float* values);

bool HalvesFinite(HalfForm form, const uint8_t* bytes, size_t elements);

// sum[i] = sum[i] + weight * value[i]. The halves must be finite.
void DecodeAccumulateHalves(HalfForm form, const uint8_t* bytes, size_t elements, float weight,
                            float* sum);

}  // namespace atolld

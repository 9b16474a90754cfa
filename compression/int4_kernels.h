// The loops of the int4 codec, compiled once a SIMD target and chosen at run time; the law is
// int8_kernels.h's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/rounding.h"

namespace atolld {

// Writes Int4Blocks(elements) scales and Int4CodeBytes(elements) bytes of codes. False, with the
// output unspecified, if a value is not finite.
bool EncodeInt4(const float* values, size_t elements, const Rounding& rounding, uint8_t* scales,
                uint8_t* codes);

// values[i] = code[i] * scale. False, with `values` unspecified, if a code is -8. The scales must
// be valid.
bool DecodeInt4(const uint8_t* scales, const uint8_t* codes, size_t elements, float* values);

// *norm = Codec::SquaredNorm of valid scales. False, with *norm unspecified, if a code is -8.
bool SquaredNormInt4(const uint8_t* scales, const uint8_t* codes, size_t elements, double* norm);

// Whether one of so many bytes holds the code -8, which the encoder never writes.
bool HasForbiddenInt4Code(const uint8_t* codes, size_t bytes);

// sum[i] = sum[i] + weight * (code[i] * scale). Scales and codes must be valid.
void DecodeAccumulateInt4(const uint8_t* scales, const uint8_t* codes, size_t elements,
                          float weight, float* sum);

}  // namespace atolld

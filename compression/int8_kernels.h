// The loops of the int8 codec, compiled once a SIMD target and chosen at run time.
//
// They give the same bits on every target: only adds, multiplies and one division a block, each
// rounded on its own; no fused operation, no estimate, no float sum across lanes (see int8_format.h
// for the arithmetic). Spans are trusted: the codec has checked every length and scale. `scales`
// and `codes` need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/rounding.h"

namespace atolld {

// Writes Int8Blocks(elements) scales and `elements` codes. False, with the output unspecified, if a
// value is not finite.
bool EncodeInt8(const float* values, size_t elements, const Rounding& rounding, uint8_t* scales,
                uint8_t* codes);

// Streamed: past the caches, which saves reading what is about to be overwritten. Values at odd
// addresses are written through them all the same.
enum class Int8Store { kCached, kStreamed };

// values[i] = code[i] * scale. False, with `values` unspecified, if a code is -128. The scales must
// be valid.
bool DecodeInt8(const uint8_t* scales, const uint8_t* codes, size_t elements, Int8Store store,
                float* values);

// *norm = Codec::SquaredNorm of valid scales. False, with *norm unspecified, if a code is -128.
bool SquaredNormInt8(const uint8_t* scales, const uint8_t* codes, size_t elements, double* norm);

// Whether a code is -128, which the encoder never writes.
bool HasForbiddenInt8Code(const uint8_t* codes, size_t elements);

// sum[i] = sum[i] + weight * (code[i] * scale). Scales and codes must be valid.
void DecodeAccumulateInt8(const uint8_t* scales, const uint8_t* codes, size_t elements,
                          float weight, float* sum);

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

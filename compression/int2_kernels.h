// The loops of two-bit codes, compiled once a SIMD target and chosen at run time; same bits on
// every target (int2_format.h gives the arithmetic).
//
// Each works on one block of 1 to kInt2BlockElements values. Spans are trusted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/int2_format.h"

namespace atolld {

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

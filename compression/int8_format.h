// The int8 format: what the bytes of a chunk mean. Shared by the codec and its kernels.
//
//   chunk of n values = ceil(n / 256) scales (fp32, little-endian), then n codes (int8)
//   value = code * scale
//
// Encoding a block of up to 256 values, every operation rounded to fp32 on its own, ties to even:
//   absmax  = max |x|, found on the bits: NaN and infinity show as 0x7f800000 or more
//   scale   = min(absmax / 127, kInt8MaxScale); below 2^-100 the block is zero: scale +0, codes 0
//   inverse = 1 / scale
//   code    = round(x * inverse); |code| <= 127 without a clamp: the product exceeds 127 by a few
//             ulps at most
//
// Division and multiplication are correctly rounded on every target, so is adding 1.5 * 2^23, which
// rounds a small float to an integer in the low bits of its mantissa: that is how the kernels
// round.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atolld {

inline constexpr size_t kInt8BlockElements = 256;

// The largest float s for which 127 * s is finite: absmax / 127 may round up past it when absmax
// nears FLT_MAX.
inline constexpr float kInt8MaxScale = 0x1.020406p+121f;

inline constexpr size_t Int8Blocks(size_t elements) {
  return elements / kInt8BlockElements + (elements % kInt8BlockElements != 0 ? 1 : 0);
}
inline constexpr size_t Int8Bytes(size_t elements) {
  return Int8Blocks(elements) * sizeof(float) + elements;
}

}  // namespace atolld

// The int4 format: what the bytes of a chunk mean. Shared by the codec and its kernels.
//
//   chunk of n values = ceil(n / 64) scales (fp32, little-endian), then the codes, two a byte
//   value = code * scale, code from -7 to 7 in two's complement
//
// A block of t values has h = ceil(t / 2) bytes of codes: the low half of byte j is code j, the
// high half code j + h (of the last byte of an odd block: 0). So no bits cross a vector's lanes,
// and a byte's two codes are as independent as any two: a zstd frame's byte-wise entropy coder gets
// nearly all that a coder of single codes would.
//
// Encoding is int8's (int8_format.h) with 7 for 127 and 64 for 256. 4.5 bits a value; relative
// error about 10 % on Gaussian values and measured pseudo-gradients, lossless in effect for
// training.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atolld {

inline constexpr size_t kInt4BlockElements = 64;

// The largest float s for which 7 * s is finite.
inline constexpr float kInt4MaxScale = 0x1.249248p+125f;

inline constexpr size_t Int4Blocks(size_t elements) {
  return elements / kInt4BlockElements + (elements % kInt4BlockElements != 0 ? 1 : 0);
}
// A whole block has an even number of values, so only the last byte of a chunk can be half empty.
inline constexpr size_t Int4CodeBytes(size_t elements) { return elements / 2 + elements % 2; }
inline constexpr size_t Int4Bytes(size_t elements) {
  return Int4Blocks(elements) * sizeof(float) + Int4CodeBytes(elements);
}

}  // namespace atolld

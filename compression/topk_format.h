// The topk format: of every 4096 values only the largest are sent (SparseLoCo, arXiv 2508.15706).
//
//   chunk = its blocks of up to 4096 values, one after the other; a block of t values is
//     header  u16 LE: bits 0-12 the count of values sent, bit 13 their form, bits 14-15 are 0
//     places  of the values in the block, ascending: 12 bits each, low bits first, the last byte's
//             unused half 0; or, where that is shorter, a bitmap: bit i % 8 of byte i / 8
//     values  form 0: a codebook and codes of two bits, as one int2 block of that many values
//             form 1: bf16 each, in the order of their places
//   A block of which nothing is sent is a header of 0.
//
// An *update* has form 0 and the ceil(t / 64) values of largest magnitude (of equal ones the
// earlier; never a zero; none if all are below 2^-100): 64 of 4096, 130 bytes for 16384, 1/126. A
// *mean* has form 1 and every value that is not zero: the union of what its contributors sent, and
// no choice is made among them a second time. Rounding to bf16 costs at most 2^-9 of a value, where
// the two bits before it cost some 12 %.
//
// What is left out belongs into the sender's residual: without error feedback topk trains badly.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "compression/int2_format.h"

namespace atolld {

inline constexpr size_t kTopkBlockElements = 4096;
inline constexpr size_t kTopkOneIn = 64;  // 64 of 4096

inline constexpr size_t TopkBlocks(size_t elements) {
  return elements / kTopkBlockElements + (elements % kTopkBlockElements != 0 ? 1 : 0);
}
// The most values that an update has of a block.
inline constexpr size_t TopkKept(size_t elements) {
  return elements / kTopkOneIn + (elements % kTopkOneIn != 0 ? 1 : 0);
}
inline constexpr size_t TopkListBytes(size_t count) { return count / 2 * 3 + count % 2 * 2; }
inline constexpr size_t TopkBitmapBytes(size_t elements) {
  return elements / 8 + (elements % 8 != 0 ? 1 : 0);
}
// The most that a block can take: a bitmap, and all its values, or the codes of an update.
inline constexpr size_t TopkMaxBlockBytes(size_t elements) {
  return elements == 0 ? 0
                       : sizeof(uint16_t) + TopkBitmapBytes(elements) +
                             std::max(elements * sizeof(uint16_t),
                                      kInt2CodebookBytes + Int2CodeBytes(TopkKept(elements)));
}

}  // namespace atolld

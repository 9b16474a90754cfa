// The topk codec: of every 4096 values the 64 of largest magnitude, in two bits each; 1/126 of
// fp32.
//
// It is SparseLoCo's: with error feedback of decay 0.95 and no outer momentum it trains a model as
// DiLoCo does, at a hundredth of the bytes. Means keep every value that a contributor has sent, so
// an entry is larger than an update.
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

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compression/codec.h"
#include "compression/int2_codec.h"

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

class TopkCodec final : public Codec {
 public:
  absl::string_view name() const override { return "topk"; }
  size_t block_elements() const override { return kTopkBlockElements; }
  size_t MaxEncodedBytes(size_t elements) const override;
  bool has_fixed_rate() const override { return false; }
  absl::StatusOr<size_t> Encode(absl::Span<const float> values,
                                absl::Span<uint8_t> out) const override;
  absl::StatusOr<size_t> EncodeMean(absl::Span<const float> values,
                                    absl::Span<uint8_t> out) const override;
  absl::Status Check(absl::Span<const uint8_t> bytes, size_t elements) const override;
  absl::Status Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const override;
  // Where nothing was sent the sum stays as it is.
  absl::Status DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                absl::Span<float> sum) const override;
};

enum class SparseForm : uint8_t { kUpdate = 0, kMean = 1 };

// One block, between its bytes and its values. Places are ascending and below the block's elements.
struct SparseBlock {
  size_t count = 0;
  uint16_t places[kTopkBlockElements];
  float values[kTopkBlockElements];
};

// Writes the block and returns its bytes, at most TopkMaxBlockBytes(elements). An update's values
// are quantised; a mean's are rounded. All must be finite, an update's count at most
// TopkKept(elements).
size_t WriteSparseBlock(const SparseBlock& block, SparseForm form, size_t elements, uint8_t* out);

// Reads the block at the beginning of `bytes` and returns how many bytes it has. INVALID_ARGUMENT
// names what is wrong; `block` is then unspecified.
absl::StatusOr<size_t> ReadSparseBlock(absl::Span<const uint8_t> bytes, size_t elements,
                                       SparseBlock* block);

}  // namespace atolld

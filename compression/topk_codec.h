// The topk codec: of every 4096 values, it sends the 64 of largest magnitude in two bits each. This
// takes 1/126 of the bytes of fp32.
//
// It is SparseLoCo's codec. With error feedback of decay 0.95 and without outer momentum it trains
// a model as well as DiLoCo with a hundredth of the bytes. A mean keeps every value that a
// contributor has sent, so an entry is larger than an update.
//
//   chunk = its blocks of up to 4096 values, one after the other; a block of t values is
//     header  u16 LE: bits 0-12 the count of values sent, bit 13 their form, bits 14-15 are 0
//     places  of the values in the block, ascending: 12 bits each, low bits first, the last byte's
//             unused half 0; or, where that is shorter, a bitmap: bit i % 8 of byte i / 8
//     values  form 0: a codebook and codes of two bits, as one int2 block of that many values
//             form 1: bf16 each, in the order of their places
//   If nothing of a block is sent, the block is only a header of 0.
//
// An *update* has form 0 and the ceil(t / 64) values of largest magnitude; among equal magnitudes
// it has the earlier ones. A block of 4096 values, which are 16384 bytes of fp32, becomes 130
// bytes. An update never has a zero, and a block has no values if all are below 2^-100. A *mean*
// has form 1 and every value that is not zero; it is the union of what its contributors sent,
// without a second selection. Rounding a mean to bf16 changes a value by at most 2^-9 of it, while
// the two bits of the updates already have an error of some 12 %.
//
// The values that are not sent must go into the sender's residual, because topk trains badly
// without error feedback. Immutable, therefore thread-safe.
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
inline constexpr size_t kTopkOneIn = 64;  // one value of this many is sent

// The greatest number of values that an update has of a block of `elements` values.
inline constexpr size_t TopkKept(size_t elements) {
  return elements / kTopkOneIn + (elements % kTopkOneIn != 0 ? 1 : 0);
}
inline constexpr size_t TopkListBytes(size_t count) { return count / 2 * 3 + count % 2 * 2; }
inline constexpr size_t TopkBitmapBytes(size_t elements) {
  return elements / 8 + (elements % 8 != 0 ? 1 : 0);
}
// The greatest number of bytes of a block: a header, a bitmap, and either all its values or the
// codes of an update.
inline constexpr size_t TopkMaxBlockBytes(size_t elements) {
  return elements == 0 ? 0
                       : sizeof(uint16_t) + TopkBitmapBytes(elements) +
                             std::max(elements * sizeof(uint16_t),
                                      kInt2CodebookBytes + Int2CodeBytes(TopkKept(elements)));
}

class TopkCodec final : public Codec {
 public:
  absl::string_view name() const override { return "topk"; }
  size_t MaxEncodedBytes(size_t elements) const override;
  bool has_fixed_rate() const override { return false; }
  absl::StatusOr<size_t> Encode(absl::Span<const float> values,
                                absl::Span<uint8_t> out) const override;
  absl::StatusOr<size_t> EncodeMean(absl::Span<const float> values,
                                    absl::Span<uint8_t> out) const override;
  absl::Status Check(absl::Span<const uint8_t> bytes, size_t elements) const override;
  absl::Status Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const override;
  // Leaves the sum unchanged where no value was sent.
  absl::Status DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                absl::Span<float> sum) const override;
};

enum class SparseForm : uint8_t { kUpdate = 0, kMean = 1 };

// The values of one block that are sent, with their places in the block. Places are ascending and
// below the number of the block's values.
struct SparseBlock {
  size_t count = 0;
  uint16_t places[kTopkBlockElements];
  float values[kTopkBlockElements];
};

// Writes the block and returns the number of bytes, which is at most TopkMaxBlockBytes(elements).
// The values of an update are quantised to two bits; those of a mean are rounded to bf16. All
// values must be finite, and the count of an update must be at most TopkKept(elements).
size_t WriteSparseBlock(const SparseBlock& block, SparseForm form, size_t elements, uint8_t* out);

// Reads the block at the beginning of `bytes` and returns how many bytes it takes. Fails with
// INVALID_ARGUMENT if the bytes are not valid; the message says why, and `block` is then
// unspecified.
absl::StatusOr<size_t> ReadSparseBlock(absl::Span<const uint8_t> bytes, size_t elements,
                                       SparseBlock* block);

}  // namespace atolld

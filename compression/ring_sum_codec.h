// RingSumCodec: a codec for chunks of ring elements (see ring_codec.h), masked or not. It lets an
// exchange handle them like other chunks: reducers and relays add them in the same way as they
// average other chunks.
//
// An encoded chunk consists of its packed elements. The mean of several chunks is their sum in the
// ring. The codec ignores weights and factors: each party multiplies its update by its weight
// beforehand, and the factor is applied after the masks are removed. The result of additions in the
// ring does not depend on their order and is never rounded, so a reducer's sum of relays' sums
// equals the sum of all chunks.
//
// The codec does not encode values, because a party does that (it calls EncodeRing and then adds
// its masks). Any bytes of the right length are valid elements, so a peer that sums never receives
// a chunk that it cannot decode. An element is decoded to its two's-complement number as fp32,
// which means nothing while the masks are on. The squared norm is therefore always 0. Immutable,
// therefore thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/codec.h"
#include "compression/ring_codec.h"

namespace atolld {

class RingSumCodec final : public Codec {
 public:
  // `bytes` is the size of an element (see RingForm::bytes).
  explicit RingSumCodec(uint32_t bytes) : ring_{bytes, 1} {}

  absl::string_view name() const override;  // "ring16", "ring24" or "ring32"
  size_t MaxEncodedBytes(size_t elements) const override { return elements * ring_.bytes; }
  // Always fails with INVALID_ARGUMENT.
  absl::StatusOr<size_t> Encode(absl::Span<const float> values,
                                absl::Span<uint8_t> out) const override;
  absl::Status Check(absl::Span<const uint8_t> bytes, size_t elements) const override;
  absl::Status Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const override;
  bool has_squared_norm() const override { return true; }
  absl::StatusOr<double> SquaredNorm(absl::Span<const uint8_t> bytes,
                                     size_t elements) const override;
  absl::Status DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                absl::Span<float> sum) const override;
  absl::StatusOr<size_t> EncodeSum(absl::Span<const WeightedChunk> chunks, float factor,
                                   size_t elements, absl::Span<uint8_t> out) const override;

 private:
  const RingForm ring_;
};

// Returns the codec of masked runs, which is never destroyed. FindCodec does not return it, because
// no config may name it.
const RingSumCodec& MaskedSumCodec();

}  // namespace atolld

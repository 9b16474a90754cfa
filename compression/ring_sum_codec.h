// RingSumCodec: chunks of ring elements (ring_codec.h), masked or not, as what an exchange carries,
// so that reducers and relays sum them as they average anything else.
//
// An encoded chunk is its elements, packed. The mean of several is their sum in the ring: weights
// are multiplied in before, by each party, and a factor comes after the masks are off, so both are
// left alone here. Addition has no order and no rounding: a relay's sum of some and a reducer's sum
// of those are the sum of all.
//
// It makes nothing of values: a party does (EncodeRing, then its masks). Any bytes of the right
// length are elements, so nobody who sums can be given what cannot be decoded. Decoded, an element
// is its number in two's complement, as fp32: of use to nobody while masks are on. For the same
// reason the squared norm is 0: there is nothing to judge.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/codec.h"
#include "compression/ring_codec.h"

namespace atolld {

class RingSumCodec final : public Codec {
 public:
  // `bytes`: of an element, as RingForm's.
  explicit RingSumCodec(uint32_t bytes) : ring_{bytes, 1} {}

  absl::string_view name() const override;  // "ring16", "ring24", "ring32"
  size_t block_elements() const override { return kRingBlockElements; }
  size_t MaxEncodedBytes(size_t elements) const override { return elements * ring_.bytes; }
  // INVALID_ARGUMENT always.
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

// That of masked runs. No codec of FindCodec: no config names it. Lives forever.
const RingSumCodec& MaskedSumCodec();

}  // namespace atolld

// The int8 codec: a byte a value and one fp32 scale for every 256, the largest magnitude of a block
// mapped to 127.
//
// Relative error about 0.7 % on Gaussian values and on measured pseudo-gradients, lossless in
// effect for training. int8_format.h gives the layout and the exact arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/codec.h"
#include "compression/int8_format.h"

namespace atolld {

class Int8Codec final : public Codec {
 public:
  absl::string_view name() const override { return "int8"; }
  size_t block_elements() const override { return kInt8BlockElements; }
  size_t MaxEncodedBytes(size_t elements) const override { return Int8Bytes(elements); }
  absl::StatusOr<size_t> Encode(absl::Span<const float> values,
                                absl::Span<uint8_t> out) const override;
  bool has_stochastic_rounding() const override { return true; }
  absl::StatusOr<size_t> EncodeStochastic(absl::Span<const float> values, uint64_t key,
                                          absl::Span<uint8_t> out) const override;
  absl::Status Check(absl::Span<const uint8_t> bytes, size_t elements) const override;
  // On error `values` is unspecified.
  absl::Status Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const override;
  absl::Status DecodeToMemory(absl::Span<const uint8_t> bytes,
                              absl::Span<float> values) const override;
  bool has_squared_norm() const override { return true; }
  absl::StatusOr<double> SquaredNorm(absl::Span<const uint8_t> bytes,
                                     size_t elements) const override;
  absl::Status DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                absl::Span<float> sum) const override;
  absl::Status DecodeSum(absl::Span<const WeightedChunk> chunks, float factor,
                         absl::Span<float> sum) const override;
  absl::StatusOr<size_t> EncodeSum(absl::Span<const WeightedChunk> chunks, float factor,
                                   size_t elements, absl::Span<uint8_t> out) const override;
};

}  // namespace atolld

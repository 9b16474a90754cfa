// The fp32 codec: values as they are, little-endian. Exact; the yardstick for the others and the
// choice for audits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/codec.h"

namespace atolld {

class Fp32Codec final : public Codec {
 public:
  absl::string_view name() const override { return "fp32"; }
  size_t block_elements() const override { return 1; }
  size_t MaxEncodedBytes(size_t elements) const override { return elements * sizeof(float); }
  absl::StatusOr<size_t> Encode(absl::Span<const float> values,
                                absl::Span<uint8_t> out) const override;
  absl::Status Check(absl::Span<const uint8_t> bytes, size_t elements) const override;
  absl::Status Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const override;
  absl::Status DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                absl::Span<float> sum) const override;
};

}  // namespace atolld

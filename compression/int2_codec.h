// The int2 codec: two bits a value, which choose one of four values that fit a block of 4096.
//
// Without error feedback it loses too much; with it, two bits train about as well as four (MuLoCo,
// arXiv 2505.23725). int2_format.h gives the layout and the exact arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/codec.h"
#include "compression/int2_format.h"

namespace atolld {

class Int2Codec final : public Codec {
 public:
  absl::string_view name() const override { return "int2"; }
  size_t block_elements() const override { return kInt2BlockElements; }
  size_t MaxEncodedBytes(size_t elements) const override { return Int2Bytes(elements); }
  absl::StatusOr<size_t> Encode(absl::Span<const float> values,
                                absl::Span<uint8_t> out) const override;
  absl::Status Check(absl::Span<const uint8_t> bytes, size_t elements) const override;
  absl::Status Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const override;
  absl::Status DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                absl::Span<float> sum) const override;
};

// Reads a codebook. INVALID_ARGUMENT names the entry that is neither +0 nor finite and from 2^-100.
absl::Status ReadCodebook(const uint8_t* bytes, float* codebook);

// Whether all bits of the codes of a block that stand for no value are 0.
bool Int2PaddingIsZero(const uint8_t* bytes, size_t elements);

}  // namespace atolld

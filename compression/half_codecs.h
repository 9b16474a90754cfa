// The fp16 and bf16 codecs: two bytes a value, little-endian, rounded to nearest even.
//
// Both are lossless in effect for training. fp16 has 11 significant bits and reaches from 6e-8 to
// 65504; bf16 has 8 and fp32's whole range. A value beyond the largest finite half is sent as that
// half, so a finite update stays finite; a half that is NaN or infinite is refused.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/codec.h"
#include "compression/half_kernels.h"

namespace atolld {

class HalfCodec : public Codec {
 public:
  size_t block_elements() const override { return 1; }
  size_t MaxEncodedBytes(size_t elements) const override { return elements * sizeof(uint16_t); }
  absl::StatusOr<size_t> Encode(absl::Span<const float> values,
                                absl::Span<uint8_t> out) const override;
  absl::Status Check(absl::Span<const uint8_t> bytes, size_t elements) const override;
  absl::Status Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const override;
  absl::Status DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                absl::Span<float> sum) const override;

 protected:
  explicit HalfCodec(HalfForm form) : form_(form) {}

 private:
  const HalfForm form_;
};

class Fp16Codec final : public HalfCodec {
 public:
  Fp16Codec() : HalfCodec(HalfForm::kFp16) {}
  absl::string_view name() const override { return "fp16"; }
};

class Bf16Codec final : public HalfCodec {
 public:
  Bf16Codec() : HalfCodec(HalfForm::kBf16) {}
  absl::string_view name() const override { return "bf16"; }
};

}  // namespace atolld

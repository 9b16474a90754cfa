// The codecs of plain floats, little-endian: fp32, fp16 and bf16.
//
// fp32 is exact: the yardstick for the others and the choice for audits. The halves take two bytes
// a value, rounded to nearest even, and are lossless in effect for training. fp16 has 11
// significant bits and reaches from 6e-8 to 65504; bf16 has 8 and fp32's whole range. A value
// beyond the largest finite half is sent as that half, so a finite update stays finite; a half that
// is NaN or infinite is refused.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/codec.h"

namespace atolld {

enum class HalfForm { kFp16, kBf16 };

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

// The loops of halves, compiled once a SIMD target and chosen at run time; same bits on every
// target. Halves are made and read in integer code, since a CPU's own conversions differ between
// targets; the additions that round a number below fp16's normal range are correctly rounded
// everywhere. Spans are trusted: the codec has checked every length. Bytes need no alignment.

// Rounds to nearest, ties to even; what would round to infinity becomes the largest finite half.
// False, with `bytes` unspecified, if a value is not finite.
bool EncodeHalves(HalfForm form, const float* values, size_t elements, uint8_t* bytes);

// False, with `values` unspecified, if a half is not finite.
bool DecodeHalves(HalfForm form, const uint8_t* bytes, size_t elements, float* values);

bool HalvesFinite(HalfForm form, const uint8_t* bytes, size_t elements);

// sum[i] = sum[i] + weight * value[i]. The halves must be finite.
void DecodeAccumulateHalves(HalfForm form, const uint8_t* bytes, size_t elements, float weight,
                            float* sum);

}  // namespace atolld

// The codecs that store values as plain little-endian floats: fp32, fp16 and bf16.
//
// fp32 is exact. The other codecs are compared with it, and it is the codec to choose for audits.
// fp16 and bf16 (the halves) take two bytes a value and round to nearest even; training with them
// loses practically nothing. fp16 has 11 significant bits and a range from 6e-8 to 65504; bf16 has
// 8 significant bits and the whole range of fp32. A value beyond the largest finite half is sent as
// that half, so a finite update stays finite. A decoder refuses a half that is NaN or infinite.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/codec.h"

namespace atolld {

enum class HalfForm { kFp16, kBf16 };

class Fp32Codec final : public Codec {
 public:
  absl::string_view name() const override { return "fp32"; }
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

// The loops over halves are compiled once for each SIMD target and chosen at run time; they give
// the same bits on every target. Halves are converted in integer code, since the conversions of
// CPUs differ between targets. Only numbers below fp16's normal range are rounded by additions,
// which are correctly rounded on every target. The functions do not check lengths, because the
// codec has done so. Bytes need no alignment.

// Rounds to nearest, with ties to even. A value that would round to infinity becomes the largest
// finite half. Returns false, with `bytes` unspecified, if a value is not finite.
bool EncodeHalves(HalfForm form, const float* values, size_t elements, uint8_t* bytes);

// Returns false, with `values` unspecified, if a half is not finite.
bool DecodeHalves(HalfForm form, const uint8_t* bytes, size_t elements, float* values);

bool HalvesFinite(HalfForm form, const uint8_t* bytes, size_t elements);

// Sets sum[i] = sum[i] + weight * value[i]. The halves must be finite.
void DecodeAccumulateHalves(HalfForm form, const uint8_t* bytes, size_t elements, float weight,
                            float* sum);

}  // namespace atolld

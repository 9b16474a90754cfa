#include "worker/hub/dtype.h"

#include <cmath>
#include <cstring>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

float FromHalf(uint16_t half) {
  const float sign = (half & 0x8000u) != 0 ? -1.0f : 1.0f;
  const int exponent = (half >> 10) & 0x1f;
  const auto mantissa = static_cast<float>(half & 0x3ffu);
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  return sign * std::ldexp(1024.0f + mantissa, exponent - 25);
}

uint16_t ToBfloat(float value) {
  const auto bits = absl::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    if (name == DTypeName(type)) return type;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("dtype ", name, " is not read; F32, F16 and BF16 are"));
}

absl::string_view DTypeName(DType type) {
  return type == DType::kF32 ? "F32" : type == DType::kF16 ? "F16" : "BF16";
}

uint64_t DTypeBytes(DType type) { return type == DType::kF32 ? 4 : 2; }

void ToFloats(DType type, absl::Span<const uint8_t> bytes, absl::Span<float> out) {
  if (type == DType::kF32) {
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
    return;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, bytes.data() + 2 * i, sizeof bits);
    out[i] = type == DType::kF16 ? FromHalf(bits)
                                 : absl::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
}

void FromFloats(DType type, absl::Span<const float> values, absl::Span<uint8_t> out) {
  if (type == DType::kF32) {
    if (!values.empty()) std::memcpy(out.data(), values.data(), values.size() * sizeof(float));
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = ToBfloat(values[i]);
    std::memcpy(out.data() + 2 * i, &bits, sizeof bits);
  }
}

}  // namespace atolld

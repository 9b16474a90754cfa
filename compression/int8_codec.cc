#include "compression/int8_codec.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "compression/codec_errors.h"
#include "compression/fp32_kernels.h"
#include "compression/int8_kernels.h"

namespace atolld {
namespace {

#if !defined(ABSL_IS_LITTLE_ENDIAN)
#error "Scales are little-endian and are copied as they lie in memory"
#endif

absl::Status CheckScales(const uint8_t* scales, size_t blocks) {
  for (size_t block = 0; block < blocks; ++block) {
    uint32_t bits;
    std::memcpy(&bits, scales + block * sizeof(bits), sizeof(bits));
    if (bits == 0 || (bits >= kInt8MinScaleBits && bits <= kInt8MaxScaleBits)) continue;
    float scale;
    std::memcpy(&scale, &bits, sizeof(scale));
    return absl::InvalidArgumentError(absl::StrCat("the scale of block ", block, " is ", scale,
                                                   ", not 0 or from 2^-100 to ", kInt8MaxScale));
  }
  return absl::OkStatus();
}

absl::Status FirstForbiddenCode(const uint8_t* codes, size_t elements) {
  size_t i = 0;
  while (i < elements && codes[i] != 0x80) ++i;
  return absl::InvalidArgumentError(absl::StrCat("code ", i, " is -128"));
}

absl::Status CheckShape(absl::Span<const uint8_t> bytes, size_t elements) {
  if (bytes.size() != Int8Bytes(elements))
    return WrongLength(bytes.size(), Int8Bytes(elements), elements);
  return CheckScales(bytes.data(), Int8Blocks(elements));
}

}  // namespace

absl::StatusOr<size_t> Int8Codec::Encode(absl::Span<const float> values,
                                         absl::Span<uint8_t> out) const {
  const size_t needed = Int8Bytes(values.size());
  if (out.size() < needed) return OutputTooSmall(out.size(), needed);
  if (values.empty()) return needed;
  uint8_t* codes = out.data() + Int8Blocks(values.size()) * sizeof(float);
  if (!EncodeInt8(values.data(), values.size(), out.data(), codes))
    return FirstNotFinite(values, 0);
  return needed;
}

absl::Status Int8Codec::Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const {
  const absl::Status shape = CheckShape(bytes, values.size());
  if (!shape.ok() || values.empty()) return shape;
  const uint8_t* codes = bytes.data() + Int8Blocks(values.size()) * sizeof(float);
  if (!DecodeInt8(bytes.data(), codes, values.size(), values.data())) {
    return FirstForbiddenCode(codes, values.size());
  }
  return absl::OkStatus();
}

absl::Status Int8Codec::DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                         absl::Span<float> sum) const {
  if (!AllFinite(&weight, 1)) return WeightNotFinite();
  const absl::Status shape = CheckShape(bytes, sum.size());
  if (!shape.ok() || sum.empty()) return shape;
  const uint8_t* codes = bytes.data() + Int8Blocks(sum.size()) * sizeof(float);
  if (HasForbiddenInt8Code(codes, sum.size())) return FirstForbiddenCode(codes, sum.size());
  DecodeAccumulateInt8(bytes.data(), codes, sum.size(), weight, sum.data());
  return absl::OkStatus();
}

}  // namespace atolld

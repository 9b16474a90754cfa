#include "compression/codec_errors.h"

#include <cstddef>
#include <cstring>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "compression/fp32_kernels.h"

namespace atolld {
namespace {

#if !defined(ABSL_IS_LITTLE_ENDIAN)
#error "Scales are little-endian and are copied as they lie in memory"
#endif

constexpr uint32_t kLeastScaleBits = 0x0d800000;  // 2^-100

}  // namespace

absl::Status FirstNotFinite(absl::Span<const float> values, size_t begin, size_t offset) {
  size_t i = begin;
  while (i < values.size() && AllFinite(&values[i], 1)) ++i;
  return absl::InvalidArgumentError(absl::StrCat("value ", offset + i, " is not finite"));
}

absl::Status OutputTooSmall(size_t bytes, size_t needed) {
  return absl::InvalidArgumentError(
      absl::StrCat("the output has ", bytes, " bytes, encoding needs ", needed));
}

absl::Status WrongLength(size_t bytes, size_t needed, size_t elements) {
  return absl::InvalidArgumentError(
      absl::StrCat(bytes, " bytes do not hold ", elements, " values, which take ", needed));
}

absl::Status CheckScales(const uint8_t* scales, size_t blocks, float greatest) {
  uint32_t greatest_bits;
  std::memcpy(&greatest_bits, &greatest, sizeof(greatest_bits));
  for (size_t block = 0; block < blocks; ++block) {
    uint32_t bits;
    std::memcpy(&bits, scales + block * sizeof(bits), sizeof(bits));
    // Positive floats order as their bits do: what is too small, negative, infinite or NaN lies
    // outside.
    if (bits == 0 || (bits >= kLeastScaleBits && bits <= greatest_bits)) continue;
    float scale;
    std::memcpy(&scale, &bits, sizeof(scale));
    return absl::InvalidArgumentError(absl::StrCat("the scale of block ", block, " is ", scale,
                                                   ", not 0 or from 2^-100 to ", greatest));
  }
  return absl::OkStatus();
}

absl::Status WeightNotFinite() { return absl::InvalidArgumentError("the weight is not finite"); }

}  // namespace atolld

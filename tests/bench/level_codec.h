// LevelCodec: a codec for measurements. It encodes a value as a sign and one of a few levels, and
// gives each block of values one fp32 scale. A benchmark uses it to compare number formats that
// Atoll does not have with its own codecs at equal bytes.
//
//   chunk of n values = a scale a block (fp32, little-endian), then n codes of `bits` bits, packed
//   code = sign, then the place of the level;  value = level x scale
//
// A block is encoded like a block of int8 (compression/scaled_kernels.h): its scale is its largest
// magnitude / the greatest level, and +0 if that is below 2^-100. Each value becomes the nearest
// level; if two levels are equally near, it becomes the one with the even place. The loops are
// plain C++, so their speed says nothing about the format. Immutable, therefore thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compression/codec.h"

namespace atolld {

class LevelCodec final : public Codec {
 public:
  // `name` is a format and the values of a block, such as "e4m3@256". Formats are
  // - "e4m3" and "e5m2", the 8-bit floats of the Open Compute Project (OFP8), without their codes
  //   for infinity and NaN: greatest levels 448 and 57344;
  // - "e2m1", its 4-bit float: 0, 0.5, 1, 1.5, 2, 3, 4 and 6;
  // - "intB" with 2 to 8 bits, whose levels are 0 to 2^(B-1) - 1.
  // Fails with INVALID_ARGUMENT if the name is not of this kind.
  static absl::StatusOr<std::unique_ptr<LevelCodec>> Make(absl::string_view name);

  absl::string_view name() const override { return name_; }
  size_t MaxEncodedBytes(size_t elements) const override;
  absl::StatusOr<size_t> Encode(absl::Span<const float> values,
                                absl::Span<uint8_t> out) const override;
  // Checks only the length, because all bytes come from Encode.
  absl::Status Check(absl::Span<const uint8_t> bytes, size_t elements) const override;
  absl::Status Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const override;
  absl::Status DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                absl::Span<float> sum) const override;

 private:
  LevelCodec(absl::string_view name, uint32_t bits, size_t block, std::vector<float> levels);
  size_t ScaleBytes(size_t elements) const;
  uint32_t NearestLevel(float magnitude) const;

  const std::string name_;
  const uint32_t bits_;  // The bits of a code, including its sign.
  const size_t block_;
  const std::vector<float> levels_;  // In ascending order; the first is 0.
  std::vector<float> middles_;       // The point halfway between each level and the next.
};

}  // namespace atolld

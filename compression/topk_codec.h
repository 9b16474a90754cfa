// The topk codec: of every 4096 values the 64 of largest magnitude, in two bits each; 1/126 of
// fp32.
//
// It is SparseLoCo's: with error feedback of decay 0.95 and no outer momentum it trains a model as
// DiLoCo does, at a hundredth of the bytes. Means keep every value that a contributor has sent, so
// an entry is larger than an update. topk_format.h gives the layout.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/codec.h"
#include "compression/topk_format.h"

namespace atolld {

class TopkCodec final : public Codec {
 public:
  absl::string_view name() const override { return "topk"; }
  size_t block_elements() const override { return kTopkBlockElements; }
  size_t MaxEncodedBytes(size_t elements) const override;
  bool has_fixed_rate() const override { return false; }
  absl::StatusOr<size_t> Encode(absl::Span<const float> values,
                                absl::Span<uint8_t> out) const override;
  absl::StatusOr<size_t> EncodeMean(absl::Span<const float> values,
                                    absl::Span<uint8_t> out) const override;
  absl::Status Check(absl::Span<const uint8_t> bytes, size_t elements) const override;
  absl::Status Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const override;
  // Where nothing was sent the sum stays as it is.
  absl::Status DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                absl::Span<float> sum) const override;
};

}  // namespace atolld

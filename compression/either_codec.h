// EitherCodec: chunks of one of two codecs. The last byte of each says which: 0, the usual one; 1,
// the one for slow lines. So uneven peers may send in different codecs, and whoever has the bytes
// can read them.
//
// Of updates alone: a mean has one codec, whoever made it. Its norms are those of decoded values,
// whatever the two have. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compression/codec.h"

namespace atolld {

class EitherCodec final : public Codec {
 public:
  // Decodes both, and encodes the one or the other. They outlive it.
  EitherCodec(const Codec& usual, const Codec& slow, bool encodes_slow);

  absl::string_view name() const override { return name_; }  // "int8|int4", whichever it encodes
  size_t block_elements() const override { return chosen_.block_elements(); }
  size_t MaxEncodedBytes(size_t elements) const override;
  bool has_fixed_rate() const override { return false; }
  absl::StatusOr<size_t> Encode(absl::Span<const float> values,
                                absl::Span<uint8_t> out) const override;
  bool has_stochastic_rounding() const override { return chosen_.has_stochastic_rounding(); }
  absl::StatusOr<size_t> EncodeStochastic(absl::Span<const float> values, uint64_t key,
                                          absl::Span<uint8_t> out) const override;
  absl::Status Check(absl::Span<const uint8_t> bytes, size_t elements) const override;
  absl::Status Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const override;
  absl::Status DecodeToMemory(absl::Span<const uint8_t> bytes,
                              absl::Span<float> values) const override;
  absl::Status DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                absl::Span<float> sum) const override;
  absl::Status DecodeSum(absl::Span<const WeightedChunk> chunks, float factor,
                         absl::Span<float> sum) const override;

 private:
  // The bytes without the last one, and whose they are. INVALID_ARGUMENT: they do not say it.
  struct Inner {
    const Codec* codec;
    absl::Span<const uint8_t> bytes;
  };
  absl::StatusOr<Inner> InnerOf(absl::Span<const uint8_t> bytes) const;
  size_t Mark(size_t size, absl::Span<uint8_t> out) const;

  const Codec& usual_;
  const Codec& slow_;
  const Codec& chosen_;
  const std::string name_;
};

// The one that decodes chunks of these two, which are codecs of FindCodec and differ. Lives for
// ever.
const Codec& FindEitherCodec(const Codec& usual, const Codec& slow, bool encodes_slow);

}  // namespace atolld

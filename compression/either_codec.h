// EitherCodec: a codec in which each chunk is encoded with one of two other codecs. The last byte
// of a chunk says which: 0 is the usual codec, and 1 is the codec for slow lines. Peers with slow
// and fast lines may therefore send in different codecs, and every process can decode the bytes.
//
// It is used only for updates, because means always have the same codec. It has no SquaredNorm,
// even if both codecs have it, so norms are computed from decoded values. Immutable, therefore
// thread-safe.
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
  // The object can decode chunks of both codecs. It encodes with `slow` if `encodes_slow` is true,
  // and otherwise with `usual`. Both must outlive it.
  EitherCodec(const Codec& usual, const Codec& slow, bool encodes_slow);

  // Returns for example "int8|int4"; the name does not depend on the codec with which the object
  // encodes.
  absl::string_view name() const override { return name_; }
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
  // A chunk's bytes without the last one, and the codec with which they were encoded. InnerOf fails
  // with INVALID_ARGUMENT if the last byte is neither 0 nor 1.
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

// Returns the codec that decodes chunks of these two codecs, which must be different results of
// FindCodec. It is never destroyed.
const Codec& FindEitherCodec(const Codec& usual, const Codec& slow, bool encodes_slow);

}  // namespace atolld

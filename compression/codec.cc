#include "compression/codec.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"

namespace atolld {

absl::StatusOr<size_t> Codec::EncodeMean(absl::Span<const float> values,
                                         absl::Span<uint8_t> out) const {
  return Encode(values, out);
}

absl::StatusOr<size_t> Codec::EncodeStochastic(absl::Span<const float>, uint64_t,
                                               absl::Span<uint8_t>) const {
  return absl::InvalidArgumentError(absl::StrCat(name(), " has no stochastic rounding"));
}

absl::Status Codec::DecodeToMemory(absl::Span<const uint8_t> bytes,
                                   absl::Span<float> values) const {
  return Decode(bytes, values);
}

absl::StatusOr<double> Codec::SquaredNorm(absl::Span<const uint8_t>, size_t) const {
  return absl::InvalidArgumentError(absl::StrCat(name(), " has no codes to take a norm of"));
}

absl::Status Codec::DecodeSum(absl::Span<const WeightedChunk> chunks, float factor,
                              absl::Span<float> sum) const {
  std::fill(sum.begin(), sum.end(), 0.0f);
  for (const WeightedChunk& chunk : chunks) {
    const absl::Status status = DecodeAccumulate(chunk.bytes, chunk.weight, sum);
    if (!status.ok()) return status;
  }
  for (float& value : sum) value = value * factor;
  return absl::OkStatus();
}

absl::StatusOr<size_t> Codec::EncodeSum(absl::Span<const WeightedChunk> chunks, float factor,
                                        size_t elements, absl::Span<uint8_t> out) const {
  const std::unique_ptr<float[]> values(new float[elements]);
  const absl::Span<float> sum = absl::MakeSpan(values.get(), elements);
  const absl::Status summed = DecodeSum(chunks, factor, sum);
  if (!summed.ok()) return summed;
  return EncodeMean(sum, out);
}

}  // namespace atolld

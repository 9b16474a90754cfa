#include "compression/ring_sum_codec.h"

#include <vector>

#include "compression/base/status_macros.h"

namespace atolld {
namespace {

int32_t NumberOf(const RingForm& ring, uint32_t element) {
  const uint32_t sign = (ring.element_mask() >> 1) + 1;
  return static_cast<int32_t>((element ^ sign) - sign);
}

}  // namespace

absl::string_view RingSumCodec::name() const {
  return ring_.bytes == 2 ? "ring16" : ring_.bytes == 3 ? "ring24" : "ring32";
}

absl::StatusOr<size_t> RingSumCodec::Encode(absl::Span<const float> /*values*/,
                                            absl::Span<uint8_t> /*out*/) const {
  return absl::InvalidArgumentError(
      "ring elements are made by their party, with a weight and masks, and not from values alone");
}

absl::Status RingSumCodec::Check(absl::Span<const uint8_t> bytes, size_t elements) const {
  if (bytes.size() == MaxEncodedBytes(elements)) return absl::OkStatus();
  return WrongLength(bytes.size(), MaxEncodedBytes(elements), elements);
}

absl::Status RingSumCodec::Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const {
  std::vector<uint32_t> elements(values.size());
  RETURN_IF_ERROR(UnpackRing(ring_, bytes, absl::MakeSpan(elements)));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(NumberOf(ring_, elements[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> RingSumCodec::SquaredNorm(absl::Span<const uint8_t> bytes,
                                                 size_t elements) const {
  RETURN_IF_ERROR(Check(bytes, elements));
  return 0.0;
}

absl::Status RingSumCodec::DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                            absl::Span<float> sum) const {
  std::vector<float> values(sum.size());
  RETURN_IF_ERROR(Decode(bytes, absl::MakeSpan(values)));
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = sum[i] + weight * values[i];
  return absl::OkStatus();
}

absl::StatusOr<size_t> RingSumCodec::EncodeSum(absl::Span<const WeightedChunk> chunks,
                                               float /*factor*/, size_t elements,
                                               absl::Span<uint8_t> out) const {
  const size_t size = MaxEncodedBytes(elements);
  if (out.size() < size) return OutputTooSmall(out.size(), size);
  std::vector<uint32_t> sum(elements);
  std::vector<uint32_t> codes(elements);
  for (const WeightedChunk& chunk : chunks) {
    RETURN_IF_ERROR(UnpackRing(ring_, chunk.bytes, absl::MakeSpan(codes)));
    AddRing(ring_, codes, absl::MakeSpan(sum));
  }
  PackRing(ring_, sum, out.first(size));
  return size;
}

const RingSumCodec& MaskedSumCodec() {
  static const RingSumCodec codec(4);
  return codec;
}

}  // namespace atolld

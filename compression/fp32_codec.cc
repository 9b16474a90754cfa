#include "compression/fp32_codec.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/base/config.h"
#include "compression/codec_errors.h"
#include "compression/fp32_kernels.h"

namespace atolld {
namespace {

#if !defined(ABSL_IS_LITTLE_ENDIAN)
#error "Encoded floats are little-endian and are copied as they lie in memory"
#endif

// Checked and copied piece by piece, so that the second touch of a value finds it in the
// first-level cache.
constexpr size_t kPieceElements = 1024;

}  // namespace

absl::StatusOr<size_t> Fp32Codec::Encode(absl::Span<const float> values,
                                         absl::Span<uint8_t> out) const {
  const size_t needed = MaxEncodedBytes(values.size());
  if (out.size() < needed) return OutputTooSmall(out.size(), needed);
  for (size_t i = 0; i < values.size(); i += kPieceElements) {
    const size_t piece = std::min(kPieceElements, values.size() - i);
    if (!AllFinite(values.data() + i, piece)) return FirstNotFinite(values, i);
    std::memcpy(out.data() + i * sizeof(float), values.data() + i, piece * sizeof(float));
  }
  return needed;
}

absl::Status Fp32Codec::Check(absl::Span<const uint8_t> bytes, size_t elements) const {
  const size_t needed = MaxEncodedBytes(elements);
  if (bytes.size() != needed) return WrongLength(bytes.size(), needed, elements);
  // The bytes need not be aligned for floats.
  float piece_values[kPieceElements];
  for (size_t i = 0; i < elements; i += kPieceElements) {
    const size_t piece = std::min(kPieceElements, elements - i);
    std::memcpy(piece_values, bytes.data() + i * sizeof(float), piece * sizeof(float));
    if (!AllFinite(piece_values, piece)) return FirstNotFinite({piece_values, piece}, 0, i);
  }
  return absl::OkStatus();
}

absl::Status Fp32Codec::Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const {
  const size_t needed = MaxEncodedBytes(values.size());
  if (bytes.size() != needed) return WrongLength(bytes.size(), needed, values.size());
  for (size_t i = 0; i < values.size(); i += kPieceElements) {
    const size_t piece = std::min(kPieceElements, values.size() - i);
    std::memcpy(values.data() + i, bytes.data() + i * sizeof(float), piece * sizeof(float));
    if (!AllFinite(values.data() + i, piece)) return FirstNotFinite(values, i);
  }
  return absl::OkStatus();
}

absl::Status Fp32Codec::DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                         absl::Span<float> sum) const {
  if (!AllFinite(&weight, 1)) return WeightNotFinite();
  const absl::Status checked = Check(bytes, sum.size());
  if (!checked.ok()) return checked;
  float piece_values[kPieceElements];
  for (size_t i = 0; i < sum.size(); i += kPieceElements) {
    const size_t piece = std::min(kPieceElements, sum.size() - i);
    std::memcpy(piece_values, bytes.data() + i * sizeof(float), piece * sizeof(float));
    AccumulateScaled(piece_values, piece, weight, sum.data() + i);
  }
  return absl::OkStatus();
}

}  // namespace atolld

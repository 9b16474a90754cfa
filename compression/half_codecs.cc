#include "compression/half_codecs.h"

#include <cstddef>
#include <cstdint>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "compression/codec_errors.h"
#include "compression/fp32_kernels.h"

namespace atolld {
namespace {

#if !defined(ABSL_IS_LITTLE_ENDIAN)
#error "Halves are little-endian and are stored as they lie in memory"
#endif

absl::Status FirstHalfNotFinite(HalfForm form, absl::Span<const uint8_t> bytes) {
  size_t i = 0;
  while (2 * i < bytes.size() && HalvesFinite(form, bytes.data() + 2 * i, 1)) ++i;
  return absl::InvalidArgumentError(absl::StrCat("value ", i, " is not finite"));
}

}  // namespace

absl::StatusOr<size_t> HalfCodec::Encode(absl::Span<const float> values,
                                         absl::Span<uint8_t> out) const {
  const size_t needed = MaxEncodedBytes(values.size());
  if (out.size() < needed) return OutputTooSmall(out.size(), needed);
  if (!EncodeHalves(form_, values.data(), values.size(), out.data())) {
    return FirstNotFinite(values, 0);
  }
  return needed;
}

absl::Status HalfCodec::Check(absl::Span<const uint8_t> bytes, size_t elements) const {
  const size_t needed = MaxEncodedBytes(elements);
  if (bytes.size() != needed) return WrongLength(bytes.size(), needed, elements);
  if (!HalvesFinite(form_, bytes.data(), elements)) return FirstHalfNotFinite(form_, bytes);
  return absl::OkStatus();
}

absl::Status HalfCodec::Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const {
  const size_t needed = MaxEncodedBytes(values.size());
  if (bytes.size() != needed) return WrongLength(bytes.size(), needed, values.size());
  if (!DecodeHalves(form_, bytes.data(), values.size(), values.data())) {
    return FirstHalfNotFinite(form_, bytes);
  }
  return absl::OkStatus();
}

absl::Status HalfCodec::DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                         absl::Span<float> sum) const {
  if (!AllFinite(&weight, 1)) return WeightNotFinite();
  const absl::Status checked = Check(bytes, sum.size());
  if (!checked.ok()) return checked;
  DecodeAccumulateHalves(form_, bytes.data(), sum.size(), weight, sum.data());
  return absl::OkStatus();
}

}  // namespace atolld

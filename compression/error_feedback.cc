#include "compression/error_feedback.h"

#include "absl/strings/str_cat.h"
#include "compression/simd.h"

namespace atolld {

absl::Status AddResidual(float beta, absl::Span<const float> residual, absl::Span<float> update) {
  if (!(beta >= 0.0f && beta <= 1.0f)) {
    return absl::InvalidArgumentError(
        absl::StrCat("error feedback's beta is ", beta, ", not from 0 to 1"));
  }
  if (residual.size() != update.size()) {
    return absl::InvalidArgumentError(absl::StrCat("a residual of ", residual.size(),
                                                   " values for an update of ", update.size()));
  }
  AccumulateScaled(residual.data(), residual.size(), beta, update.data());
  return absl::OkStatus();
}

absl::Status SubtractSent(const Codec& codec, absl::Span<const uint8_t> sent,
                          absl::Span<float> residual) {
  // Multiplying by -1 is exact, so this is a - value to the bit.
  return codec.DecodeAccumulate(sent, -1.0f, residual);
}

void CarryShare(float share, absl::Span<float> residual) {
  if (share == 1.0f) return;
  for (float& value : residual) value = share * value;
}

}  // namespace atolld

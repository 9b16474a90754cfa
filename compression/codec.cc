#include "compression/codec.h"

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

}  // namespace atolld

#include "compression/codec_errors.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "compression/fp32_kernels.h"

namespace atolld {

absl::Status FirstNotFinite(absl::Span<const float> values, size_t begin, size_t offset) {
  size_t i = begin;
  while (i < values.size() && AllFinite(&values[i], 1)) ++i;
  return absl::InvalidArgumentError(absl::StrCat("value ", offset + i, " is not finite"));
}

absl::Status OutputTooSmall(size_t bytes, size_t needed) {
  return absl::InvalidArgumentError(
      absl::StrCat("the output has ", bytes, " bytes, encoding needs ", needed));
}

absl::Status WrongLength(size_t bytes, size_t needed, size_t elements) {
  return absl::InvalidArgumentError(
      absl::StrCat(bytes, " bytes do not hold ", elements, " values, which take ", needed));
}

absl::Status WeightNotFinite() { return absl::InvalidArgumentError("the weight is not finite"); }

}  // namespace atolld

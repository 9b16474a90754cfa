// The refusals that all codecs share, in one wording.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace atolld {

// Names the first value from `begin` on that is NaN or infinite, as index `offset` + its place in
// `values`. There must be one.
absl::Status FirstNotFinite(absl::Span<const float> values, size_t begin, size_t offset = 0);

absl::Status OutputTooSmall(size_t bytes, size_t needed);
absl::Status WrongLength(size_t bytes, size_t needed, size_t elements);
absl::Status WeightNotFinite();

// The scales of `blocks` blocks, fp32 little-endian: each is +0, or from 2^-100 to `greatest`.
// Names the first that is not.
absl::Status CheckScales(const uint8_t* scales, size_t blocks, float greatest);

}  // namespace atolld

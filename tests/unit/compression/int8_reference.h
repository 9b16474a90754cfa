// The int8 format once more, in plain C++ without Highway: the oracle that every SIMD target is
// compared with. It shares no code with compression/; int8_format.h is its specification.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace atolld {

// Values must be finite.
std::vector<uint8_t> ReferenceInt8Encode(absl::Span<const float> values);

// Bytes must be valid for `elements` values.
std::vector<float> ReferenceInt8Decode(absl::Span<const uint8_t> bytes, size_t elements);

}  // namespace atolld

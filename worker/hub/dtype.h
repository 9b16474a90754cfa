// The numbers that weights are stored as, to fp32 and back. Pure functions, any thread.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace atolld {

enum class DType { kF32, kF16, kBF16 };

// "F32", "F16", "BF16", as safetensors names them. INVALID_ARGUMENT: none of these.
absl::StatusOr<DType> ParseDType(absl::string_view name);
absl::string_view DTypeName(DType type);
uint64_t DTypeBytes(DType type);

// `bytes` are out.size() values, little-endian, aligned or not.
void ToFloats(DType type, absl::Span<const uint8_t> bytes, absl::Span<float> out);

// The reverse; rounds to nearest, ties to even. kF16 is only read and must not be asked for.
void FromFloats(DType type, absl::Span<const float> values, absl::Span<uint8_t> out);

}  // namespace atolld

// The few file operations of the worker: whole files written durably, ranges of parameters read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace atolld {

// Replaces `path` by the concatenation of `parts`: after a crash it holds either the old bytes or
// all the new ones.
absl::Status WriteFileDurably(const std::string& path,
                              absl::Span<const absl::Span<const uint8_t>> parts);

// `elements` little-endian fp32 values from byte `offset` of a file. NOT_FOUND: no such file;
// INVALID_ARGUMENT: it ends before.
absl::StatusOr<std::vector<float>> ReadFloats(const std::string& path, uint64_t offset,
                                              uint64_t elements);

// A whole file. NOT_FOUND: it cannot be read.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

// The bytes of an array.
template <typename T>
absl::Span<const uint8_t> AsBytes(absl::Span<const T> values) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(values.data()),
                             values.size() * sizeof(T));
}

}  // namespace atolld

// zstd frames: encoded chunks made smaller for a slow link (about 8 % on int8 codes of real
// updates).
//
// What a decompressor allocates depends on the caller's shape, never on the bytes. zstd's bytes
// differ between its versions, so they are never compared, hashed or stored. Pure functions, any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace atolld {

// Fast, and already near what stronger levels reach on int8 codes.
inline constexpr int kDefaultZstdLevel = 3;

// One frame that carries its content size and a checksum. INVALID_ARGUMENT if zstd has no such
// level.
absl::StatusOr<std::string> ZstdCompress(absl::Span<const uint8_t> bytes,
                                         int level = kDefaultZstdLevel);

// The content of exactly one frame. INVALID_ARGUMENT for anything that ZstdCompress does not write:
// a content size that is missing or above `max_bytes` (refused before anything is allocated), no
// checksum or a wrong one, a dictionary, a skippable or truncated frame, bytes after the frame.
absl::StatusOr<std::string> ZstdDecompress(absl::Span<const uint8_t> frame, size_t max_bytes);

}  // namespace atolld

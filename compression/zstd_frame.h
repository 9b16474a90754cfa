// zstd frames: compress encoded chunks for a slow link. This saves about 8 % on int8 codes of real
// updates.
//
// The memory that decompression allocates depends on the caller's limit, never on the bytes.
// Different versions of zstd compress to different bytes, so frames are never compared, hashed or
// stored. Pure. May be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace atolld {

// The level that is used unless another is given. It is fast, and on int8 codes it compresses
// nearly as well as higher levels.
inline constexpr int kDefaultZstdLevel = 3;

// Returns one frame, which includes its content size and a checksum. Fails with INVALID_ARGUMENT if
// zstd has no such level.
absl::StatusOr<std::string> ZstdCompress(absl::Span<const uint8_t> bytes,
                                         int level = kDefaultZstdLevel);

// Returns the content of exactly one frame. Fails with INVALID_ARGUMENT if the content size is
// missing or above `max_bytes` (before anything is allocated), if the checksum is missing or wrong,
// if the frame needs a dictionary, is skippable or is truncated, or if bytes follow it.
absl::StatusOr<std::string> ZstdDecompress(absl::Span<const uint8_t> frame, size_t max_bytes);

}  // namespace atolld

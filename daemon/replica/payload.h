// ChunkGrid and Payload: how the flat parameter vector is cut, and how the encoded chunks lie together in an entry.
//
// The grid is fixed for a run: chunk c covers values [c * chunk_elements, ...) and the last one may be short. A payload
// is u32 LE chunk count, u32 LE bytes of each chunk, then the chunks' bytes in grid order (before any zstd).
// Pure functions, any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compression/codec.h"
#include "daemon/bytes.h"

namespace atolld {

class ChunkGrid {
 public:
  ChunkGrid() = default;
  ChunkGrid(uint64_t elements, uint32_t chunk_elements);
  uint64_t elements() const { return elements_; }
  uint32_t chunk_elements() const { return chunk_elements_; }
  uint32_t chunks() const;
  uint64_t Offset(uint32_t chunk) const;    // first value
  uint32_t Elements(uint32_t chunk) const;  // values in it

 private:
  uint64_t elements_ = 0;
  uint32_t chunk_elements_ = 1;
};

// Puts chunks together. Their number must be the grid's.
SharedBytes JoinPayload(absl::Span<const SharedBytes> chunks);

// Takes them apart without a copy. INVALID_ARGUMENT if the lengths do not fit the bytes, the count is not the grid's,
// or a chunk is longer than the codec allows.
absl::StatusOr<std::vector<SharedBytes>> SplitPayload(const ChunkGrid& grid, const Codec& codec,
                                                      const SharedBytes& payload);

}  // namespace atolld

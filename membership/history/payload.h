// ChunkGrid and Payload: how the flat parameter vector is divided into chunks, and how the encoded
// chunks are stored in an entry.
//
// The grid is fixed for a run: chunk c covers values [c * chunk_elements, ...), and the last one
// may be short. If peers own experts, each chunk belongs to one part of the model. A payload is the
// chunk count as u32 LE, the byte length of each chunk as u32 LE, then the chunks' bytes in grid
// order (before any zstd). Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compression/base/bytes.h"
#include "compression/codec.h"

namespace atolld {

// Chunk indices and counts are 32 bits on the wire.
inline constexpr uint64_t kMaxChunks = uint64_t{1} << 31;

class ChunkGrid {
 public:
  ChunkGrid() = default;
  // `parts` has the part of each chunk (membership/experts/expert_parts.h); if it is nullptr, all
  // chunks belong to part 0.
  ChunkGrid(uint64_t elements, uint32_t chunk_elements,
            std::shared_ptr<const std::vector<uint32_t>> parts = nullptr);
  uint64_t elements() const { return elements_; }
  uint32_t chunk_elements() const { return chunk_elements_; }
  uint32_t chunks() const;
  uint64_t Offset(uint32_t chunk) const;    // the offset of the chunk's first value
  uint32_t Elements(uint32_t chunk) const;  // the number of values in the chunk
  uint32_t Part(uint32_t chunk) const { return parts_ == nullptr ? 0 : (*parts_)[chunk]; }
  // Returns the end of the chunks after this one that belong to the same part.
  uint32_t EndOfPart(uint32_t chunk) const;
  // The number of experts, each of which is a part of its own; 0 if peers own none.
  uint32_t experts() const { return parts_ == nullptr ? 0 : parts_->back(); }

 private:
  uint64_t elements_ = 0;
  uint32_t chunk_elements_ = 1;
  std::shared_ptr<const std::vector<uint32_t>> parts_;
};

// Writes the table that precedes the chunks, which have these lengths. `out` must be long enough
// for it.
void WritePayloadTable(absl::Span<const size_t> lengths, absl::Span<uint8_t> out);

// Joins all chunks of a grid to a payload.
SharedBytes JoinPayload(absl::Span<const SharedBytes> chunks);

// Splits a payload into its chunks without copying. Fails with INVALID_ARGUMENT if the lengths do
// not fit the bytes, the number of chunks differs from the grid's, or a chunk is longer than the
// codec allows.
absl::StatusOr<std::vector<SharedBytes>> SplitPayload(const ChunkGrid& grid, const Codec& codec,
                                                      const SharedBytes& payload);

// Returns the length of the longest payload that honest reducers can make. A receiver may allocate
// this much.
uint64_t MaxPayloadBytes(const ChunkGrid& grid, const Codec& codec);

// For readers of single chunks in a file: return the length of the table at a payload's start, and
// the offset of each chunk followed by the end of the last one. PayloadOffsets needs only the bytes
// of the table, and fails like SplitPayload.
uint64_t PayloadTableBytes(const ChunkGrid& grid);
absl::StatusOr<std::vector<uint64_t>> PayloadOffsets(const ChunkGrid& grid, const Codec& codec,
                                                     absl::Span<const uint8_t> table,
                                                     uint64_t payload_bytes);

}  // namespace atolld

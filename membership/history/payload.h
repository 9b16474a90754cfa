// ChunkGrid and Payload: how the flat parameter vector is cut, and how the encoded chunks lie
// together in an entry.
//
// The grid is fixed for a run: chunk c covers values [c * chunk_elements, ...) and the last one may
// be short. A payload is u32 LE chunk count, u32 LE bytes of each chunk, then the chunks' bytes in
// grid order (before any zstd). Pure functions, any thread.
#pragma once

#include <cstdint>
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

// What stands before the chunks, for so many bytes of each; `out` is at least that long.
void WritePayloadTable(absl::Span<const size_t> lengths, absl::Span<uint8_t> out);

// Puts chunks together. Their number must be the grid's.
SharedBytes JoinPayload(absl::Span<const SharedBytes> chunks);

// Takes them apart without a copy. INVALID_ARGUMENT if the lengths do not fit the bytes, the count
// is not the grid's, or a chunk is longer than the codec allows.
absl::StatusOr<std::vector<SharedBytes>> SplitPayload(const ChunkGrid& grid, const Codec& codec,
                                                      const SharedBytes& payload);

// The longest payload that an honest reducer can make; what a receiver may allocate.
uint64_t MaxPayloadBytes(const ChunkGrid& grid, const Codec& codec);

// For readers that take single chunks out of a file: how long the table at a payload's start is,
// and where each chunk begins (with the end of the last one added). Same errors as SplitPayload;
// only the table's bytes are needed.
uint64_t PayloadTableBytes(const ChunkGrid& grid);
absl::StatusOr<std::vector<uint64_t>> PayloadOffsets(const ChunkGrid& grid, const Codec& codec,
                                                     absl::Span<const uint8_t> table,
                                                     uint64_t payload_bytes);

}  // namespace atolld

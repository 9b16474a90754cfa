// SparseBlock: one block of the topk format (topk_format.h), between its bytes and its values.
//
// Places are ascending and below the block's elements. Reading is total: any bytes in, a block or a
// Status out. No allocation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compression/topk_format.h"

namespace atolld {

enum class SparseForm : uint8_t { kUpdate = 0, kMean = 1 };

struct SparseBlock {
  size_t count = 0;
  uint16_t places[kTopkBlockElements];
  float values[kTopkBlockElements];
};

// Writes the block and returns its bytes, at most TopkMaxBlockBytes(elements). An update's values
// are quantised; a mean's are rounded. All must be finite, an update's count at most
// TopkKept(elements).
size_t WriteSparseBlock(const SparseBlock& block, SparseForm form, size_t elements, uint8_t* out);

// Reads the block at the beginning of `bytes` and returns how many bytes it has. INVALID_ARGUMENT
// names what is wrong; `block` is then unspecified.
absl::StatusOr<size_t> ReadSparseBlock(absl::Span<const uint8_t> bytes, size_t elements,
                                       SparseBlock* block);

}  // namespace atolld

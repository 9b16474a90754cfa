#include "membership/history/payload.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

void PutU32(uint32_t value, uint8_t* out) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<uint8_t>(value >> (8 * i));
}

uint32_t GetU32(const uint8_t* bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value |= static_cast<uint32_t>(bytes[i]) << (8 * i);
  return value;
}

}  // namespace

ChunkGrid::ChunkGrid(uint64_t elements, uint32_t chunk_elements,
                     std::shared_ptr<const std::vector<uint32_t>> parts)
    : elements_(elements), chunk_elements_(chunk_elements), parts_(std::move(parts)) {
  CHECK(chunk_elements > 0);
  CHECK((elements + chunk_elements - 1) / chunk_elements <= kMaxChunks);
  CHECK(parts_ == nullptr || parts_->size() == chunks());
}

uint32_t ChunkGrid::EndOfPart(uint32_t chunk) const {
  if (parts_ == nullptr) return chunks();
  const auto begin = parts_->begin() + static_cast<std::ptrdiff_t>(chunk);
  return static_cast<uint32_t>(std::upper_bound(begin, parts_->end(), *begin) - parts_->begin());
}

uint32_t ChunkGrid::chunks() const {
  return static_cast<uint32_t>((elements_ + chunk_elements_ - 1) / chunk_elements_);
}

uint64_t ChunkGrid::Offset(uint32_t chunk) const {
  return static_cast<uint64_t>(chunk) * chunk_elements_;
}

uint32_t ChunkGrid::Elements(uint32_t chunk) const {
  CHECK(chunk < chunks());
  return static_cast<uint32_t>(std::min<uint64_t>(chunk_elements_, elements_ - Offset(chunk)));
}

void WritePayloadTable(absl::Span<const size_t> lengths, absl::Span<uint8_t> out) {
  uint8_t* next = out.data();
  PutU32(static_cast<uint32_t>(lengths.size()), next);
  for (const size_t length : lengths) PutU32(static_cast<uint32_t>(length), next += 4);
}

SharedBytes JoinPayload(absl::Span<const SharedBytes> chunks) {
  std::vector<size_t> lengths;
  lengths.reserve(chunks.size());
  size_t total = 4 + 4 * chunks.size();
  for (const SharedBytes& chunk : chunks) {
    lengths.push_back(chunk.size());
    total += chunk.size();
  }
  FreshBytes bytes(total);
  WritePayloadTable(lengths, bytes.span());
  uint8_t* body = bytes.span().data() + 4 + 4 * chunks.size();
  for (const SharedBytes& chunk : chunks) {
    if (!chunk.empty()) std::memcpy(body, chunk.data(), chunk.size());
    body += chunk.size();
  }
  return std::move(bytes).Share(total);
}

uint64_t MaxPayloadBytes(const ChunkGrid& grid, const Codec& codec) {
  if (grid.chunks() == 0) return PayloadTableBytes(grid);
  const uint32_t last = grid.chunks() - 1;
  return PayloadTableBytes(grid) +
         static_cast<uint64_t>(last) * codec.MaxEncodedBytes(grid.chunk_elements()) +
         codec.MaxEncodedBytes(grid.Elements(last));
}

uint64_t PayloadTableBytes(const ChunkGrid& grid) {
  return 4 + 4 * static_cast<uint64_t>(grid.chunks());
}

absl::StatusOr<std::vector<uint64_t>> PayloadOffsets(const ChunkGrid& grid, const Codec& codec,
                                                     absl::Span<const uint8_t> table,
                                                     uint64_t payload_bytes) {
  if (payload_bytes < 4 || table.size() < 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("a payload of ", payload_bytes, " bytes has no chunk count"));
  }
  const uint32_t count = GetU32(table.data());
  if (count != grid.chunks()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the payload holds ", count, " chunks, the run's grid has ", grid.chunks()));
  }
  const uint64_t table_bytes = PayloadTableBytes(grid);
  if (table_bytes > payload_bytes || table.size() < table_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a payload of ", payload_bytes, " bytes is too short for ", count, " chunks"));
  }
  std::vector<uint64_t> offsets(size_t{count} + 1);
  offsets[0] = table_bytes;
  for (uint32_t chunk = 0; chunk < count; ++chunk) {
    const uint32_t bytes = GetU32(table.data() + 4 + 4 * size_t{chunk});
    const size_t most = codec.MaxEncodedBytes(grid.Elements(chunk));
    if (bytes > most) {
      return absl::InvalidArgumentError(absl::StrCat("chunk ", chunk, " has ", bytes, " bytes, ",
                                                     codec.name(), " writes at most ", most));
    }
    offsets[chunk + 1] = offsets[chunk] + bytes;
  }
  if (offsets[count] != payload_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the payload's lengths add up to ", offsets[count], " bytes, it has ", payload_bytes));
  }
  return offsets;
}

absl::StatusOr<std::vector<SharedBytes>> SplitPayload(const ChunkGrid& grid, const Codec& codec,
                                                      const SharedBytes& payload) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> offsets,
                   PayloadOffsets(grid, codec, payload.span(), payload.size()));
  std::vector<SharedBytes> chunks;
  chunks.reserve(grid.chunks());
  for (uint32_t chunk = 0; chunk < grid.chunks(); ++chunk) {
    chunks.push_back(payload.Part(offsets[chunk], offsets[chunk + 1] - offsets[chunk]));
  }
  return chunks;
}

}  // namespace atolld

#include "daemon/peer/residual.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "compression/error_feedback.h"

namespace atolld {
namespace {

bool Bit(const std::string& bitmap, int position) {
  const size_t byte = static_cast<size_t>(position) / 8;
  return byte < bitmap.size() && ((static_cast<uint8_t>(bitmap[byte]) >> (position % 8)) & 1) != 0;
}

}  // namespace

float FeedbackDecay(const v1::RunSpec& spec) {
  const uint32_t bits = spec.exchange().feedback_decay_bits();
  if (bits == 0) return 1.0f;
  float decay;
  std::memcpy(&decay, &bits, sizeof(decay));
  return decay;
}

absl::Status SubtractIncluded(const v1::EntryHeader& header, int position, const ChunkGrid& grid,
                              const Codec& codec, const Contribution& contribution,
                              absl::Span<float> residual) {
  absl::Status first_error;
  for (const v1::ShardRecord& shard : header.shards()) {
    int exception = 0;
    for (uint32_t i = 0; i < shard.chunks(); ++i) {
      const uint32_t chunk = shard.first_chunk() + i;
      bool included = Bit(shard.contributors(), position);
      if (exception < shard.exceptions_size() && shard.exceptions(exception).chunk() == chunk) {
        included = Bit(shard.exceptions(exception++).contributors(), position);
      }
      if (!included || chunk >= contribution.chunks.size()) continue;
      const absl::Span<float> part = residual.subspan(grid.Offset(chunk), grid.Elements(chunk));
      first_error.Update(SubtractSent(codec, contribution.chunks[chunk].span(), part));
    }
  }
  return first_error;
}

}  // namespace atolld

#include "daemon/exchange/mean_table.h"

#include <utility>

#include "compression/base/check.h"
#include "compression/base/planted_bug.h"

namespace atolld {

void MeanTable::Adopt(const ExchangePlan& plan, std::vector<uint32_t>* dropped) {
  plan_ = plan;
  means_.resize(plan.chunks());
  in_payload_.resize(plan.chunks(), false);
  missing_of_.assign(plan.shards().size(), 0);
  missing_ = 0;
  for (uint32_t c = 0; c < plan.chunks(); ++c) {
    const uint32_t attempt = plan.ShardOf(c).attempt;
    if (Has(c) && means_[c].attempt != attempt) {
      // Contributions are the same bytes under every attempt; it is the means that must not mix.
      if (Planted(PlantedBug::kAttemptNotChecked)) {
        means_[c].attempt = attempt;
        continue;
      }
      Drop(c);
      dropped->push_back(c);
    }
    if (Has(c)) continue;
    ++missing_;
    ++missing_of_[plan.ShardIndexOf(c)];
  }
}

void MeanTable::Drop(uint32_t chunk) {
  if (!in_payload_[chunk]) held_bytes_ -= means_[chunk].encoded.size();
  means_[chunk] = ChunkMean();
  in_payload_[chunk] = false;
  ++changes_;
}

void MeanTable::Store(uint32_t chunk, ChunkMean mean) {
  CHECK(!Has(chunk) && mean.attempt == plan_.ShardOf(chunk).attempt);
  means_[chunk] = std::move(mean);
  held_bytes_ += means_[chunk].encoded.size();
  ++changes_;
  --missing_;
  const uint32_t shard = plan_.ShardIndexOf(chunk);
  if (--missing_of_[shard] == 0) became_whole_.insert(shard);
}

std::vector<MeanTable::ShardAttempt> MeanTable::TakeWholeShards() {
  std::vector<ShardAttempt> whole;
  for (const uint32_t shard : std::exchange(became_whole_, {})) {
    if (missing_of_[shard] == 0) whole.emplace_back(shard, plan_.shards()[shard].attempt);
  }
  return whole;
}

void MeanTable::LeanOn(const SharedBytes& payload) {
  size_t total = 0;
  for (const ChunkMean& mean : means_) total += mean.encoded.size();
  // The chunks' bytes lie together at the payload's end, in grid order.
  size_t offset = payload.size() - total;
  for (uint32_t c = 0; c < means_.size(); ++c) {
    const size_t bytes = means_[c].encoded.size();
    means_[c].encoded = payload.Part(offset, bytes);
    in_payload_[c] = true;
    offset += bytes;
  }
  held_bytes_ = 0;
}

}  // namespace atolld

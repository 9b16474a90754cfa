#include "daemon/exchange/assemble.h"

#include <map>
#include <utility>

namespace atolld {
namespace {

v1::ShardRecord RecordOf(const ExchangePlan::Shard& shard, size_t contributors,
                         const std::vector<ChunkMean>& means) {
  v1::ShardRecord record;
  record.set_first_chunk(shard.first_chunk);
  record.set_chunks(shard.chunks);
  record.set_reducer(shard.reducer);
  std::map<std::string, uint32_t> counts;
  for (uint32_t i = 0; i < shard.chunks; ++i) {
    ++counts[means[shard.first_chunk + i].contributors];
  }
  std::string most((contributors + 7) / 8, '\0');
  uint32_t best = 0;
  for (const auto& [set, count] : counts) {
    if (count <= best) continue;
    most = set;
    best = count;
  }
  record.set_contributors(most);
  for (uint32_t i = 0; i < shard.chunks; ++i) {
    const ChunkMean& mean = means[shard.first_chunk + i];
    if (mean.contributors == most) continue;
    v1::ChunkRecord* exception = record.add_exceptions();
    exception->set_chunk(shard.first_chunk + i);
    exception->set_contributors(mean.contributors);
  }
  return record;
}

}  // namespace

ExchangeOutcome Assemble(const ExchangePlan& plan, const std::vector<ChunkMean>& means) {
  ExchangeOutcome outcome;
  outcome.revision = plan.revision();
  std::vector<SharedBytes> chunks;
  chunks.reserve(means.size());
  for (const ChunkMean& mean : means) chunks.push_back(mean.encoded);
  outcome.payload = JoinPayload(chunks);
  outcome.payload_digest = TreeDigest(outcome.payload.span());
  // The chunks' bytes lie together at the payload's end, in grid order: a shard is one run of them.
  size_t total = 0;
  for (const SharedBytes& chunk : chunks) total += chunk.size();
  size_t offset = outcome.payload.size() - total;
  for (const ExchangePlan::Shard& shard : plan.shards()) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < shard.chunks; ++i) bytes += chunks[shard.first_chunk + i].size();
    outcome.shard_digests.push_back(TreeDigest(outcome.payload.Part(offset, bytes).span()));
    offset += bytes;
    outcome.shards.push_back(RecordOf(shard, plan.contributors().size(), means));
  }
  return outcome;
}

}  // namespace atolld

#include "daemon/exchange/assemble.h"

#include <map>
#include <string>
#include <utility>

#include "membership/history/bitmap.h"

namespace atolld {
namespace {

using Sets = std::pair<std::string, std::vector<std::string>>;  // contributors, partials

template <typename Record>
void Name(const Sets& sets, Record* record) {
  record->set_contributors(sets.first);
  for (const std::string& partial : sets.second) record->add_partials(partial);
}

v1::ShardRecord RecordOf(const ExchangePlan::Shard& shard, size_t contributors,
                         const std::vector<ChunkMean>& means) {
  v1::ShardRecord record;
  record.set_first_chunk(shard.first_chunk);
  record.set_chunks(shard.chunks);
  record.set_reducer(shard.reducer);
  const auto sets_of = [&](uint32_t chunk) {
    return Sets(means[chunk].contributors, means[chunk].partials);
  };
  std::map<Sets, uint32_t> counts;
  for (uint32_t i = 0; i < shard.chunks; ++i) ++counts[sets_of(shard.first_chunk + i)];
  Sets most(std::string(BitmapBytes(contributors), '\0'), {});
  uint32_t best = 0;
  for (const auto& [sets, count] : counts) {
    if (count <= best) continue;
    most = sets;
    best = count;
  }
  Name(most, &record);
  for (uint32_t i = 0; i < shard.chunks; ++i) {
    const Sets sets = sets_of(shard.first_chunk + i);
    if (sets == most) continue;
    v1::ChunkRecord* exception = record.add_exceptions();
    exception->set_chunk(shard.first_chunk + i);
    Name(sets, exception);
  }
  return record;
}

}  // namespace

std::vector<v1::ShardRecord> Records(const ExchangePlan& plan,
                                     const std::vector<ChunkMean>& means) {
  std::vector<v1::ShardRecord> records;
  for (const ExchangePlan::Shard& shard : plan.shards()) {
    records.push_back(RecordOf(shard, plan.contributors().size(), means));
  }
  return records;
}

ExchangeOutcome Assemble(const ExchangePlan& plan, const std::vector<ChunkMean>& means) {
  ExchangeOutcome outcome;
  outcome.revision = plan.revision();
  outcome.shards = Records(plan, means);
  std::vector<SharedBytes> chunks;
  chunks.reserve(means.size());
  for (const ChunkMean& mean : means) chunks.push_back(mean.encoded);
  outcome.payload = JoinPayload(chunks);
  outcome.payload_digest = TreeDigest(outcome.payload.span());
  return outcome;
}

double SquaredMean(const std::vector<ChunkMean>& means) {
  double sum = 0;
  for (const ChunkMean& mean : means) sum = sum + mean.squared_norm;
  return sum;
}

}  // namespace atolld

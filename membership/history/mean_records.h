// MeanRecords: the sets of contributors over which the means of an entry were taken, in the form in
// which votes and headers have them.
//
// Each set of contributors is stored once, even if it applies to many shards and chunks, and
// consecutive chunks with the same set form one run. If a peer dies in the middle of an exchange,
// this costs a few bytes a shard instead of a bitmap a chunk. Two records with the same content are
// equal in every byte, because sets are numbered in the order of the first chunks that use them.
// Pure. May be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "membership/history/payload.h"

namespace atolld {

// The greatest size of the records in a vote. With this size a header with about 1,100 contributors
// still fits in a message of a Session, which may have 1 MiB. Records are longer only if the set
// changes every few chunks, for example because a peer delivered every second chunk and then died.
// The vote then omits the records, and all shards are averaged again.
inline constexpr size_t kMostMeanRecordsBytes = size_t{640} << 10;
bool FitAVote(const v1::MeanRecords& records);

class MeanRecordsBuilder {
 public:
  void BeginShard(uint32_t first_chunk, const std::string& reducer);
  // Adds the next chunks of the shard. `partials` has the meaning of ContributorSet.partials.
  void Add(const std::string& contributors, const std::vector<std::string>& partials,
           uint32_t chunks = 1);
  v1::MeanRecords Take() { return std::move(records_); }

 private:
  using Key = std::pair<std::string, std::vector<std::string>>;

  v1::MeanRecords records_;
  std::map<Key, uint32_t> numbers_;  // the number of each set
};

// Returns the set of a run, or an empty set if no set has the number that the run names.
const v1::ContributorSet& SetOf(const v1::MeanRecords& records, const v1::ChunkRun& run);

// Returns the set of a chunk's mean, or an empty set if no shard has the chunk.
const v1::ContributorSet& SetOfChunk(const v1::MeanRecords& records, uint32_t chunk);

// Calls visit(first chunk, chunks, set) for each run of the shard.
template <typename Visit>
void ForEachRun(const v1::MeanRecords& records, const v1::ShardRecord& shard, const Visit& visit) {
  uint32_t first = shard.first_chunk();
  for (const v1::ChunkRun& run : shard.runs()) {
    visit(first, run.chunks(), SetOf(records, run));
    first += run.chunks();
  }
}

// Fails with INVALID_ARGUMENT if the shards do not tile a grid of `chunks` chunks, if the runs do
// not tile their shard, if a set is impossible for these contributors, or if the records are not in
// the form that the builder makes. The set of a chunk may be empty only if the chunk belongs to an
// expert. `owned` has for each contributor the experts that its update covers, if peers own
// experts; a set then has only contributors that cover the chunk.
absl::Status CheckMeanRecords(const v1::MeanRecords& records, const ChunkGrid& grid,
                              size_t contributors, absl::Span<const absl::string_view> owned = {});

}  // namespace atolld

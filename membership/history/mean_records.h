// MeanRecords: over whose chunks each mean of an entry was taken, as votes and headers tell it.
//
// Each set of contributors stands once, however many shards and chunks it is the set of, and
// chunks that follow each other with one set are one run. So what a peer's death in the middle of
// an exchange leaves behind takes a few bytes a shard, not a bitmap a chunk. Of two records that
// tell the same every byte is the same: sets are numbered as the grid comes to them. Pure, any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// With what else a header says of some 1,100 contributors they fit a message of a Session, which is
// 1 MiB. They are longer only where the set changes every few chunks, as somebody can bring about
// who delivers every second chunk and dies. Then a vote is without them, and everything is redone.
inline constexpr size_t kMostMeanRecordsBytes = size_t{640} << 10;
bool FitAVote(const v1::MeanRecords& records);

class MeanRecordsBuilder {
 public:
  void BeginShard(uint32_t first_chunk, const std::string& reducer);
  // The next chunks of the shard. `partials` as in ContributorSet.
  void Add(const std::string& contributors, const std::vector<std::string>& partials,
           uint32_t chunks = 1);
  v1::MeanRecords Take() { return std::move(records_); }

 private:
  using Key = std::pair<std::string, std::vector<std::string>>;

  v1::MeanRecords records_;
  std::map<Key, uint32_t> numbers_;  // of the sets
};

// One that names nobody where the run's number is that of no set.
const v1::ContributorSet& SetOf(const v1::MeanRecords& records, const v1::ChunkRun& run);

// Of a chunk's mean; one that names nobody if no shard has the chunk.
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

// INVALID_ARGUMENT: shards that do not tile a grid of so many chunks, runs that do not tile their
// shard, sets that nobody of these contributors can be, or another form than the builder's.
absl::Status CheckMeanRecords(const v1::MeanRecords& records, uint64_t chunks, size_t contributors);

}  // namespace atolld

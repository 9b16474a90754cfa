// MeanTable: the means of all chunks as they come in, and which shards are whole.
//
// A mean is dropped when its shard's attempt changes, and by nothing else: whoever averaged it may
// die. Loop thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compression/base/bytes.h"
#include "daemon/exchange/exchange_plan.h"

namespace atolld {

// The mean of one chunk, as everybody takes it.
struct ChunkMean {
  uint32_t attempt = 0;  // 0: not here
  SharedBytes encoded;
  std::string contributors;           // bitmap
  std::vector<std::string> partials;  // as in ShardRecord
  double squared_norm = 0;            // of what it decodes to
};

class MeanTable {
 public:
  using ShardAttempt = std::pair<uint32_t, uint32_t>;  // position in the plan, attempt

  // Appends the chunks whose means are dropped to `dropped`.
  void Adopt(const ExchangePlan& plan, std::vector<uint32_t>* dropped);

  // `mean` is of the attempt of the plan adopted last, and not here yet.
  void Store(uint32_t chunk, ChunkMean mean);

  bool Has(uint32_t chunk) const { return means_[chunk].attempt != 0; }
  const ChunkMean& at(uint32_t chunk) const { return means_[chunk]; }
  const std::vector<ChunkMean>& means() const { return means_; }
  bool whole() const { return missing_ == 0; }
  uint64_t changes() const { return changes_; }  // another number, another content

  // The shards that have become whole since the last call and still are.
  std::vector<ShardAttempt> TakeWholeShards();
  bool news() const { return !became_whole_.empty(); }

  // `payload` was made of these very means.
  void LeanOn(const SharedBytes& payload);
  uint64_t held_bytes() const { return held_bytes_; }  // beside the payload

 private:
  void Drop(uint32_t chunk);

  ExchangePlan plan_;
  std::vector<ChunkMean> means_;
  std::vector<bool> in_payload_;      // by chunk
  std::vector<uint32_t> missing_of_;  // by shard
  uint32_t missing_ = 0;
  uint64_t changes_ = 0;
  uint64_t held_bytes_ = 0;
  std::set<uint32_t> became_whole_;  // shards
};

}  // namespace atolld

// Assemble: from the means of all chunks to what a peer votes for.
//
// A pure function of the plan and the means: peers that hold the same means make the same outcome.
// Blocking (it copies and hashes the whole payload): run it on the pool.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/bytes.h"
#include "daemon/exchange/exchange.h"
#include "daemon/exchange/exchange_plan.h"

namespace atolld {

// The mean of one chunk, as everybody takes it.
struct ChunkMean {
  uint32_t attempt = 0;  // 0: not here
  SharedBytes encoded;
  std::string contributors;  // bitmap
};

// `means` has one for each chunk of the grid, all here. A shard's record names the set of most of
// its chunks (of several, the one that comes first), its exceptions the rest.
ExchangeOutcome Assemble(const ExchangePlan& plan, const std::vector<ChunkMean>& means);

}  // namespace atolld

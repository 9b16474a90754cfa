// Assemble: from the means of all chunks to what a peer votes for.
//
// A pure function of the plan and the means: peers that hold the same means make the same outcome.
// Blocking (it copies and hashes the whole payload): run it on the pool.
#pragma once

#include <vector>

#include "daemon/exchange/exchange.h"
#include "daemon/exchange/exchange_plan.h"
#include "daemon/exchange/mean_table.h"

namespace atolld {

// `means` has one for each chunk of the grid, all here. A shard's record names the sets
// (contributors and partials) of most of its chunks (of several, those that come first), its
// exceptions the rest; and the reducer, whoever gave the means out.
std::vector<v1::ShardRecord> Records(const ExchangePlan& plan, const std::vector<ChunkMean>& means);
ExchangeOutcome Assemble(const ExchangePlan& plan, const std::vector<ChunkMean>& means);

// The squared norm of what the means decode to: those of the chunks, added in grid order.
double SquaredMean(const std::vector<ChunkMean>& means);

}  // namespace atolld

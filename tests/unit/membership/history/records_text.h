// Makes records of means for tests from a list of shards.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "atoll/v1/plan.pb.h"
#include "membership/history/mean_records.h"

namespace atolld {

// A run of consecutive chunks, the bitmap of their contributors, and the bitmaps of their partial
// means.
struct RunText {
  uint32_t chunks;
  std::string contributors;
  std::vector<std::string> partials{};
};

// Makes records of shards that follow one another, beginning with chunk 0.
inline v1::MeanRecords RecordsOf(
    const std::vector<std::pair<std::string, std::vector<RunText>>>& shards) {
  MeanRecordsBuilder builder;
  uint32_t chunk = 0;
  for (const auto& [reducer, runs] : shards) {
    builder.BeginShard(chunk, reducer);
    for (const RunText& run : runs) {
      builder.Add(run.contributors, run.partials, run.chunks);
      chunk += run.chunks;
    }
  }
  return builder.Take();
}

// Makes the records of a plan in which every chunk has this set.
inline v1::MeanRecords RecordsOf(const v1::Plan& plan, const std::string& contributors) {
  MeanRecordsBuilder builder;
  for (const v1::Shard& shard : plan.shards()) {
    builder.BeginShard(shard.first_chunk(), shard.reducer());
    builder.Add(contributors, {}, shard.chunks());
  }
  return builder.Take();
}

}  // namespace atolld

#include "membership/history/slice_shares.h"

#include <string>

#include "absl/base/casts.h"
#include "compression/base/bitmap.h"
#include "membership/experts/expert_parts.h"
#include "membership/history/mean_records.h"

namespace atolld {
namespace {

// Runs with slices are those whose peers share no tensor (CheckExperts).
bool HasNoSharedPart(const Fragments& fragments) {
  return fragments.experts() != nullptr && fragments.experts()->parts.front().empty();
}

}  // namespace

std::vector<float> SliceShares(const Fragments& fragments, const v1::EntryHeader& header) {
  if (!HasNoSharedPart(fragments)) return {};
  const ChunkGrid grid = fragments.Grid(header.version(), header.chunk_elements());
  std::vector<float> shares(grid.chunks(), 0.0f);
  const auto share = [&](const std::string& set, uint32_t part) {
    float covering = 0;
    float absent = 0;
    for (int i = 0; i < header.contributors_size(); ++i) {
      const v1::Contributor& one = header.contributors(i);
      const float weight = absl::bit_cast<float>(one.weight_bits());
      if (BitAt(set, static_cast<size_t>(i))) covering += weight;
      if (!Covers(one.owned(), part)) absent += weight;
    }
    const float total = covering + absent;
    return covering == 0 ? 0.0f : covering * (1 / total);
  };
  for (const v1::ShardRecord& shard : header.records().shards()) {
    ForEachRun(header.records(), shard,
               [&](uint32_t first, uint32_t chunks, const v1::ContributorSet& set) {
                 for (uint32_t chunk = first; chunk < first + chunks; ++chunk) {
                   shares[chunk] = share(set.contributors(), grid.Part(chunk));
                 }
               });
  }
  return shares;
}

}  // namespace atolld

// ExchangeTraffic: who sends how much over which line in one exchange, as shares of the parameter
// vector.
//
// The chunks are divided and relayed as ReductionPlan does it. An exchange has stages, each of
// which sends a chunk as soon as the one before has brought it: contributions up and means down,
// and with relays a stage before and one after. Nothing here knows of bytes, so one traffic
// serves all codecs. Pure; docs/performance_model.md derives the formulas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "membership/planning/link_model.h"

namespace atolld {

enum class PlanShape {
  kFlat,      // everybody sends to every reducer, shards of equal size
  kWeighted,  // as flat, shards by the reducers' rates: ShardWeights
  kRegions,   // as flat, but in each other region one relay a shard averages first
  kWeightedRegions,
};
// "flat", "weighted", "regions", "weighted-regions"
absl::string_view PlanShapeName(PlanShape shape);
inline bool ByRegion(PlanShape shape) {
  return shape == PlanShape::kRegions || shape == PlanShape::kWeightedRegions;
}
inline bool Weighted(PlanShape shape) {
  return shape == PlanShape::kWeighted || shape == PlanShape::kWeightedRegions;
}

// A share of the vector, by what it passes as: contributors' own chunks, or means of them, which
// may have another codec.
struct Share {
  double updates = 0;
  double means = 0;  // partial ones too

  double all() const { return updates + means; }
  Share& operator+=(const Share& more);
};

// What passes in one stage.
struct StageTraffic {
  std::vector<Share> up;    // by peer
  std::vector<Share> down;  // by peer
  std::vector<Share> link;  // by link
};

// The largest share that one stream carries from a region's peers to another's, of either form, and
// the longest round trip of such a stream.
struct StreamTraffic {
  Share share;
  absl::Duration rtt;
};

struct ExchangeTraffic {
  PlanShape shape = PlanShape::kFlat;
  std::vector<StageTraffic> stages;
  std::map<std::pair<size_t, size_t>, StreamTraffic> streams;  // by the two regions
  std::vector<double> decoded;  // by peer, what it decodes to average
  std::vector<double> encoded;  // by peer, the means that it encodes
  Share between_regions;        // counted once, whatever the number of links on the way
  uint32_t longest_shard = 0;   // chunks
  size_t relays = 0;
  absl::Duration rtt;  // of a chunk up and its mean down, on the longest way
};

// `chunks` in all, at least 1. Some peer has to be reachable, unless there is only one. Whoever
// does not contribute reduces like any other that is reachable; it never relays.
ExchangeTraffic TrafficOf(const LinkModel& links, PlanShape shape, uint32_t chunks);
// With shards by other rates than the links', one a peer; 0: it reduces nothing. One is above 0.
ExchangeTraffic TrafficOf(const LinkModel& links, PlanShape shape, uint32_t chunks,
                          const std::vector<double>& bandwidths);

}  // namespace atolld

// How long an exchange takes on a network, without running it: who sends how much over which line
// (ExchangeTraffic), and how long that takes and what limits it (RoundModel).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "membership/history/run_codecs.h"
#include "membership/planning/link_model.h"
#include "membership/planning/reduction_plan.h"

namespace atolld {

// ExchangeTraffic: who sends how much over which line in one exchange, as shares of the parameter
// vector.
//
// The chunks are divided and relayed as ReductionPlan does it. An exchange has stages, each of
// which sends a chunk as soon as the one before has brought it: contributions up and means down,
// and with relays a stage before and one after. Nothing here knows of bytes, so one traffic
// serves all codecs. Pure; docs/performance_model.md derives the formulas.

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
// may have another codec, as the chunks of contributors behind slow lines may.
struct Share {
  double updates = 0;
  double means = 0;  // partial ones too
  double slow_updates = 0;

  double all() const { return updates + means + slow_updates; }
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
  std::vector<size_t> ends;     // by peer, of the streams that it has
  Share between_regions;        // counted once, whatever the number of links on the way
  uint32_t longest_shard = 0;   // chunks
  size_t reducers = 0;
  size_t relays = 0;   // summed over the shards
  absl::Duration rtt;  // of a chunk up and its mean down, on the longest way
};

// The rates by which such a plan divides the vector, one a peer; 0: it cannot be dialled.
std::vector<double> RatesOf(const LinkModel& links, PlanShape shape);

// `chunks` in all, at least 1. Some peer has to be reachable, unless there is only one. Whoever
// does not contribute reduces like any other that is reachable; it never relays.
ExchangeTraffic TrafficOf(const LinkModel& links, PlanShape shape, uint32_t chunks);
// With shards by other rates than the links', one a peer; 0: it reduces nothing. One is above 0.
// And, where there are such groups, by these and not by whole regions, whatever the shape.
ExchangeTraffic TrafficOf(const LinkModel& links, PlanShape shape, uint32_t chunks,
                          const std::vector<double>& bandwidths,
                          const Grouping& grouping = Grouping());

// -----------------------------------------------------------------------------------------------
// RoundModel: how long an exchange takes on a network, and what limits it, without running it.
//
//   seconds = before and after + max(lines, stages, streams, processor) + round trips
//
// docs/performance_model.md derives each term under the name that it has here. Pure; any thread.

// Bytes of a share of the vector.
double BytesOf(const EncodedSize& size, const Share& share);

// What the model assumes where nobody has measured.
struct ModelAssumptions {
  // Of a line's rate a TCP stream's payload gets 1448 bytes of every 1500 of an IP packet.
  double line_share = 1448.0 / 1500.0;
  // Of that, streams of several peers together get so much of a link that they share: what they
  // lose in its queue is sent again, and waited for. Measured in the lab (docs/benchmarks.md).
  double link_share = 0.75;
  // A stream that was idle may send so much in its first round trip, then twice as much in each
  // (RFC 6928: ten segments).
  double first_window_bytes = 10 * 1448;
  // One thread, in bytes of fp32 a second; about a third of what `atoll bench codec` prints for
  // int8 on a recent core, since codecs of fewer bits take longer.
  double encode_bytes_per_second = 8e9;
  double decode_bytes_per_second = 8e9;
  // SHA-256 of encoded bytes, one thread of a CPU with instructions for it.
  double hash_bytes_per_second = 1e9;
  // What one end of a stream costs a processor, with a chunk up and its mean down; and the bytes
  // that a processor sends or receives with TLS. Measured, docs/benchmarks.md (What a stream
  // costs).
  double stream_seconds = 400e-6;
  double wire_bytes_per_second = 0.6e9;
};

struct ExchangePrediction {
  double seconds = 0;  // from the last inner step to the commit
  // Its terms.
  double lines_seconds = 0;      // the busiest line, all that passes it
  double stages_seconds = 0;     // all stages, each chunk waiting for the one before
  double streams_seconds = 0;    // the stream that takes longest to grow
  double processor_seconds = 0;  // the busiest reducer or relay
  double round_trips_seconds = 0;
  double before_and_after_seconds = 0;  // encoding and hashing the whole vector
  double handover_seconds = 0;          // of that, until a peer may train on

  std::string bottleneck;      // "home-1 up", "link eu>us", "streams", "processor of eu-1"
  double mean_bytes_sent = 0;  // by a contributor
  double most_bytes_sent = 0;  // by anybody
  double bytes_between_regions = 0;
  std::vector<double> link_bytes;  // by link
};

ExchangePrediction PredictExchange(const LinkModel& links, const ExchangeTraffic& traffic,
                                   const EncodedSize& size, const ModelAssumptions& assumed);

// The share of a round in which peers train.
double ComputeUtilisation(double train_seconds, double exchange_seconds);

}  // namespace atolld

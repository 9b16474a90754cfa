// Predicts how long an exchange takes on a network, without running it: how much each peer sends
// over which line (ExchangeTraffic), how long that takes, and what limits it (RoundModel).
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

// ExchangeTraffic: computes how much each peer sends over which line in one exchange, as shares of
// the parameter vector.
//
// Chunks are divided and relayed in the same way as by ReductionPlan. An exchange is a pipeline: a
// stage sends each chunk as soon as the stage before has delivered it. The stages are contributions
// up and means down; relays add one stage before and one after. The traffic does not depend on the
// size of the encoded data, so it is the same for all codecs. Pure. docs/performance_model.md
// derives the formulas.

enum class PlanShape {
  kFlat,      // every peer sends to every reducer; all shards have the same size
  kWeighted,  // like kFlat, with shards sized by the reducers' rates (ShardWeights)
  // Like kFlat, but in each region other than the reducer's one relay for each shard averages
  // first.
  kRegions,
  kWeightedRegions,
};
// Returns "flat", "weighted", "regions" or "weighted-regions".
absl::string_view PlanShapeName(PlanShape shape);
inline bool ByRegion(PlanShape shape) {
  return shape == PlanShape::kRegions || shape == PlanShape::kWeightedRegions;
}
inline bool Weighted(PlanShape shape) {
  return shape == PlanShape::kWeighted || shape == PlanShape::kWeightedRegions;
}

// A share of the vector, by its form: contributors' own chunks, means of them, or the chunks of
// contributors behind slow lines. Each form may have its own codec.
struct Share {
  double updates = 0;
  double means = 0;  // including partial means
  double slow_updates = 0;

  double all() const { return updates + means + slow_updates; }
  Share& operator+=(const Share& more);
};

// The traffic of one stage.
struct StageTraffic {
  std::vector<Share> up;    // by peer
  std::vector<Share> down;  // by peer
  std::vector<Share> link;  // by link
};

// The streams from one region's peers to another's: the largest share of each form that one of them
// carries, and their longest round trip.
struct StreamTraffic {
  Share share;
  absl::Duration rtt;
};

struct ExchangeTraffic {
  PlanShape shape = PlanShape::kFlat;
  std::vector<StageTraffic> stages;
  std::map<std::pair<size_t, size_t>, StreamTraffic> streams;  // by the pair of regions
  // The share of the vector that each peer decodes in order to average it.
  std::vector<double> decoded;
  // The share of the vector whose means each peer encodes.
  std::vector<double> encoded;
  // The number of streams that end at each peer.
  std::vector<size_t> ends;
  Share between_regions;  // counted once, even if there are several links on the way
  // The number of chunks in the longest shard.
  uint32_t longest_shard = 0;
  size_t reducers = 0;
  size_t relays = 0;   // the number of relays, summed over the shards
  absl::Duration rtt;  // the round trip of a chunk and its mean, on the longest route
};

// Returns the rate of each peer by which a plan of this shape divides the vector; 0 for a peer that
// cannot be dialled.
std::vector<double> RatesOf(const LinkModel& links, PlanShape shape);

// Returns the traffic of an exchange of `chunks` chunks, at least 1. Some peer must be reachable,
// unless there is only one peer. A peer that does not contribute reduces like any other reachable
// peer, and never relays.
ExchangeTraffic TrafficOf(const LinkModel& links, PlanShape shape, uint32_t chunks);
// Does the same, but divides the vector by other rates than the links'. `bandwidths` has a value
// for each peer, which is 0 if the peer reduces nothing; at least one is above 0. If `grouping` has
// groups, these average first instead of whole regions, whatever the shape is.
ExchangeTraffic TrafficOf(const LinkModel& links, PlanShape shape, uint32_t chunks,
                          const std::vector<double>& bandwidths,
                          const Grouping& grouping = Grouping());

// -----------------------------------------------------------------------------------------------
// RoundModel: predicts how long an exchange takes on a network and what limits it.
//
//   seconds = before and after + max(lines, stages, streams, processor) + round trips
//
// docs/performance_model.md derives each term under the same name. Pure. May be called from any
// thread.

// Returns the bytes of a share of the vector.
double BytesOf(const EncodedSize& size, const Share& share);

// The values that the model assumes where nothing was measured.
struct ModelAssumptions {
  // The payload's share of a line's rate: 1448 of the 1500 bytes of an IP packet with TCP.
  double line_share = 1448.0 / 1500.0;
  // The fraction of line_share that the streams of several peers together get on a link that they
  // share. The rest is lost because bytes that the link's queue drops are sent again and waited
  // for. The value was measured in the lab (docs/benchmarks.md).
  double link_share = 0.75;
  // The bytes that a stream may send in its first round trip after it was idle (RFC 6928: ten
  // segments). In each further round trip it may send twice as much as in the one before.
  double first_window_bytes = 10 * 1448;
  // The speed of encoding and of decoding by one thread, in bytes of fp32 a second. This is about a
  // third of what `atoll bench codec` prints for int8 on a recent core, because codecs with fewer
  // bits are slower.
  double encode_bytes_per_second = 8e9;
  double decode_bytes_per_second = 8e9;
  // The speed of SHA-256 over encoded bytes by one thread of a CPU with instructions for it.
  double hash_bytes_per_second = 1e9;
  // The processor time that a stream costs at one end, with one chunk up and its mean down; and the
  // bytes a second that a processor sends or receives with TLS. Both were measured (see "What a
  // stream costs" in docs/benchmarks.md).
  double stream_seconds = 400e-6;
  double wire_bytes_per_second = 0.6e9;
};

struct ExchangePrediction {
  double seconds = 0;  // the time from the last inner step to the commit
  // The terms of `seconds`:
  double lines_seconds = 0;  // the time of the busiest line, with all its traffic
  // The time of all stages, if each chunk waits for the stage before.
  double stages_seconds = 0;
  // The time of the stream that takes longest to reach its full speed.
  double streams_seconds = 0;
  double processor_seconds = 0;  // the time of the busiest reducer or relay
  double round_trips_seconds = 0;
  double before_and_after_seconds = 0;  // the time to encode and hash the whole vector
  // The part of before_and_after_seconds after which a peer may train on.
  double handover_seconds = 0;

  // What limits the exchange, for example "home-1 up", "link eu>us", "streams" or "processor of
  // eu-1".
  std::string bottleneck;
  double mean_bytes_sent = 0;  // the mean of all contributors
  double most_bytes_sent = 0;  // the most bytes that any peer sends
  double bytes_between_regions = 0;
  std::vector<double> link_bytes;  // the bytes that each link carries, by link
};

ExchangePrediction PredictExchange(const LinkModel& links, const ExchangeTraffic& traffic,
                                   const EncodedSize& size, const ModelAssumptions& assumed);

// Returns the share of a round in which peers train.
double ComputeUtilisation(double train_seconds, double exchange_seconds);

}  // namespace atolld

// RoundModel: how long an exchange takes on a network, and what limits it, without running it.
//
//   seconds = before and after + max(lines, stages, streams, processor) + round trips
//
// docs/performance_model.md derives each term under the name that it has here. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "membership/history/run_codecs.h"
#include "membership/planning/exchange_traffic.h"
#include "membership/planning/link_model.h"

namespace atolld {

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

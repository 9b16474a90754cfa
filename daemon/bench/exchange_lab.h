// `bench exchange --topology`: the same peers, each on its node of the lab (tests/wan/README.md),
// and what the topology lets expect of them.
//
// daemon/cli/lab.h enters the lab. One thread.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "compression/wire_codec.h"
#include "daemon/bench/exchange_bench.h"
#include "membership/planning/link_model.h"
#include "membership/planning/round_model.h"

namespace atolld {

// Puts every peer of the topology on its node. FAILED_PRECONDITION: the lab has no such node.
absl::Status PlaceOnNodes(const LinkModel& links, ExchangeBenchOptions* options);

struct ExchangeExpectation {
  // What a perfect exchange takes: the bytes that must pass the busiest line, at its rate without
  // any header, and two round trips, one to begin and one for the last chunk and its mean.
  double bound_seconds = 0;
  double line_seconds = 0;  // of that the line's
  std::string line;         // "eu-1 up"
  absl::Duration rtt;       // the longest between two peers
  // What `atoll plan` says of the same plan and codecs; it counts the coordinator's word too.
  ExchangePrediction predicted;
};

// Of a flat plan. Nothing for codecs whose bytes depend on the values.
std::optional<ExchangeExpectation> Expect(const LinkModel& links, const LevelCodecs& codecs,
                                          uint64_t elements, uint32_t chunk_elements);

}  // namespace atolld

// `bench exchange --topology`: runs the same peers, each on its node of the network lab
// (tests/wan/README.md), and computes the expected result for that topology.
//
// daemon/cli/lab.h enters the lab. Used by one thread.
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

// Sets the options so that every peer of the topology runs on its node of the lab. Fails with
// FAILED_PRECONDITION if the lab lacks a node.
absl::Status PlaceOnNodes(const LinkModel& links, ExchangeBenchOptions* options);

struct ExchangeExpectation {
  // The time of a perfect exchange. It is the time that the bytes without headers need on the
  // busiest line, plus two round trips: one to begin, and one for the last chunk and its mean.
  double bound_seconds = 0;
  double line_seconds = 0;  // The part of bound_seconds that the busiest line needs.
  std::string line;         // The name of the busiest line, for example "eu-1 up".
  absl::Duration rtt;       // The longest round trip time between two peers.
  // The time that `atoll plan` predicts for the same plan and codecs. It includes the coordinator's
  // signal to begin.
  ExchangePrediction predicted;
};

// Returns the expectation for a flat plan; nullopt if the number of bytes of a codec depends on the
// values.
std::optional<ExchangeExpectation> Expect(const LinkModel& links, const LevelCodecs& codecs,
                                          uint64_t elements, uint32_t chunk_elements);

}  // namespace atolld

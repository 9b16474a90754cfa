// PlanBounds: computes from the cost of streams how many reducers may share an entry, and whether
// groups of peers average first.
//
// There is a stream between each contributor and each of its reducers. It costs the processors at
// both ends some time, however little it carries (ModelAssumptions::stream_seconds). If all n peers
// reduce, there are n (n - 1) streams, each of which carries 1 / n of an update. One more reducer
// must therefore be worth its streams: each of them must carry at least as many bytes as a
// processor moves in the time that a stream costs. Large updates are therefore averaged by all
// peers, and small updates of many peers by only a few.
//
// Law: if there are three peers or more, at least three reduce, so that two are left when one is
// lost. No peer has more than kMostStreams streams in one level of averaging. Pure.
// docs/performance_model.md derives the bounds.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "membership/planning/link_model.h"
#include "membership/planning/reduction_plan.h"
#include "membership/planning/round_model.h"

namespace atolld {

// With more contributors than this, an entry is averaged in two levels if relays are possible. It
// is also the most streams that may wait at a peer for their plan (see ExchangeServer), and the
// most peers with which votes report arrivals (see ArrivalLog). A larger round has no measured
// lines to plan with.
inline constexpr size_t kMostStreams = 256;

struct PlanBounds {
  size_t reducers = 0;  // the most shards
  Grouping grouping;    // has no groups if there is one level
};

// Returns the bounds for at least one contributor. `bytes` is the larger of the sizes of an update
// and of a mean. `relays` is true if partial means are possible.
PlanBounds BoundsOf(size_t contributors, double bytes, bool relays,
                    const ModelAssumptions& assumed);

// Keeps the rates of `most` peers and sets all other rates to 0. It keeps the peers with a rate and
// the greatest preference; equals stay in their order. `preference` has one value for each peer.
std::vector<double> FirstOf(std::vector<double> rates, size_t most,
                            absl::Span<const double> preference);

// Returns the preference to pass to FirstOf if all lines are alike. Without groups all peers are
// equal, so the first in roster order reduce in every round and the connections stay the same. With
// groups, one peer of each group is preferred; its own group and the relays of the other groups
// then dial it.
std::vector<double> EqualPreference(size_t contributors, size_t most, const Grouping& grouping);

// Returns RatesOf (round_model.h) for at most as many reducers as the bounds allow.
std::vector<double> RatesFor(const LinkModel& links, PlanShape shape, const PlanBounds& bounds);

}  // namespace atolld

// PlanBounds: among how many reducers an entry is divided, and whether groups average first, by
// what streams cost.
//
// Between a contributor and each of its reducers there is a stream, which takes the processors at
// its ends some time whatever it carries (ModelAssumptions::stream_seconds). With all n peers as
// reducers these are n (n - 1) streams, of which each carries 1 / n of an update. So a reducer more
// has to be worth its streams: they carry at least as many bytes as a processor moves in the time
// that a stream costs. Large updates have all peers as reducers, small updates of many peers few.
//
// Law: of three peers and more at least three reduce, so that two are left when one is lost; no
// peer has more than kMostStreams streams by one level. Pure; docs/performance_model.md derives it.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "membership/planning/link_model.h"
#include "membership/planning/reduction_plan.h"
#include "membership/planning/round_model.h"

namespace atolld {

// Beyond as many contributors there are two levels where relays are possible. It is also what a
// peer lets wait for their plan (ExchangeServer), and up to which votes say what arrived
// (ArrivalLog): a round of more has no measured lines to be planned by.
inline constexpr size_t kMostStreams = 256;

struct PlanBounds {
  size_t reducers = 0;  // at most so many shards
  Grouping grouping;    // no groups: one level
};

// `contributors`: one at least. `bytes`: of an update or of its mean, whichever is longer.
// `relays`: partial means are possible.
PlanBounds BoundsOf(size_t contributors, double bytes, bool relays,
                    const ModelAssumptions& assumed);

// Of those with a rate the first `most` by preference, of equals in their order; the others' rates
// become 0. `preference` has one value each.
std::vector<double> FirstOf(std::vector<double> rates, size_t most,
                            absl::Span<const double> preference);

// Who ought to reduce where all lines are alike, by a preference for FirstOf. Without groups
// nobody: the first in roster order stay the same from round to round, and so do the connections.
// With groups one of each, so that it is dialled by its own group and by the others' relays.
std::vector<double> EqualPreference(size_t contributors, size_t most, const Grouping& grouping);

// RatesOf, so bounded.
std::vector<double> RatesFor(const LinkModel& links, PlanShape shape, const PlanBounds& bounds);

}  // namespace atolld

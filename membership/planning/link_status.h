// Link status: what lies between a run's regions, for people: what the newest plan counted on,
// beside what the newest exchange has carried.
//
// A rate is that of all streams together, since a link is shared by all that passes. A plan counts
// on the least of what the lines at either end and the link between them carry. A region with
// itself stands for the lines of its peers among each other. Regions without a name, each of one
// peer, are left out: there a peer's own line says all. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "atoll/v1/admin.pb.h"
#include "membership/planning/link_estimates.h"
#include "membership/planning/link_model.h"

namespace atolld {

// More would fill a screen, and every status that is sent.
inline constexpr size_t kMostLinksTold = 50;

// What a plan that is made by this model counts on, by the names of the regions.
std::vector<v1::LinkStatus> CountedOn(const LinkModel& model);

// These with what the newest exchange carried over each, the slowest first, at most kMostLinksTold.
std::vector<v1::LinkStatus> LinksToTell(absl::Span<const v1::LinkStatus> counted_on,
                                        const LinkEstimates& estimates);

}  // namespace atolld

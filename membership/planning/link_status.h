// Link status: a report for people about the network between a run's regions. It shows the rates
// that the newest plan assumed, and those at which the newest exchange carried data.
//
// A rate is the sum over all streams, since all traffic shares a link. A plan assumes the least of
// what the lines at either end and the link between them can carry. A region paired with itself
// means the lines among its own peers. Regions without a name, which have one peer each, are left
// out, because the peer's own line already shows their rate. Pure. May be called from any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "atoll/v1/admin.pb.h"
#include "membership/planning/link_estimates.h"
#include "membership/planning/link_model.h"

namespace atolld {

// The most links that are reported. More would fill a screen, and every status that is sent.
inline constexpr size_t kMostLinksTold = 50;

// Returns the rates that a plan made with this model assumes between regions.
std::vector<v1::LinkStatus> CountedOn(const LinkModel& model);

// Returns at most kMostLinksTold of these links, slowest first, each with the rate at which the
// newest exchange carried data over it.
std::vector<v1::LinkStatus> LinksToTell(absl::Span<const v1::LinkStatus> counted_on,
                                        const LinkEstimates& estimates);

}  // namespace atolld

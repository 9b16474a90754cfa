#include "membership/planning/link_status.h"

#include <algorithm>

#include "absl/time/time.h"

namespace atolld {
namespace {

// The rate that a model has if no limit is known (link_estimates.cc).
constexpr double kUnlimited = 1e15;

double RateToSortBy(const v1::LinkStatus& link) {
  if (link.measured_bytes_per_second() > 0) return link.measured_bytes_per_second();
  return link.predicted_bytes_per_second() > 0 ? link.predicted_bytes_per_second() : kUnlimited;
}

}  // namespace

std::vector<v1::LinkStatus> CountedOn(const LinkModel& model) {
  const size_t regions = model.regions().size();
  std::vector<double> up(regions, 0);
  std::vector<double> down(regions, 0);
  std::vector<size_t> peers(regions, 0);
  for (const PeerLink& peer : model.peers()) {
    up[peer.region] += peer.up;
    down[peer.region] += peer.down;
    ++peers[peer.region];
  }
  std::vector<v1::LinkStatus> links;
  for (size_t from = 0; from < regions; ++from) {
    for (size_t to = 0; to < regions; ++to) {
      if (model.regions()[from].empty() || model.regions()[to].empty()) continue;
      if (from == to && peers[from] < 2) continue;
      double rate = std::min(up[from], down[to]);
      if (from != to) {
        for (const size_t link : model.Route(from, to)) {
          rate = std::min(rate, model.links()[link].rate);
        }
      }
      v1::LinkStatus& told = links.emplace_back();
      told.set_from(model.regions()[from]);
      told.set_to(model.regions()[to]);
      if (rate < kUnlimited) told.set_predicted_bytes_per_second(rate);
      if (from != to) told.set_seconds(absl::ToDoubleSeconds(model.Delay(from, to)));
    }
  }
  return links;
}

std::vector<v1::LinkStatus> LinksToTell(absl::Span<const v1::LinkStatus> counted_on,
                                        const LinkEstimates& estimates) {
  std::vector<v1::LinkStatus> links(counted_on.begin(), counted_on.end());
  for (v1::LinkStatus& link : links) {
    link.set_measured_bytes_per_second(estimates.Carried(link.from(), link.to()));
  }
  std::stable_sort(links.begin(), links.end(), [](const v1::LinkStatus& a, const auto& b) {
    return RateToSortBy(a) < RateToSortBy(b);
  });
  if (links.size() > kMostLinksTold) links.resize(kMostLinksTold);
  return links;
}

}  // namespace atolld

#include "membership/planning/link_model.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"

namespace atolld {

size_t LinkModel::AddRegion(std::string name, bool close) {
  regions_.push_back(std::move(name));
  close_.push_back(close);
  return regions_.size() - 1;
}

void LinkModel::AddPeer(PeerLink peer) { peers_.push_back(std::move(peer)); }

void LinkModel::AddLink(size_t a, size_t b, double bytes_per_second, absl::Duration rtt) {
  AddLink(a, b, bytes_per_second, bytes_per_second, rtt);
}

void LinkModel::AddLink(size_t a, size_t b, double forth, double back, absl::Duration rtt) {
  links_.push_back({absl::StrCat(regions_[a], ">", regions_[b]), a, b, forth, rtt / 2});
  links_.push_back({absl::StrCat(regions_[b], ">", regions_[a]), b, a, back, rtt / 2});
}

void LinkModel::SetCoordinator(PeerLink node) { coordinator_ = std::move(node); }

void LinkModel::AddAggregator() {
  PeerLink aggregator = coordinator_;
  aggregator.name = "aggregator";
  aggregator.contributes = false;
  peers_.push_back(std::move(aggregator));
}

size_t LinkModel::contributors() const {
  return static_cast<size_t>(std::count_if(peers_.begin(), peers_.end(),
                                           [](const PeerLink& peer) { return peer.contributes; }));
}

std::vector<LinkModel::Way> LinkModel::WaysFrom(size_t start) const {
  std::vector<std::vector<size_t>> leaving(regions_.size());
  for (size_t link = 0; link < links_.size(); ++link) leaving[links_[link].from].push_back(link);
  // Delay, number of links, region, and the link by which it was reached.
  using Step = std::tuple<absl::Duration, size_t, size_t, size_t>;
  std::priority_queue<Step, std::vector<Step>, std::greater<Step>> queue;
  std::vector<Way> ways(regions_.size());
  std::vector<bool> reached(regions_.size(), false);
  queue.push({absl::ZeroDuration(), 0, start, 0});
  while (!queue.empty()) {
    const auto [delay, count, here, by] = queue.top();
    queue.pop();
    if (reached[here]) continue;
    reached[here] = true;
    if (here != start) ways[here].links = ways[links_[by].from].links;
    if (here != start) ways[here].links.push_back(by);
    ways[here].delay = delay;
    for (const size_t link : leaving[here]) {
      if (reached[links_[link].to]) continue;
      queue.push({delay + links_[link].delay, count + 1, links_[link].to, link});
    }
  }
  for (size_t region = 0; region < regions_.size(); ++region) {
    if (!reached[region]) ways[region].delay = absl::InfiniteDuration();
  }
  return ways;
}

absl::Status LinkModel::Connect() {
  routes_.clear();
  for (size_t start = 0; start < regions_.size(); ++start) {
    routes_.push_back(WaysFrom(start));
    for (size_t end = 0; end < regions_.size(); ++end) {
      if (routes_[start][end].delay < absl::InfiniteDuration()) continue;
      return absl::InvalidArgumentError(absl::StrCat("no link leads from region '", regions_[start],
                                                     "' to region '", regions_[end], "'"));
    }
  }
  return absl::OkStatus();
}

void LinkModel::ConnectDirectly() {
  routes_.assign(regions_.size(), std::vector<Way>(regions_.size()));
  for (size_t link = 0; link < links_.size(); ++link) {
    routes_[links_[link].from][links_[link].to] = {{link}, links_[link].delay};
  }
}

double LinkModel::SlowestRate() const {
  double slowest = std::numeric_limits<double>::infinity();
  for (const PeerLink& peer : peers_) slowest = std::min({slowest, peer.up, peer.down});
  for (const RegionLink& link : links_) slowest = std::min(slowest, link.rate);
  return slowest;
}

absl::Duration LinkModel::CoordinatorRtt() const {
  if (coordinator_rtt_) return *coordinator_rtt_;
  absl::Duration longest;
  for (const PeerLink& peer : peers_) {
    longest = std::max(longest, peer.delay + Delay(peer.region, coordinator_.region));
  }
  return 2 * (longest + coordinator_.delay);
}

LinkModel EqualPeers(uint32_t peers, double bytes_per_second, absl::Duration rtt) {
  LinkModel model;
  model.AddRegion("peers");
  for (uint32_t i = 1; i <= peers; ++i) {
    model.AddPeer({absl::StrCat("peer-", i), 0, bytes_per_second, bytes_per_second, rtt / 4, true});
  }
  model.SetCoordinator({"coordinator", 0, bytes_per_second, bytes_per_second, rtt / 4});
  CHECK(model.Connect().ok());  // there is only one region
  return model;
}

}  // namespace atolld

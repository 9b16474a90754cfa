#include "membership/planning/slow_lines.h"

#include <algorithm>

namespace atolld {
namespace {

constexpr double kSlowBelow = 0.5;  // as a part of the median
constexpr double kFastFrom = 0.75;  // likewise

}  // namespace

std::vector<SlowLines::Change> SlowLines::Update(const std::map<std::string, double>& rates) {
  std::vector<double> known;
  for (const auto& [peer, rate] : rates) {
    if (rate > 0) known.push_back(rate);
  }
  std::vector<Change> changes;
  if (known.size() < 2) return changes;
  std::nth_element(known.begin(), known.begin() + known.size() / 2, known.end());
  const double median = known[known.size() / 2];
  for (const auto& [peer, rate] : rates) {
    const bool was = Has(peer);
    const bool slow = rate <= 0 ? was : rate < (was ? kFastFrom : kSlowBelow) * median;
    if (slow == was) continue;
    if (slow) {
      slow_.insert(peer);
    } else {
      slow_.erase(peer);
    }
    changes.push_back({peer, slow, rate, median});
  }
  return changes;
}

void MarkSlowLines(LinkModel* links) {
  std::map<std::string, double> rates;
  for (const PeerLink& peer : links->peers()) {
    if (peer.contributes) rates[peer.name] = peer.up;
  }
  SlowLines lines;
  lines.Update(rates);
  for (size_t i = 0; i < links->peers().size(); ++i) {
    const PeerLink& peer = links->peers()[i];
    links->SetSlow(i, peer.contributes && lines.Has(peer.name));
  }
}

}  // namespace atolld

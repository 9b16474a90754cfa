#include "membership/plan_choice.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"

namespace atolld {
namespace {

// What another plan has to save before it is taken: a share of the time, and a time that anybody
// would notice.
constexpr double kLeastShare = 0.1;
constexpr double kLeastSeconds = 0.05;

std::vector<double> Equal(const std::vector<bool>& reduces) {
  return {reduces.begin(), reduces.end()};
}

std::vector<double> ByRates(const LinkModel& links, const std::vector<bool>& reduces) {
  std::vector<double> rates;
  for (size_t i = 0; i < reduces.size(); ++i) {
    const PeerLink& peer = links.peers()[i];
    rates.push_back(reduces[i] ? std::min(peer.up, peer.down) : 0);
  }
  return rates;
}

Share ArrivingShares(const ExchangeTraffic& traffic) {
  Share shares;
  for (const StageTraffic& stage : traffic.stages) {
    for (const Share& share : stage.down) shares += share;
  }
  return shares;
}

}  // namespace

PlanChoice::PlanChoice(PlanKind kind)
    : kind_(kind),
      shape_(kind == PlanKind::kRegions ? PlanShape::kRegions : PlanShape::kFlat),
      regions_tried_(kind != PlanKind::kAuto) {}

// Peers of one region could average among themselves, others are elsewhere, and the exchange takes
// long enough that time can be saved at all.
bool PlanChoice::WorthATrial(const LinkModel& links, const std::vector<bool>& reduces,
                             double kept_seconds) const {
  if (regions_tried_ || kept_seconds * kLeastShare < kLeastSeconds) return false;
  std::map<size_t, size_t> peers;  // by region
  std::set<size_t> with_a_reducer;
  for (size_t i = 0; i < reduces.size(); ++i) {
    const size_t region = links.peers()[i].region;
    ++peers[region];
    if (reduces[i] && links.close(region)) with_a_reducer.insert(region);
  }
  return peers.size() > 1 && std::any_of(with_a_reducer.begin(), with_a_reducer.end(),
                                         [&](size_t region) { return peers[region] > 1; });
}

// For one exchange: shape_ stays what the next choice is compared with, unless this one is faster.
ChosenPlan PlanChoice::Try(const LinkModel& links, const std::vector<bool>& reduces,
                           uint32_t chunks) {
  regions_tried_ = true;
  trial_ = true;
  const PlanShape shape = PlanShape::kRegions;
  shares_ = ArrivingShares(TrafficOf(links, shape, chunks, Equal(reduces)));
  const char* const why = "one exchange by region, to see what the lines within the regions carry";
  return {shape, Equal(reduces), {}, why};
}

// The rates of the last plan. Whoever was not in it counts as the middle one.
std::vector<double> PlanChoice::Kept(const LinkModel* links,
                                     const std::vector<bool>& reduces) const {
  if (links == nullptr || !Weighted(shape_)) return Equal(reduces);
  std::vector<double> known;
  for (const auto& [peer, rate] : rates_) known.push_back(rate);
  std::sort(known.begin(), known.end());
  std::vector<double> kept;
  for (size_t i = 0; i < reduces.size(); ++i) {
    const auto found = rates_.find(links->peers()[i].name);
    const double rate = found == rates_.end() ? known[known.size() / 2] : found->second;
    kept.push_back(reduces[i] ? rate : 0);
  }
  return kept;
}

ChosenPlan PlanChoice::Choose(const LinkModel* links, const std::vector<bool>& reduces,
                              const EncodedSize& size, uint32_t chunks) {
  trial_ = false;
  shares_ = Share();
  if (links == nullptr) {
    // Nobody's rate is known, so it is as before but for the rates.
    return {ByRegion(shape_) ? PlanShape::kRegions : PlanShape::kFlat, Equal(reduces), {}, ""};
  }
  // Estimates are of payload already.
  ModelAssumptions assumed;
  assumed.line_share = 1;
  assumed.link_share = 1;
  const EncodedSize sent = {size.parameters, update_bytes_ > 0 ? update_bytes_ : size.update_bytes,
                            mean_bytes_ > 0 ? mean_bytes_ : size.mean_bytes};
  const auto make = [&](PlanShape shape, std::vector<double> bandwidths) {
    Candidate made{shape, std::move(bandwidths), {}, {}};
    made.traffic = TrafficOf(*links, shape, chunks, made.bandwidths);
    made.prediction = PredictExchange(*links, made.traffic, sent, assumed);
    return made;
  };
  const Candidate kept = make(shape_, Kept(links, reduces));
  Candidate best = kept;
  for (const PlanShape shape :
       {PlanShape::kFlat, PlanShape::kWeighted, PlanShape::kRegions, PlanShape::kWeightedRegions}) {
    if (kind_ != PlanKind::kAuto && ByRegion(shape) != (kind_ == PlanKind::kRegions)) continue;
    Candidate other = make(shape, Weighted(shape) ? ByRates(*links, reduces) : Equal(reduces));
    if (other.prediction.seconds < best.prediction.seconds) best = std::move(other);
  }
  const double saved = kept.prediction.seconds - best.prediction.seconds;
  const bool change = saved >= kLeastShare * kept.prediction.seconds && saved >= kLeastSeconds;
  const Candidate& chosen = change ? best : kept;
  if (ByRegion(chosen.shape)) regions_tried_ = true;
  if (WorthATrial(*links, reduces, kept.prediction.seconds)) return Try(*links, reduces, chunks);
  ChosenPlan plan{chosen.shape, chosen.bandwidths, chosen.prediction, ""};
  if (change) {
    plan.change = absl::StrFormat(
        "the plan is now %s%s, predicted to take %.2f s (%s); as before it would take %.2f s (%s)",
        PlanShapeName(chosen.shape), chosen.shape == shape_ ? " with other shards" : "",
        chosen.prediction.seconds, chosen.prediction.bottleneck, kept.prediction.seconds,
        kept.prediction.bottleneck);
    shape_ = chosen.shape;
    rates_.clear();
    for (size_t i = 0; i < reduces.size() && Weighted(shape_); ++i) {
      if (chosen.bandwidths[i] > 0) rates_[links->peers()[i].name] = chosen.bandwidths[i];
    }
  }
  shares_ = ArrivingShares(chosen.traffic);
  return plan;
}

void PlanChoice::NoteArrived(double update_bytes, double mean_bytes) {
  if (shares_.updates > 0 && update_bytes > 0) update_bytes_ = update_bytes / shares_.updates;
  if (shares_.means > 0 && mean_bytes > 0) mean_bytes_ = mean_bytes / shares_.means;
}

void PlanChoice::NoteSeconds(double seconds) {
  if (trial_ && seconds <= (1 - kLeastShare) * last_seconds_) {
    shape_ = PlanShape::kRegions;
    rates_.clear();
  }
  trial_ = false;
  last_seconds_ = seconds;
}

}  // namespace atolld

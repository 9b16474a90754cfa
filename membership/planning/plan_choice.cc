#include "membership/planning/plan_choice.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "membership/planning/plan_bounds.h"
#include "membership/planning/reduction_plan.h"

namespace atolld {
namespace {

// The savings that another plan needs before it is taken: a share of the time, and a noticeable
// time.
constexpr double kLeastShare = 0.1;
constexpr double kLeastSeconds = 0.05;

// A trial of more reducers has this many times as many.
constexpr size_t kWider = 2;

// The factor by which a trial of other shards may take longer than equal shards if all lines are
// alike.
constexpr double kMostForATrial = 1.25;

std::vector<double> Equal(const std::vector<bool>& reduces) {
  return {reduces.begin(), reduces.end()};
}

std::vector<double> EqualFirst(const std::vector<bool>& reduces, size_t most,
                               const Grouping& grouping = Grouping()) {
  return FirstOf(Equal(reduces), most, EqualPreference(reduces.size(), most, grouping));
}

// Returns the `most` fastest ones.
std::vector<double> ByRates(const LinkModel& links, const std::vector<bool>& reduces, size_t most) {
  std::vector<double> rates;
  for (size_t i = 0; i < reduces.size(); ++i) {
    const PeerLink& peer = links.peers()[i];
    rates.push_back(reduces[i] ? std::min(peer.up, peer.down) : 0);
  }
  const std::vector<double> preference = rates;
  return FirstOf(std::move(rates), most, preference);
}

std::map<std::string, double> NamedRates(const LinkModel& links, PlanShape shape,
                                         const std::vector<double>& bandwidths) {
  std::map<std::string, double> rates;
  for (size_t i = 0; i < bandwidths.size() && Weighted(shape); ++i) {
    if (bandwidths[i] > 0) rates[links.peers()[i].name] = bandwidths[i];
  }
  return rates;
}

// Returns in words which peers are waited for.
std::string WaitedFor(const LinkModel& links, const std::vector<bool>& reduces) {
  constexpr size_t kMostNames = 3;
  std::vector<std::string> names;
  for (size_t i = 0; i < reduces.size(); ++i) {
    if (reduces[i] && !links.peers()[i].had_room) names.push_back(links.peers()[i].name);
  }
  if (names.size() > kMostNames) return absl::StrCat(names.size(), " peers");
  return absl::StrJoin(names, ", ");
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
      kept_{kind == PlanKind::kRegions ? PlanShape::kRegions : PlanShape::kFlat, {}},
      regions_tried_(kind != PlanKind::kAuto) {}

// Returns true if peers of one region could average among themselves, others are elsewhere, and the
// exchange takes long enough that time can be saved.
bool PlanChoice::WorthATrial(const LinkModel& links, const std::vector<bool>& reduces,
                             double kept_seconds) const {
  if (regions_tried_ || kept_seconds * kLeastShare < kLeastSeconds) return false;
  std::map<size_t, size_t> peers;  // the number of peers in each region
  std::set<size_t> with_a_reducer;
  for (size_t i = 0; i < reduces.size(); ++i) {
    const size_t region = links.peers()[i].region;
    ++peers[region];
    if (reduces[i] && links.close(region)) with_a_reducer.insert(region);
  }
  return peers.size() > 1 && std::any_of(with_a_reducer.begin(), with_a_reducer.end(),
                                         [&](size_t region) { return peers[region] > 1; });
}

// All peers wait for some lines, and what the other lines could carry beyond what they are asked
// for has not been seen. The trial assumes that it is twice as much, so that the peers that are
// waited for reduce little or nothing.
std::vector<double> PlanChoice::AskingMore(const LinkModel& links, const std::vector<bool>& reduces,
                                           const Candidate& kept) const {
  constexpr size_t kFewest = 3;  // of two peers, each sends all that the other must get
  if (ByRegion(kept.shape) || reduces.size() < kFewest) return {};
  if (kept.prediction.seconds * kLeastShare < kLeastSeconds) return {};
  const std::vector<double> shares = ShardWeights(kept.bandwidths);
  bool gives = false;
  bool takes = false;
  double reducers = 0;
  double with_room = 0;
  std::vector<double> rates;
  for (size_t i = 0; i < reduces.size(); ++i) {
    const PeerLink& peer = links.peers()[i];
    rates.push_back(!reduces[i] ? 0 : peer.had_room ? 2 : 1);
    if (!reduces[i]) continue;
    ++reducers;
    if (peer.had_room) {
      ++with_room;
      takes = takes || asked_for_more_.count(peer.name) == 0;
    } else {
      gives = gives || 2 * shares[i] * static_cast<double>(reduces.size()) >= 1;
    }
  }
  if (!gives || !takes) return {};
  // The busiest line's share is 1 + (n - 2) w, with r reducers and w = 1 / r each (ShardWeights).
  const auto others = static_cast<double>(reduces.size() - 2);
  const bool cheap = 1 + others / with_room <= kMostForATrial * (1 + others / reducers);
  return cheap ? rates : std::vector<double>();
}

// Tries a plan for one exchange: the next choice is compared with kept_, unless the trial is
// faster.
ChosenPlan PlanChoice::Try(const Question& question, PlanShape shape,
                           std::vector<double> bandwidths, std::string why) {
  trial_ = Trial{{shape, NamedRates(*question.links, shape, bandwidths)}, {}};
  const Grouping& grouping = question.bounds.grouping;
  shares_ =
      ArrivingShares(TrafficOf(*question.links, shape, question.chunks, bandwidths, grouping));
  return {shape, std::move(bandwidths), grouping, {}, std::move(why)};
}

// Returns the rates of the last plan. A peer that was not in it gets the median.
std::vector<double> PlanChoice::KeptRates(const LinkModel* links, const std::vector<bool>& reduces,
                                          size_t most) const {
  if (links == nullptr || !Weighted(kept_.shape)) return EqualFirst(reduces, most);
  std::vector<double> known;
  for (const auto& [peer, rate] : kept_.rates) known.push_back(rate);
  std::sort(known.begin(), known.end());
  std::vector<double> kept;
  std::vector<double> there;  // 1 if it had a share
  for (size_t i = 0; i < reduces.size(); ++i) {
    const auto found = kept_.rates.find(links->peers()[i].name);
    there.push_back(found == kept_.rates.end() ? 0 : 1);
    const double rate = found == kept_.rates.end() ? known[known.size() / 2] : found->second;
    kept.push_back(reduces[i] ? rate : 0);
  }
  return FirstOf(std::move(kept), most, there);
}

// The estimates already are of payload.
ModelAssumptions PlanChoice::Assumed() {
  ModelAssumptions assumed;
  assumed.line_share = 1;
  assumed.link_share = 1;
  return assumed;
}

PlanChoice::Candidate PlanChoice::Make(const Question& question, PlanShape shape,
                                       std::vector<double> bandwidths) {
  Candidate made{shape, std::move(bandwidths), {}, {}};
  made.traffic =
      TrafficOf(*question.links, shape, question.chunks, made.bandwidths, question.bounds.grouping);
  made.prediction = PredictExchange(*question.links, made.traffic, question.sent, Assumed());
  return made;
}

std::optional<ChosenPlan> PlanChoice::ChooseTrial(const Question& question, const Candidate& kept,
                                                  bool change) {
  const LinkModel& links = *question.links;
  const std::vector<bool>& reduces = question.reduces;
  if (WorthATrial(links, reduces, kept.prediction.seconds)) {
    return Try(question, PlanShape::kRegions, EqualFirst(reduces, question.most),
               "one exchange by region, to see what the lines within the regions carry");
  }
  if (change) return std::nullopt;
  Candidate wider = Make(question, kept.shape, KeptRates(&links, reduces, kWider * question.most));
  if (!wider_tried_ && wider.traffic.reducers > kept.traffic.reducers && Saves(kept, wider)) {
    std::string why = absl::StrFormat(
        "one exchange with %d reducers instead of %d, to see whether lines are waited for",
        wider.traffic.reducers, kept.traffic.reducers);
    ChosenPlan trial = Try(question, wider.shape, std::move(wider.bandwidths), std::move(why));
    trial_->wider = kWider * wider_;
    return trial;
  }
  if (question.most < reduces.size()) return std::nullopt;
  std::vector<double> more = AskingMore(links, reduces, kept);
  if (more.empty()) return std::nullopt;
  std::string why = absl::StrCat("one exchange with less to reduce for ", WaitedFor(links, reduces),
                                 ", to see what other lines carry");
  ChosenPlan trial = Try(question, PlanShape::kWeighted, std::move(more), std::move(why));
  for (const PeerLink& peer : links.peers()) {
    if (peer.had_room) trial_->asked_for_more.insert(peer.name);
  }
  return trial;
}

ChosenPlan PlanChoice::Choose(const LinkModel* links, const std::vector<bool>& reduces,
                              const EncodedSize& size, uint32_t chunks) {
  if (trial_) EndTrial();  // its exchange was given up, perhaps because of the trial
  shares_ = Share();
  EncodedSize sent = size;
  slow_part_ = size.update_bytes > 0 ? size.slow_bytes / size.update_bytes : 1;
  if (update_bytes_ > 0) sent.update_bytes = update_bytes_;
  if (mean_bytes_ > 0) sent.mean_bytes = mean_bytes_;
  sent.slow_bytes = slow_part_ * sent.update_bytes;
  const PlanBounds bounds = BoundsOf(reduces.size(), std::max(sent.update_bytes, sent.mean_bytes),
                                     /*relays=*/kind_ != PlanKind::kFlat, Assumed());
  const Question question = {links, reduces, sent, chunks, bounds, wider_ * bounds.reducers};
  if (links == nullptr) {
    // No rate is known, so everything except the rates stays as it was.
    return {ByRegion(kept_.shape) ? PlanShape::kRegions : PlanShape::kFlat,
            EqualFirst(reduces, question.most, bounds.grouping),
            bounds.grouping,
            {},
            ""};
  }
  judge_.SeeLines(*links);
  const Candidate kept = Make(question, kept_.shape, KeptRates(links, reduces, question.most));
  const Candidate best = judge_.judging() ? kept : Best(question, kept);
  const bool change = Saves(kept, best);
  const Candidate& chosen = change ? best : kept;
  if (ByRegion(chosen.shape)) regions_tried_ = true;
  std::optional<ChosenPlan> trial;
  if (!judge_.judging()) trial = ChooseTrial(question, kept, change);
  if (trial) return *std::move(trial);
  ChosenPlan plan{chosen.shape, chosen.bandwidths, bounds.grouping, chosen.prediction,
                  std::exchange(taken_back_, "")};
  if (change) {
    judge_.Begin(chosen.shape, chosen.prediction.seconds);
    former_ = kept_;
    absl::StrAppendFormat(
        &plan.change,
        "%sthe plan is now %s%s, predicted to take %.2f s (%s); as before it would take %.2f s "
        "(%s)",
        plan.change.empty() ? "" : "; ", PlanShapeName(chosen.shape),
        chosen.shape == kept_.shape ? " with other shards" : "", chosen.prediction.seconds,
        chosen.prediction.bottleneck, kept.prediction.seconds, kept.prediction.bottleneck);
    kept_ = {chosen.shape, NamedRates(*links, chosen.shape, chosen.bandwidths)};
  }
  shares_ = ArrivingShares(chosen.traffic);
  return plan;
}

// Returns the best of the shapes that are not refuted, or `kept` if none is faster.
PlanChoice::Candidate PlanChoice::Best(const Question& question, const Candidate& kept) const {
  Candidate best = kept;
  for (const PlanShape shape :
       {PlanShape::kFlat, PlanShape::kWeighted, PlanShape::kRegions, PlanShape::kWeightedRegions}) {
    if (kind_ != PlanKind::kAuto && ByRegion(shape) != (kind_ == PlanKind::kRegions)) continue;
    if (judge_.Refuted(shape)) continue;
    Candidate other =
        Make(question, shape,
             Weighted(shape) ? ByRates(*question.links, question.reduces, question.most)
                             : EqualFirst(question.reduces, question.most));
    if (other.prediction.seconds < best.prediction.seconds) best = std::move(other);
  }
  return best;
}

bool PlanChoice::Saves(const Candidate& before, const Candidate& after) {
  const double saved = before.prediction.seconds - after.prediction.seconds;
  return saved >= kLeastShare * before.prediction.seconds && saved >= kLeastSeconds;
}

void PlanChoice::NoteArrived(double update_bytes, double mean_bytes) {
  const double updates = shares_.updates + slow_part_ * shares_.slow_updates;
  if (updates > 0 && update_bytes > 0) update_bytes_ = update_bytes / updates;
  if (shares_.means > 0 && mean_bytes > 0) mean_bytes_ = mean_bytes / shares_.means;
}

void PlanChoice::NoteSeconds(double seconds, bool disturbed) {
  const bool faster = seconds <= (1 - kLeastShare) * last_seconds_;
  last_seconds_ = seconds;
  if (trial_) return NoteTrial(seconds, faster, disturbed);
  if (judge_.Note(seconds, disturbed) != ChangeJudge::Verdict::kTakenBack) return;
  kept_ = former_;
  taken_back_ =
      absl::StrCat("the plan is ", PlanShapeName(kept_.shape), " again: ", judge_.Reason());
}

void PlanChoice::NoteTrial(double seconds, bool faster, bool disturbed) {
  if (faster) {
    kept_ = trial_->plan;
    judge_.BeginWithout(seconds);
  }
  if (faster && trial_->wider > 0) {
    // A still wider one may be tried.
    wider_ = trial_->wider;
    trial_.reset();
    return;
  }
  if (faster || !disturbed) {
    EndTrial();
  } else {
    trial_.reset();
  }
}

// The trial was made, and is not repeated.
void PlanChoice::EndTrial() {
  if (ByRegion(trial_->plan.shape)) regions_tried_ = true;
  asked_for_more_.merge(trial_->asked_for_more);
  if (trial_->wider > 0) wider_tried_ = true;
  trial_.reset();
}

}  // namespace atolld

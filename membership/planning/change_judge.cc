#include "membership/planning/change_judge.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace atolld {
namespace {

// The numbers of exchanges before and after a change that are compared, each time by the fastest:
// other influences only make exchanges slower.
constexpr size_t kBefore = 3;
constexpr size_t kAfter = 2;

// The most exchanges after a change, including disturbed ones. After them the change stays, since
// nothing has refuted it.
constexpr size_t kMostAfter = 6;

// The factor by which a time may differ from the expected time.
constexpr double kSlack = 1.25;

// A line that shows this many times what it had shown has changed.
constexpr double kGrown = 1.5;

double Least(const std::deque<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

double Greatest(const std::deque<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

// Keeps the greatest value, and returns true if `seen` is far above it.
bool Raise(double seen, double* most) {
  const bool grown = *most > 0 && seen > kGrown * *most;
  *most = std::max(*most, seen);
  return grown;
}

}  // namespace

void ChangeJudge::Begin(PlanShape shape, double predicted_seconds) {
  shape_.reset();
  usual_ = 0;
  if (!recent_.empty()) {
    shape_ = shape;
    predicted_ = predicted_seconds;
    before_ = Least(recent_);
    seen_exchanges_ = 0;
  }
  recent_.clear();
}

void ChangeJudge::BeginWithout(double seconds) {
  shape_.reset();
  usual_ = 0;
  recent_ = {seconds};
}

ChangeJudge::Verdict ChangeJudge::Note(double seconds, bool disturbed) {
  if (judging()) ++seen_exchanges_;
  if (!disturbed) {
    recent_.push_back(seconds);
    if (recent_.size() > kBefore) recent_.pop_front();
  }
  if (!judging()) {
    if (usual_ == 0 && recent_.size() == kBefore) usual_ = Least(recent_);
    if (TimesHaveChanged()) refuted_.clear();
    return Verdict::kNone;
  }
  const bool good =
      !recent_.empty() && (Least(recent_) < before_ || Least(recent_) <= kSlack * predicted_);
  if (good || (recent_.size() < kAfter && seen_exchanges_ >= kMostAfter)) {
    shape_.reset();
    return Verdict::kPaid;
  }
  if (recent_.size() < kAfter) return Verdict::kNone;
  Refute();
  return Verdict::kTakenBack;
}

void ChangeJudge::Refute() {
  reason_ = absl::StrFormat("%s took %.2f s, where %.2f s were predicted and it was %.2f s before",
                            PlanShapeName(*shape_), Least(recent_), predicted_, before_);
  for (const PlanShape shape :
       {PlanShape::kFlat, PlanShape::kWeighted, PlanShape::kRegions, PlanShape::kWeightedRegions}) {
    const bool both_weighted = Weighted(shape) && Weighted(*shape_);
    if (shape == *shape_ || both_weighted) refuted_.insert(shape);
  }
  shape_.reset();
  usual_ = before_;
  recent_ = {before_};
  lines_known_ = false;
}

bool ChangeJudge::TimesHaveChanged() const {
  if (refuted_.empty() || usual_ == 0 || recent_.size() < kBefore) return false;
  return Least(recent_) > kSlack * usual_ || kSlack * Greatest(recent_) < usual_;
}

void ChangeJudge::SeeLines(const LinkModel& links) {
  if (refuted_.empty()) return;
  bool grown = false;
  for (const PeerLink& peer : links.peers()) {
    // Both are called, whatever the first one returns.
    const bool up = Raise(peer.up, &most_up_[peer.name]);
    const bool down = Raise(peer.down, &most_down_[peer.name]);
    grown = grown || up || down;
  }
  // The exchanges that refuted the change have shown more than those before it.
  if (grown && lines_known_) refuted_.clear();
  lines_known_ = true;
}

}  // namespace atolld

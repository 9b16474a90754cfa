#include "worker/base/merge_point.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "compression/base/words.h"

namespace atolld {

absl::Status ReadStart(const v1::TrainSteps& train, TrainingStart* start) {
  const std::string& told = train.start();
  if (told.empty()) {
    *start = TrainingStart::kTheta;
  } else if (told == "guess") {
    *start = TrainingStart::kGuess;
  } else if (told != "own") {
    return absl::InvalidArgumentError(absl::StrCat("version ", train.version(),
                                                   ": TrainSteps.start is '", told,
                                                   "'; this worker knows '', 'own' and 'guess'"));
  } else if (train.party() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "version ", train.version(), ", party ", train.party(),
        ": TrainSteps.start is 'own'; virtual parties train in turn and have no parameters of "
        "their own"));
  } else {
    *start = TrainingStart::kOwn;
  }
  return absl::OkStatus();
}

void MergePoint::Begin(const v1::TrainSteps& train, bool own) {
  if (!own) {
    for (const v1::Merge& merge : pending_) merged_ = std::max(merged_, merge.version());
    pending_.clear();
  }
  awaited_ = train.merge_version() > merged_ ? train.merge_version() : 0;
  after_ = train.merge_after();
}

void MergePoint::Add(const v1::Merge& merge) { pending_.push_back(merge); }

bool MergePoint::HasAwaited() const {
  return std::any_of(pending_.begin(), pending_.end(),
                     [&](const v1::Merge& merge) { return merge.version() >= awaited_; });
}

uint32_t MergePoint::StepsBefore(uint32_t steps) const {
  return awaited_ == 0 ? steps : std::min(after_, steps);
}

bool MergePoint::Waits(uint32_t done, uint32_t steps) const {
  return awaited_ != 0 && done >= StepsBefore(steps) && !HasAwaited();
}

std::vector<v1::Merge> MergePoint::Take(uint32_t done, uint32_t steps) {
  const bool arrived = awaited_ != 0 && done >= StepsBefore(steps) && HasAwaited();
  if (arrived) awaited_ = 0;
  // What is older than the awaited one belongs to an entry from before this training.
  const auto later = std::stable_partition(
      pending_.begin(), pending_.end(),
      [&](const v1::Merge& merge) { return awaited_ == 0 || merge.version() < awaited_; });
  std::vector<v1::Merge> due(std::make_move_iterator(pending_.begin()),
                             std::make_move_iterator(later));
  pending_.erase(pending_.begin(), later);
  for (const v1::Merge& merge : due) merged_ = std::max(merged_, merge.version());
  return due;
}

// -----------------------------------------------------------------------------------------------

namespace {

absl::Status CheckMerge(const v1::Merge& merge, uint64_t elements) {
  const float own = absl::bit_cast<float>(merge.own_share_bits());
  if (!merge.rebase() && !(own >= 0 && own <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("Merge of version ", merge.version(),
                                                   ": own_share is ", own, "; it is 0 to 1"));
  }
  for (const v1::ValueRange& range : merge.ranges()) {
    if (range.first() <= elements && range.count() <= elements - range.first()) continue;
    return absl::InvalidArgumentError(absl::StrCat("Merge of version ", merge.version(), ": ",
                                                   Counted(range.count(), "value"), " from ",
                                                   range.first(), " on; the model has ", elements));
  }
  return absl::OkStatus();
}

void MixIn(float own, absl::Span<const float> theta, absl::Span<float> base,
           absl::Span<float> parameters) {
  const float others = 1.0f - own;
  for (size_t i = 0; i < theta.size(); ++i) {
    const float moved = theta[i];
    parameters[i] = own * parameters[i] + others * moved;
    base[i] = moved;
  }
}

}  // namespace

void RebaseOnto(absl::Span<const float> theta, absl::Span<float> base,
                absl::Span<float> parameters) {
  for (size_t i = 0; i < theta.size(); ++i) {
    const float moved = theta[i];
    parameters[i] += moved - base[i];
    base[i] = moved;
  }
}

absl::Status MergeInto(const v1::Merge& merge, absl::Span<const float> theta,
                       absl::Span<float> base, absl::Span<float> parameters) {
  const absl::Status sound = CheckMerge(merge, theta.size());
  if (!sound.ok()) return sound;
  std::vector<v1::ValueRange> ranges(merge.ranges().begin(), merge.ranges().end());
  if (ranges.empty()) {
    ranges.emplace_back();
    ranges.back().set_count(theta.size());
  }
  for (const v1::ValueRange& range : ranges) {
    const size_t first = range.first(), count = range.count();
    if (merge.rebase()) {
      RebaseOnto(theta.subspan(first, count), base.subspan(first, count),
                 parameters.subspan(first, count));
    } else {
      MixIn(absl::bit_cast<float>(merge.own_share_bits()), theta.subspan(first, count),
            base.subspan(first, count), parameters.subspan(first, count));
    }
  }
  return absl::OkStatus();
}

}  // namespace atolld

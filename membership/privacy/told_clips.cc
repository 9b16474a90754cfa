#include "membership/privacy/told_clips.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace atolld {
namespace {

// Far more than are under way at once, and at most some megabytes.
constexpr size_t kMostTrains = 65536;

}  // namespace

void ToldClips::NoteTrain(uint64_t number, double clip) {
  by_train_[number] = clip;
  if (by_train_.size() > kMostTrains) by_train_.erase(by_train_.begin());
}

double ToldClips::Of(const v1::Ready& ready) const {
  const auto told = by_train_.find(ready.train_number());
  if (told != by_train_.end()) return told->second;
  const uint64_t began = ready.version() - std::min<uint64_t>(ready.version(), ready.age());
  const auto later = by_version_.upper_bound(std::max<uint64_t>(1, began));
  return std::prev(later)->second;
}

}  // namespace atolld

#include "daemon/transport/cap_bucket.h"

#include <algorithm>

namespace atolld {

void CapBucket::SetRate(absl::Time now, uint64_t rate) {
  Fill(now);
  rate_ = rate;
  // What the former rate had saved is no more than the new one may save.
  tokens_ =
      rate == 0 ? 0 : std::min(tokens_, static_cast<double>(rate) * absl::ToDoubleSeconds(kSaved));
}

void CapBucket::Fill(absl::Time now) {
  if (rate_ > 0 && now > filled_ && filled_ != absl::InfinitePast()) {
    const double rate = static_cast<double>(rate_);
    tokens_ = std::min(tokens_ + rate * absl::ToDoubleSeconds(now - filled_),
                       rate * absl::ToDoubleSeconds(kSaved));
  }
  filled_ = std::max(filled_, now);
}

size_t CapBucket::Allowed(absl::Time now, absl::Duration ahead) {
  if (rate_ == 0) return kUnlimited;
  Fill(now);
  const double allowed = tokens_ + static_cast<double>(rate_) * absl::ToDoubleSeconds(ahead);
  return allowed <= 0 ? 0 : static_cast<size_t>(allowed);
}

void CapBucket::Charge(absl::Time now, uint64_t bytes) {
  if (rate_ == 0) return;
  Fill(now);
  tokens_ -= static_cast<double>(bytes);
}

absl::Duration CapBucket::Wait(absl::Time now, size_t bytes) {
  if (rate_ == 0) return absl::ZeroDuration();
  Fill(now);
  const double missing = static_cast<double>(bytes) - tokens_;
  return missing <= 0 ? absl::ZeroDuration() : absl::Seconds(missing / static_cast<double>(rate_));
}

}  // namespace atolld

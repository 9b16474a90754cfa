#include "daemon/coordinator/throttle.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

// Far above any run's members; a flood of connections ends at this number.
constexpr size_t kMostSessions = 32768;

}  // namespace

Throttle::Throttle(double per_second, double burst)
    : per_second_(per_second), burst_(burst), balance_(burst) {}

void Throttle::Refill(absl::Time now) {
  if (now > filled_ && filled_ != absl::InfinitePast()) {
    balance_ = std::min(burst_, balance_ + absl::ToDoubleSeconds(now - filled_) * per_second_);
  }
  filled_ = std::max(filled_, now);
}

bool Throttle::Allow(absl::Time now) {
  Refill(now);
  if (balance_ < 1) return false;
  balance_ -= 1;
  return true;
}

absl::Duration Throttle::Charge(absl::Time now) {
  Refill(now);
  balance_ -= 1;
  return balance_ >= 0 ? absl::ZeroDuration() : absl::Seconds(-balance_ / per_second_);
}

bool Throttle::Full(absl::Time now) {
  Refill(now);
  return balance_ >= burst_;
}

bool CallerThrottle::Allow(absl::Time now, const std::string& caller) {
  // A caller with a full bucket may be forgotten; a bucket is full after this time.
  const absl::Duration filling = absl::Seconds(burst_ / per_second_);
  if (swept_ == absl::InfinitePast() || now - swept_ >= filling) {
    swept_ = now;
    for (auto it = callers_.begin(); it != callers_.end();) {
      it = it->second.Full(now) ? callers_.erase(it) : std::next(it);
    }
  }
  return callers_.try_emplace(caller, per_second_, burst_).first->second.Allow(now);
}

SessionLimits::SessionLimits(uint32_t sessions_per_minute)
    : per_minute_(sessions_per_minute),
      begun_(sessions_per_minute / 60.0, std::max(sessions_per_minute / 2.0, 1.0)) {}

absl::Status SessionLimits::Check(absl::Time now, const std::optional<Identity>& caller,
                                  size_t open) {
  if (open >= kMostSessions) return absl::ResourceExhaustedError("too many sessions");
  if (!caller || begun_.Allow(now, caller->id)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("peer ", caller->id,
                   " begins more sessions than [limits] sessions_per_minute = ", per_minute_));
}

}  // namespace atolld

#include "daemon/replica/transfer/donor_pace.h"

#include <algorithm>

#include "membership/history/digest.h"

namespace atolld {
namespace {

// The most that is saved while no joiner asks: a tenth of a second, so that a late timer does not
// lower the rate and a burst stays small.
constexpr double kSavedSeconds = 0.1;

}  // namespace

DonorPace::DonorPace(uint64_t bytes_per_second) : rate_(bytes_per_second), balance_(most()) {}

double DonorPace::most() const {
  return std::max(static_cast<double>(kBlockBytes), kSavedSeconds * static_cast<double>(rate_));
}

double DonorPace::least() const { return beforehand_ ? static_cast<double>(kBlockBytes) - 1 : 0; }

void DonorPace::Refill(absl::Time now) {
  if (filled_ != absl::InfinitePast()) {
    const double seconds = absl::ToDoubleSeconds(now - filled_);
    balance_ = std::min(most(), balance_ + seconds * static_cast<double>(rate_));
  }
  filled_ = now;
}

void DonorPace::SetRate(absl::Time now, uint64_t bytes_per_second, bool beforehand) {
  Refill(now);
  rate_ = bytes_per_second;
  const bool begins = beforehand && !beforehand_;
  beforehand_ = beforehand;
  balance_ = std::min(balance_, begins ? 0 : most());
}

void DonorPace::Wait(const std::string& joiner, uint64_t call) { waiting_[joiner].push_back(call); }

void DonorPace::Forget(uint64_t call) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    std::deque<uint64_t>& calls = it->second;
    calls.erase(std::remove(calls.begin(), calls.end(), call), calls.end());
    it = calls.empty() ? waiting_.erase(it) : std::next(it);
  }
}

std::optional<uint64_t> DonorPace::Grant(absl::Time now) {
  if (waiting_.empty()) return std::nullopt;
  Refill(now);
  if (rate_ != 0) {
    if (balance_ <= least()) return std::nullopt;
    balance_ -= static_cast<double>(kBlockBytes);
  }
  auto turn = waiting_.upper_bound(last_);
  if (turn == waiting_.end()) turn = waiting_.begin();
  last_ = turn->first;
  const uint64_t call = turn->second.front();
  turn->second.pop_front();
  if (turn->second.empty()) waiting_.erase(turn);
  return call;
}

void DonorPace::Settle(uint64_t bytes) {
  if (rate_ == 0) return;
  balance_ =
      std::min(most(), balance_ + static_cast<double>(kBlockBytes) - static_cast<double>(bytes));
}

absl::Duration DonorPace::Delay(absl::Time now) {
  if (waiting_.empty()) return absl::InfiniteDuration();
  Refill(now);
  if (rate_ == 0 || balance_ > least()) return absl::ZeroDuration();
  // A byte more than what is missing, so that there is enough then.
  return absl::Seconds((least() + 1 - balance_) / static_cast<double>(rate_));
}

}  // namespace atolld

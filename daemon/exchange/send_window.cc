#include "daemon/exchange/send_window.h"

#include <algorithm>

namespace atolld {
namespace {

// Enough that a way whose means come in bursts shows its rate.
constexpr size_t kRates = 16;

}  // namespace

void SendWindow::Restart() {
  in_flight_.clear();
  in_flight_bytes_ = 0;
}

bool SendWindow::Allows(uint32_t chunk) const {
  return in_flight_bytes_ < limit_ || chunk < in_flight_.begin()->first;
}

void SendWindow::OnSent(uint32_t chunk, size_t bytes, absl::Time now) {
  Forget(chunk);
  in_flight_[chunk] = {bytes, now, settled_bytes_};
  in_flight_bytes_ += bytes;
  largest_ = std::max(largest_, bytes);
  limit_ = std::max(limit_, floor_.chunks * largest_);
}

void SendWindow::OnMean(uint32_t chunk, absl::Time now) {
  const auto found = in_flight_.find(chunk);
  if (found == in_flight_.end()) return;
  const Sent sent = found->second;
  Forget(chunk);
  settled_bytes_ += sent.bytes;
  Measure(sent, now);
}

void SendWindow::Forget(uint32_t chunk) {
  const auto found = in_flight_.find(chunk);
  if (found == in_flight_.end()) return;
  in_flight_bytes_ -= found->second.bytes;
  in_flight_.erase(found);
}

void SendWindow::Measure(const Sent& sent, absl::Time now) {
  const absl::Duration latency = now - sent.at;
  if (latency <= absl::ZeroDuration()) return;
  least_latency_ = std::min(least_latency_, latency);
  late_rates_.push_back(static_cast<double>(settled_bytes_ - sent.settled_before) /
                        absl::ToDoubleSeconds(latency));
  if (late_rates_.size() > kRates) late_rates_.pop_front();
  const double rate = *std::max_element(late_rates_.begin(), late_rates_.end());
  const auto held = static_cast<size_t>(8 * rate * absl::ToDoubleSeconds(least_latency_));
  limit_ = std::max({floor_.bytes, floor_.chunks * largest_, held});
}

}  // namespace atolld

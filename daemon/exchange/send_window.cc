#include "daemon/exchange/send_window.h"

#include <algorithm>

namespace atolld {
namespace {

// Enough that a way whose means come in bursts shows its rate.
constexpr size_t kRates = 16;

constexpr size_t kFullWay = 8;  // times what the way holds, in the middle
constexpr size_t kLastWay = 2;  // and at the end
constexpr size_t kLeftShare = 10;

}  // namespace

void SendWindow::Restart() {
  in_flight_.clear();
  in_flight_bytes_ = 0;
}

bool SendWindow::Allows(uint32_t chunk, size_t left) const {
  return in_flight_bytes_ < limit(left) || chunk < in_flight_.begin()->first;
}

size_t SendWindow::limit(size_t left) const {
  const size_t shrunk = std::min(kFullWay * held_, left * largest_ / kLeftShare);
  return std::max({floor_.bytes, floor_.chunks * largest_, kLastWay * held_, shrunk});
}

void SendWindow::OnSent(uint32_t chunk, size_t bytes, absl::Time now) {
  Forget(chunk);
  in_flight_[chunk] = {bytes, now, settled_bytes_};
  in_flight_bytes_ += bytes;
  largest_ = std::max(largest_, bytes);
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
  held_ = static_cast<size_t>(rate * absl::ToDoubleSeconds(least_latency_));
}

}  // namespace atolld

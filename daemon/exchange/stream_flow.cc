#include "daemon/exchange/stream_flow.h"

#include <algorithm>

namespace atolld {
namespace {

// Enough to show the rate of a path on which means come in bursts.
constexpr size_t kRates = 16;

constexpr double kOfTheWay = 1.2;  // of the bytes that the path holds

// Once the path has been measured, the floor is divided by this.
constexpr size_t kOfTheFloor = 2;

constexpr int kPatience = 4;  // in latencies

}  // namespace

void SendWindow::Restart() {
  in_flight_.clear();
  in_flight_bytes_ = 0;
}

bool SendWindow::Allows(uint32_t chunk) const {
  return in_flight_bytes_ < limit() || chunk < in_flight_.begin()->first;
}

size_t SendWindow::limit() const {
  const auto way = static_cast<size_t>(kOfTheWay * static_cast<double>(held_));
  const size_t floor = std::max(floor_.bytes, floor_.chunks * largest_);
  return std::max(late_rates_.empty() ? floor : floor / kOfTheFloor, way);
}

double SendWindow::FreeChunks() const {
  if (largest_ == 0) return static_cast<double>(floor_.chunks);
  return static_cast<double>(limit()) / static_cast<double>(largest_) -
         static_cast<double>(in_flight_.size());
}

bool SendWindow::Stalls(absl::Time now) const {
  if (in_flight_.empty()) return false;
  absl::Duration patience = kLeastPatience;
  if (settled_bytes_ > 0) patience = std::max(patience, kPatience * least_latency_);
  return now - waits_since_ > patience;
}

void SendWindow::OnSent(uint32_t chunk, size_t bytes, absl::Time now) {
  Forget(chunk);
  if (in_flight_.empty()) waits_since_ = now;
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
  waits_since_ = now;
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

void StreamPace::Place(Stream stream, double value, std::map<Stream, double>* values,
                       Order* order) {
  Remove(stream, values, order);
  values->emplace(stream, value);
  order->emplace(value, stream);
}

void StreamPace::Remove(Stream stream, std::map<Stream, double>* values, Order* order) {
  const auto found = values->find(stream);
  if (found == values->end()) return;
  order->erase({found->second, stream});
  values->erase(found);
}

void StreamPace::SetReach(Stream stream, double reach) {
  ++looked_at_;
  if (reach == kFree) return Remove(stream, &reach_, &by_reach_);
  Place(stream, reach, &reach_, &by_reach_);
}

void StreamPace::Forget(Stream stream) {
  Remove(stream, &reach_, &by_reach_);
  Remove(stream, &share_, &by_share_);
}

double StreamPace::ReachOfOthers(Stream stream, Stalls stalls) {
  for (auto it = by_reach_.begin(); it != by_reach_.end();) {
    ++looked_at_;
    const auto [reach, other] = *it++;
    if (other == stream) continue;
    if (!stalls(other)) return reach;
    Remove(other, &reach_, &by_reach_);
  }
  return kFree;
}

bool StreamPace::MayGo(Stream stream, double share, Stalls stalls) {
  Remove(stream, &share_, &by_share_);
  if (share <= ReachOfOthers(stream, stalls)) return true;
  Place(stream, share, &share_, &by_share_);
  return false;
}

// The waiting stream with the least share is released first. Only a stream that blocks it, with a
// reach below that share, may be released before it, because no stream blocks itself.
std::optional<StreamPace::Stream> StreamPace::TakeFree(Stalls stalls) {
  if (by_share_.empty()) return std::nullopt;
  std::optional<Stream> free;
  const auto [share, first] = *by_share_.begin();
  if (share <= ReachOfOthers(first, stalls)) {
    free = first;
  } else {
    const Stream least = by_reach_.begin()->second;
    const auto waits = share_.find(least);
    if (waits != share_.end() && waits->second <= ReachOfOthers(least, stalls)) free = least;
  }
  if (free) Remove(*free, &share_, &by_share_);
  return free;
}

}  // namespace atolld

#include "tests/wan/fabric.h"

#include <algorithm>
#include <utility>

#include "compression/base/check.h"

namespace atolld {
namespace {

// The longest that one piece may occupy a line: longer ones would show as jitter of the next.
constexpr double kLongestPieceSeconds = 0.001;
constexpr double kSegmentBits = 1500 * 8;

}  // namespace

size_t Fabric::AddNode(uint32_t address) {
  const size_t node = paths_.size();
  if (address == kElsewhere) {
    elsewhere_.push_back(node);
  } else {
    CHECK(nodes_.emplace(address, node).second);
  }
  paths_.emplace_back();
  for (auto& from : paths_) from.resize(paths_.size());
  return node;
}

size_t Fabric::AddLine(LineSettings settings, uint64_t seed) {
  lines_.emplace_back(std::move(settings), seed);
  return lines_.size() - 1;
}

void Fabric::SetPath(size_t from, size_t to, std::vector<size_t> lines) {
  uint64_t segments = kLargestFrame;
  for (const size_t line : lines) {
    const LineSettings& settings = lines_.at(line).settings();
    const double at_once = settings.bits_per_second * kLongestPieceSeconds / kSegmentBits;
    if (at_once < static_cast<double>(segments)) segments = static_cast<uint64_t>(at_once);
    if (settings.loss > 0) segments = 1;
  }
  paths_.at(from).at(to) = Path{std::move(lines), std::max<uint64_t>(1, segments)};
}

void Fabric::Send(int64_t now, size_t from, absl::Span<const uint8_t> frame) {
  const std::optional<size_t> to = DestinationNode(from, frame);
  if (!to.has_value() || paths_[from][*to].lines.empty()) {
    ++unroutable_;
    return;
  }
  if (cut_) {
    ++cut_off_;
    return;
  }
  const Path& path = paths_[from][*to];
  for (std::vector<uint8_t>& piece : Split(frame, path.segments)) {
    Event event;
    event.to = *to;
    event.path = &path;
    event.size = SizeOf(piece);
    event.frame = std::move(piece);
    Enter(now, std::move(event));
  }
}

std::optional<size_t> Fabric::DestinationNode(size_t from, absl::Span<const uint8_t> frame) const {
  const std::optional<uint32_t> address = DestinationOf(frame);
  if (!address.has_value()) return std::nullopt;
  const auto named = nodes_.find(*address);
  if (named != nodes_.end()) return named->second;
  for (const size_t node : elsewhere_) {
    if (node != from) return node;
  }
  return std::nullopt;
}

void Fabric::Enter(int64_t now, Event event) {
  const std::optional<int64_t> at =
      lines_[event.path->lines[event.hop]].Send(now, event.size.bytes, event.size.segments);
  if (!at.has_value()) {
    if (event.hop > 0) bytes_under_way_ -= event.frame.size();
    return;
  }
  if (event.hop == 0) bytes_under_way_ += event.frame.size();
  most_bytes_under_way_ = std::max(most_bytes_under_way_, bytes_under_way_);
  event.at = *at;
  event.order = order_++;
  events_.push_back(std::move(event));
  std::push_heap(events_.begin(), events_.end(), Later);
}

void Fabric::Advance(int64_t now, const Deliver& deliver) {
  while (!events_.empty() && events_.front().at <= now) {
    std::pop_heap(events_.begin(), events_.end(), Later);
    Event event = std::move(events_.back());
    events_.pop_back();
    if (++event.hop < event.path->lines.size()) {
      // At the time of the event, not of the call: who calls late does not slow the line down.
      const int64_t at = event.at;
      Enter(at, std::move(event));
      continue;
    }
    bytes_under_way_ -= event.frame.size();
    deliver(event.to, event.frame);
  }
}

std::optional<int64_t> Fabric::next_event() const {
  if (events_.empty()) return std::nullopt;
  return events_.front().at;
}

}  // namespace atolld

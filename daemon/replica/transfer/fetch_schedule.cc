#include "daemon/replica/transfer/fetch_schedule.h"

#include <algorithm>

#include "compression/base/check.h"

namespace atolld {
namespace {

// Requests ahead of a stream whose speed is not known yet: one is answered while the next is read.
constexpr size_t kFirstAhead = 2;

// An item is late when an idle donor could have given it so many times over, and never before a far
// link's round trip has passed: less is no sign of slowness.
constexpr int kLateFactor = 4;
constexpr absl::Duration kNeverLateBefore = absl::Milliseconds(200);

}  // namespace

FetchSchedule::FetchSchedule(uint64_t first, uint64_t end, uint64_t window, size_t ahead)
    : end_(end), window_(window), ahead_(ahead), next_(first) {
  CHECK(first <= end && window > 0 && ahead > 0);
}

void FetchSchedule::AddStream(int stream) { streams_[stream]; }
void FetchSchedule::RemoveStream(int stream) { streams_.erase(stream); }

size_t FetchSchedule::Askers(uint64_t item) const {
  size_t askers = 0;
  for (const auto& [id, stream] : streams_) {
    for (const Request& request : stream.owed) askers += request.item == item ? 1 : 0;
  }
  return askers;
}

std::optional<uint64_t> FetchSchedule::FirstOpen() const {
  const uint64_t limit = end_ - next_ < window_ ? end_ : next_ + window_;
  for (uint64_t item = next_; item < limit; ++item) {
    if (here_.count(item) == 0 && Askers(item) == 0) return item;
  }
  return std::nullopt;
}

bool FetchSchedule::AnyOpen() const { return FirstOpen().has_value(); }

uint64_t FetchSchedule::missing() const { return end_ - next_ - here_.size(); }

size_t FetchSchedule::Depth(const Stream& stream) const {
  if (stream.interval == absl::ZeroDuration()) return std::min(kFirstAhead, ahead_);
  absl::Duration fastest = stream.interval;
  for (const auto& [id, other] : streams_) {
    if (other.interval > absl::ZeroDuration()) fastest = std::min(fastest, other.interval);
  }
  const double share = absl::FDivDuration(fastest, stream.interval);
  return std::clamp<size_t>(static_cast<size_t>(share * static_cast<double>(ahead_) + 0.5), 1,
                            ahead_);
}

std::optional<FetchSchedule::Request> FetchSchedule::Oldest() const {
  std::optional<Request> oldest;
  for (const auto& [id, stream] : streams_) {
    for (const Request& request : stream.owed) {
      if (IsHere(request.item) || Askers(request.item) > 1) continue;
      if (!oldest || request.item < oldest->item) oldest = request;
    }
  }
  return oldest;
}

absl::Time FetchSchedule::LateAt(const Stream& idle, const Request& request) const {
  if (idle.interval == absl::ZeroDuration()) return absl::InfiniteFuture();
  return request.asked + std::max(kNeverLateBefore, kLateFactor * idle.interval);
}

std::optional<uint64_t> FetchSchedule::Ask(int stream, absl::Time now) {
  const auto found = streams_.find(stream);
  CHECK(found != streams_.end());
  Stream& asked = found->second;
  if (asked.owed.size() >= Depth(asked)) return std::nullopt;
  std::optional<uint64_t> item = FirstOpen();
  if (!item && asked.owed.empty()) {
    const std::optional<Request> oldest = Oldest();
    if (oldest && LateAt(asked, *oldest) <= now) item = oldest->item;
  }
  if (!item) return std::nullopt;
  asked.owed.push_back({*item, now});
  return item;
}

std::optional<uint64_t> FetchSchedule::Owed(int stream) const {
  const auto found = streams_.find(stream);
  if (found == streams_.end() || found->second.owed.empty()) return std::nullopt;
  return found->second.owed.front().item;
}

bool FetchSchedule::Took(int stream, absl::Time now) {
  Stream& from = streams_.at(stream);
  CHECK(!from.owed.empty());
  const Request request = from.owed.front();
  from.owed.pop_front();
  const absl::Duration interval =
      std::max(now - std::max(request.asked, from.last_answer), absl::Nanoseconds(1));
  from.last_answer = now;
  from.interval =
      from.interval == absl::ZeroDuration() ? interval : (3 * from.interval + interval) / 4;
  if (IsHere(request.item)) return false;
  here_.insert(request.item);
  return true;
}

void FetchSchedule::Have(uint64_t item) {
  CHECK(item < end_);
  if (item >= next_) here_.insert(item);
}

void FetchSchedule::Lost(uint64_t item) {
  CHECK(item >= next_);
  here_.erase(item);
}

void FetchSchedule::Consumed(uint64_t next) {
  CHECK(next >= next_ && next <= end_);
  next_ = next;
  here_.erase(here_.begin(), here_.lower_bound(next));
}

absl::Time FetchSchedule::ReconsiderAt() const {
  const std::optional<Request> oldest = Oldest();
  absl::Time at = absl::InfiniteFuture();
  if (!oldest) return at;
  for (const auto& [id, stream] : streams_) {
    if (stream.owed.empty()) at = std::min(at, LateAt(stream, *oldest));
  }
  return at;
}

}  // namespace atolld

#include "tests/sim/sim_links.h"

#include <algorithm>

namespace atolld {
namespace {

// How long TCP waits before it sends again: its least time-out, and its time-out after two more
// losses.
constexpr absl::Duration kShortestRetransmission = absl::Milliseconds(200);
constexpr absl::Duration kLongestRetransmission = absl::Milliseconds(1000);

}  // namespace

SimLink& SimLinks::Of(const std::string& from, const std::string& to) {
  const auto [found, added] = links_.try_emplace({from, to});
  SimLink& link = found->second;
  if (!added) return link;
  link.from = from;
  link.to = to;
  link.from_host = &hosts_[from];
  link.to_host = &hosts_[to];
  link.settings = settings_;
  if (from == to) link.settings.latency = absl::ZeroDuration();
  link.cut = Separated(from, to);
  link.back = from == to ? &link : &Of(to, from);
  UpdateSilence(link);
  return link;
}

std::vector<SimLink*> SimLinks::All() {
  std::vector<SimLink*> all;
  all.reserve(links_.size());
  for (auto& [ends, link] : links_) all.push_back(&link);
  return all;
}

// A faster line is free sooner of what it has taken.
absl::Duration SimLinks::Sooner(absl::Duration busy_until, double before, double after) const {
  const absl::Duration now = events_.now();
  if (after <= before || busy_until <= now) return busy_until;
  return now + (busy_until - now) * (before / after);
}

void SimLinks::Set(SimLink& link, const SimLinkSettings& settings) {
  link.busy_until =
      Sooner(link.busy_until, link.settings.bytes_per_second, settings.bytes_per_second);
  link.settings = settings;
}

void SimLinks::SetRate(SimHost& host, double bytes_per_second) {
  host.up_busy_until = Sooner(host.up_busy_until, host.bytes_per_second, bytes_per_second);
  host.down_busy_until = Sooner(host.down_busy_until, host.bytes_per_second, bytes_per_second);
  host.bytes_per_second = bytes_per_second;
}

absl::Duration SimLinks::Reserve(SimLink& link, uint64_t bytes) {
  constexpr double kEndless = std::numeric_limits<double>::infinity();
  const absl::Duration now = events_.now();
  // What a process tells itself leaves no host.
  SimHost& up = *link.from_host;
  SimHost& down = *link.to_host;
  const bool slow_up = &up != &down && up.bytes_per_second != kEndless;
  const bool slow_down = &up != &down && down.bytes_per_second != kEndless;
  const auto time = [bytes](double per_second) {
    return per_second == kEndless ? absl::ZeroDuration()
                                  : absl::Seconds(static_cast<double>(bytes) / per_second);
  };
  // It takes its time of the link and of each end's own line, and none of these waits for another:
  // what one slow link holds up keeps nothing from the host's other links.
  link.busy_until = std::max(now, link.busy_until) + time(link.settings.bytes_per_second);
  absl::Duration left = link.busy_until;
  if (slow_up) {
    up.up_busy_until = std::max(now, up.up_busy_until) + time(up.bytes_per_second);
    left = std::max(left, up.up_busy_until);
  }
  if (slow_down) {
    down.down_busy_until = std::max(now, down.down_busy_until) + time(down.bytes_per_second);
    left = std::max(left, down.down_busy_until);
  }
  return left - now;
}

absl::Duration SimLinks::Delay(const SimLink& link) {
  absl::Duration delay = link.settings.latency;
  if (link.settings.jitter != absl::ZeroDuration()) delay += link.settings.jitter * random_.Unit();
  if (random_.Chance(link.loss)) {
    delay += random_.Between(kShortestRetransmission, kLongestRetransmission);
  }
  return delay;
}

void SimLinks::Separate(const std::set<std::string>& side) {
  separated_.push_back(side);
  for (auto& [ends, link] : links_) link.cut |= Separated(link.from, link.to);
}

bool SimLinks::Separated(const std::string& a, const std::string& b) const {
  return std::any_of(separated_.begin(), separated_.end(), [&](const std::set<std::string>& side) {
    return side.count(a) != side.count(b);
  });
}

void SimLinks::Heal(SimLink& link) {
  link.cut = link.cut_silently = link.black_hole = link.small_only = false;
  link.clogged_until = absl::ZeroDuration();
  link.stuck_since = absl::InfiniteDuration();
  link.loss = 0;
  link.break_at = std::numeric_limits<uint64_t>::max();
}

void SimLinks::ShowAll() {
  for (auto& [process, host] : hosts_) host.hidden = false;
}

bool SimLinks::UpdateSilence(SimLink& link) {
  const absl::Duration now = events_.now();
  const bool silent =
      link.Held(now) || link.back->Held(now) || link.from_host->paused || link.to_host->paused;
  if (silent == (link.silent_since != absl::InfiniteDuration())) return false;
  link.silent_since = silent ? now : absl::InfiniteDuration();
  return silent;
}

}  // namespace atolld

#include "membership/planning/plan_bounds.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace atolld {
namespace {

// When one of them is lost, two are left.
constexpr size_t kFewestReducers = 3;

// Streams that together take less of a processor than this are not worth saving, even if all peers
// are on one machine. It is a time that no one notices, as for plans (plan_choice.cc).
constexpr double kUnnoticedSeconds = 0.05;

// Each shard of a plan names its relays with the bitmaps of their groups. Together these may have
// this many bytes, half of what a message may have (the plan also names its contributors).
constexpr double kMostRelayBytes = 2 << 20;
constexpr double kRelayBytes = 32;  // in addition to the bitmap

size_t RoundedUp(double number) { return static_cast<size_t>(std::ceil(number)); }

}  // namespace

PlanBounds BoundsOf(size_t contributors, double bytes, bool relays,
                    const ModelAssumptions& assumed) {
  const auto peers = static_cast<double>(contributors);
  const size_t all = std::max<size_t>(contributors, 1);
  const double carried = bytes / (assumed.stream_seconds * assumed.wire_bytes_per_second);
  const size_t worth = carried >= peers ? all : RoundedUp(carried);
  const double unnoticed = kUnnoticedSeconds / assumed.stream_seconds / peers;
  // A reducer's line carries 1 + (n - 2) / R updates. With half the root of n reducers, that grows
  // as slowly as the streams of each peer. If lines are slow, PlanChoice tries more.
  const size_t reducers = std::max({worth, RoundedUp(std::sqrt(peers) / 2), kFewestReducers,
                                    unnoticed >= peers ? all : RoundedUp(unnoticed)});
  PlanBounds bounds;
  bounds.reducers = std::min(reducers, all);
  if (!relays || contributors <= kMostStreams) return bounds;
  bounds.grouping.members = RoundedUp(std::sqrt(peers));
  const double groups = peers / static_cast<double>(bounds.grouping.members);
  const double shards = kMostRelayBytes / (groups * (peers / 8 + kRelayBytes));
  bounds.reducers =
      std::min(bounds.reducers, std::max(kFewestReducers, static_cast<size_t>(shards)));
  bounds.grouping.relays = std::min(std::max<size_t>(worth, 1), bounds.grouping.members);
  return bounds;
}

std::vector<double> FirstOf(std::vector<double> rates, size_t most,
                            absl::Span<const double> preference) {
  std::vector<size_t> order(rates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return preference[a] > preference[b]; });
  size_t taken = 0;
  for (const size_t i : order) {
    if (rates[i] <= 0) continue;
    if (taken++ >= most) rates[i] = 0;
  }
  return rates;
}

std::vector<double> EqualPreference(size_t contributors, size_t most, const Grouping& grouping) {
  std::vector<double> preference(contributors, 1);
  if (!grouping.any()) return preference;
  // Divides them as GroupsOf does.
  const auto part = [&](size_t i) { return i * most / contributors; };
  for (size_t i = 1; i < contributors; ++i) preference[i] = part(i) == part(i - 1) ? 0 : 1;
  return preference;
}

std::vector<double> RatesFor(const LinkModel& links, PlanShape shape, const PlanBounds& bounds) {
  std::vector<double> rates = RatesOf(links, shape);
  const std::vector<double> preference =
      Weighted(shape) ? rates : EqualPreference(rates.size(), bounds.reducers, bounds.grouping);
  return FirstOf(std::move(rates), bounds.reducers, preference);
}

}  // namespace atolld

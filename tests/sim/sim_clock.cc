#include "tests/sim/sim_clock.h"

#include <algorithm>

#include "compression/base/check.h"

namespace atolld {
namespace {

constexpr int64_t kMillion = 1'000'000;

int64_t Nanoseconds(absl::Duration duration) { return absl::ToInt64Nanoseconds(duration); }

}  // namespace

int64_t SimClock::Line::At(int64_t now) const {
  const int64_t passed = now - since;
  // In two parts, so that days at a large drift do not overflow.
  const int64_t gained =
      passed / kMillion * parts_per_million + passed % kMillion * parts_per_million / kMillion;
  return base + passed + gained;
}

absl::Duration SimClock::Monotonic(absl::Duration now) const {
  return absl::Nanoseconds(monotonic_.At(Nanoseconds(now)));
}

absl::Duration SimClock::TrueDelay(absl::Duration now, absl::Duration delay) const {
  if (monotonic_.parts_per_million == 0 || delay > absl::Hours(24 * 365)) return delay;
  const int64_t start = Nanoseconds(now);
  const int64_t target = monotonic_.At(start) + std::max<int64_t>(0, Nanoseconds(delay)) + 1;
  const double rate = 1 + static_cast<double>(monotonic_.parts_per_million) / kMillion;
  int64_t end = start + static_cast<int64_t>(static_cast<double>(Nanoseconds(delay)) / rate);
  // The estimate is right but for roundings: whoever waits for an instant must find it reached.
  while (monotonic_.At(end) < target) end += 1 + (target - monotonic_.At(end)) / 2;
  return absl::Nanoseconds(end - start);
}

absl::Time SimClock::Wall(absl::Duration now) const {
  return absl::FromUnixSeconds(1767225600) +  // 2026-01-01
         absl::Nanoseconds(wall_.At(Nanoseconds(now)));
}

void SimClock::SetDrift(absl::Duration now, int64_t parts_per_million) {
  CHECK(parts_per_million > -kMillion && parts_per_million < kMillion);
  const int64_t since = Nanoseconds(now);
  monotonic_ = Line{monotonic_.At(since), since, parts_per_million};
}

void SimClock::SetWall(absl::Duration now, absl::Duration offset, int64_t parts_per_million) {
  CHECK(parts_per_million > -kMillion && parts_per_million < kMillion);
  const int64_t since = Nanoseconds(now);
  wall_ = Line{since + Nanoseconds(offset), since, parts_per_million};
}

}  // namespace atolld

#include "tests/wan/line.h"

#include <algorithm>
#include <utility>

namespace atolld {
namespace {

// splitmix64 (Steele, Lea, Flood 2014): any seed will do, including 0.
uint64_t NextRandom(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double UniformBelowOne(uint64_t* state) {
  return static_cast<double>(NextRandom(state) >> 11) * 0x1p-53;
}

}  // namespace

Line::Line(LineSettings settings, uint64_t seed)
    : settings_(std::move(settings)),
      delay_(absl::ToInt64Nanoseconds(settings_.delay)),
      queue_(absl::ToInt64Nanoseconds(settings_.queue)),
      nanoseconds_per_byte_(8e9 / settings_.bits_per_second),
      random_(seed) {}

std::optional<int64_t> Line::Send(int64_t now, uint64_t bytes, uint64_t segments) {
  const int64_t wait = std::max<int64_t>(0, free_at_ - now);
  if (wait > queue_) {
    counts_.dropped += segments;
    return std::nullopt;
  }
  counts_.longest_wait = std::max(counts_.longest_wait, absl::Nanoseconds(wait));
  counts_.packets += segments;
  counts_.bytes += bytes;
  free_at_ =
      now + wait + static_cast<int64_t>(static_cast<double>(bytes) * nanoseconds_per_byte_ + 0.5);
  // Lost behind the bottleneck: it took its time on the line.
  if (settings_.loss > 0 && UniformBelowOne(&random_) < settings_.loss) {
    counts_.lost += segments;
    return std::nullopt;
  }
  return free_at_ + delay_;
}

}  // namespace atolld

#include "membership/run/pace.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace atolld {
namespace {

constexpr double kMostOfFixed = 16;
constexpr double kMostSteps = 1e6;  // as in a config's inner.steps

absl::Duration Median(std::vector<absl::Duration> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

uint32_t StepsFor(const PaceSettings& pace, uint32_t fixed_steps, absl::Duration step_time,
                  absl::Span<const absl::Duration> all) {
  if (pace.kind == PaceSettings::Kind::kFixed || step_time <= absl::ZeroDuration()) {
    return fixed_steps;
  }
  double steps = 0;
  double most = kMostSteps;
  if (pace.kind == PaceSettings::Kind::kTime) {
    steps = std::floor(absl::FDivDuration(pace.time, step_time));
  } else {
    if (all.empty()) return fixed_steps;
    steps =
        std::round(fixed_steps * absl::FDivDuration(Median({all.begin(), all.end()}), step_time));
    most = std::min(kMostSteps, kMostOfFixed * fixed_steps);
  }
  return static_cast<uint32_t>(std::min(std::max(steps, 1.0), most));
}

}  // namespace atolld

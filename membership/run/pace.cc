#include "membership/run/pace.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/words.h"

namespace atolld {
namespace {

constexpr double kMostOfFixed = 16;
constexpr double kMostSteps = 1e6;  // the limit of a config's inner.steps

// The part of H that measures a speed: long enough that the first, slower step does not count for
// much.
constexpr uint32_t kMeasuringPart = 8;

// A peer's speed is the median of this many contributions.
constexpr size_t kContributions = 4;

absl::Duration Median(std::vector<absl::Duration> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

constexpr uint64_t kMostDoublings = 5;

// This few peers are examined whenever one sends something. With more, examining one takes less
// than half a microsecond.
constexpr size_t kFewPeers = 64;
constexpr absl::Duration kPauseForALook = absl::Microseconds(10);

// The rate in bytes a second of a line that was not measured.
constexpr double kAssumedRate = 1e6;

// A peer that has lost its coordinator or its donors may need two dials to find them again.
constexpr absl::Duration kRedials = absl::Seconds(10);

// In units of failure_timeout: far longer than the time between two messages of a worker.
constexpr int64_t kUnmeasured = 60;

// Rounds a time that is shown to people.
absl::Duration Told(absl::Duration time) { return absl::Ceil(time, absl::Milliseconds(100)); }

absl::Duration MedianOf(std::vector<absl::Duration> times) {
  if (times.empty()) return absl::ZeroDuration();
  std::sort(times.begin(), times.end());
  const size_t half = times.size() / 2;
  return times.size() % 2 == 1 ? times[half] : (times[half - 1] + times[half]) / 2;
}

}  // namespace

void StepTimes::Add(absl::Duration step_time, uint32_t steps) {
  last_.push_back({step_time, steps});
  if (last_.size() > kContributions) last_.pop_front();
}

absl::Duration StepTimes::Median() const {
  std::vector<Contribution> sorted(last_.begin(), last_.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const Contribution& a, const Contribution& b) { return a.step_time < b.step_time; });
  uint64_t all = 0;
  for (const Contribution& one : sorted) all += one.steps;
  uint64_t so_far = 0;
  for (const Contribution& one : sorted) {
    so_far += one.steps;
    if (2 * so_far >= all) return one.step_time;
  }
  return absl::ZeroDuration();
}

PacedSteps StepsFor(const PaceSettings& pace, uint32_t fixed_steps, absl::Duration step_time,
                    absl::Span<const absl::Duration> all) {
  if (pace.kind == PaceSettings::Kind::kFixed) return {fixed_steps};
  if (step_time <= absl::ZeroDuration()) {
    const uint32_t steps = std::max<uint32_t>(1, fixed_steps / kMeasuringPart);
    return {steps, static_cast<double>(steps) / fixed_steps};
  }
  double steps = 0;
  double most = kMostSteps;
  if (pace.kind == PaceSettings::Kind::kTime) {
    steps = std::floor(absl::FDivDuration(pace.time, step_time));
  } else {
    if (all.empty()) return {fixed_steps};
    steps =
        std::round(fixed_steps * absl::FDivDuration(Median({all.begin(), all.end()}), step_time));
    most = std::min(kMostSteps, kMostOfFixed * fixed_steps);
  }
  return {static_cast<uint32_t>(std::min(std::max(steps, 1.0), most))};
}

void RecentTimes::Add(absl::Duration time) {
  times_.push_back(time);
  if (times_.size() > capacity_) times_.pop_front();
}

absl::Duration RecentTimes::Median() const { return MedianOf({times_.begin(), times_.end()}); }

absl::Duration RecentTimes::MedianDeviation() const {
  const absl::Duration median = Median();
  std::vector<absl::Duration> distances;
  distances.reserve(times_.size());
  for (const absl::Duration time : times_) distances.push_back(absl::AbsDuration(time - median));
  return MedianOf(std::move(distances));
}

std::optional<absl::Duration> TrainDeadline(const RecentTimes& ready_times) {
  if (ready_times.empty()) return std::nullopt;
  const absl::Duration median = ready_times.Median();
  return std::max(1.25 * median, median + 3 * ready_times.MedianDeviation()) + absl::Seconds(1);
}

absl::Duration AsyncGrace(const RecentTimes& ready_times) {
  return std::min(ready_times.Median() / 10, absl::Seconds(1));
}

absl::Duration ExchangeDeadline(const RecentTimes& exchange_times, uint64_t parameters,
                                uint64_t given_up, absl::Duration failure_timeout) {
  const absl::Duration predicted =
      exchange_times.empty() ? absl::Seconds(static_cast<double>(parameters) * 4 / kAssumedRate)
                             : exchange_times.Median();
  const int64_t times = int64_t{1} << std::min(given_up, kMostDoublings);
  return 2 * times * predicted + failure_timeout;
}

absl::Duration EvaluationPatience(const RecentTimes& share_times, const RecentTimes& ready_times,
                                  absl::Duration failure_timeout) {
  if (share_times.empty() && ready_times.empty()) return kUnmeasured * failure_timeout;
  return Told(4 * (share_times.Median() + ready_times.Median() + failure_timeout));
}

absl::Duration StateDeadline(uint64_t parameters, uint64_t in_vain,
                             absl::Duration failure_timeout) {
  const absl::Duration predicted =
      absl::Seconds(static_cast<double>(parameters) * 2 * sizeof(float) / kAssumedRate);
  const int64_t times = int64_t{1} << std::min(in_vain, kMostDoublings);
  return Told(times * (2 * predicted + 4 * failure_timeout + kRedials));
}

bool LookPace::May(absl::Time now, size_t peers) {
  put_off_ = peers > kFewPeers && now < after_;
  if (put_off_) return false;
  after_ = now + static_cast<int64_t>(peers) * kPauseForALook;
  return true;
}

std::string WaitingReason(size_t there, size_t needed) {
  const size_t missing = needed > there ? needed - there : 0;
  return absl::StrCat(there, " of ", Counted(needed, "peer"),
                      there == 1 || needed == 1 ? " is" : " are", " here; waiting for ",
                      missing == 1 ? std::string("one") : absl::StrCat(missing), " more");
}

}  // namespace atolld

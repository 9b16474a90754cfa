#include "daemon/bench/churn_faults.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/check.h"

namespace atolld {
namespace {

// Draws that are the same with every standard library, whose distributions differ.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  uint32_t Below(uint32_t limit) { return static_cast<uint32_t>(engine_() % limit); }
  double Between(double low, double high) {
    return low + (high - low) * static_cast<double>(engine_() >> 11) * 0x1p-53;
  }

 private:
  std::mt19937_64 engine_;
};

absl::Duration HoldOf(FaultKind kind, absl::Duration failure_timeout, Dice* dice) {
  switch (kind) {
    case FaultKind::kFreezePeer:
    case FaultKind::kBlackHolePeer:
    case FaultKind::kFreezeCoordinator:
      return failure_timeout * dice->Between(1.2, 1.5);  // long enough that it must be noticed
    case FaultKind::kKillPeer:
    case FaultKind::kRestartPeer:
      return absl::Seconds(dice->Between(0.5, 2));  // a supervisor's pause
    case FaultKind::kFreezeWorker:
    case FaultKind::kKillCoordinator:
      return absl::Seconds(dice->Between(0.5, 1));
    case FaultKind::kKillWorker:
      return absl::ZeroDuration();  // its daemon sees to it
  }
  return absl::ZeroDuration();
}

}  // namespace

absl::string_view FaultKindName(FaultKind kind) {
  switch (kind) {
    case FaultKind::kKillPeer:
      return "kill_peer";
    case FaultKind::kFreezePeer:
      return "freeze_peer";
    case FaultKind::kBlackHolePeer:
      return "black_hole_peer";
    case FaultKind::kRestartPeer:
      return "restart_peer";
    case FaultKind::kKillWorker:
      return "kill_worker";
    case FaultKind::kFreezeWorker:
      return "freeze_worker";
    case FaultKind::kKillCoordinator:
      return "kill_coordinator";
    case FaultKind::kFreezeCoordinator:
      return "freeze_coordinator";
  }
  return "";
}

bool OfCoordinator(FaultKind kind) {
  return kind == FaultKind::kKillCoordinator || kind == FaultKind::kFreezeCoordinator;
}

bool OfWorker(FaultKind kind) {
  return kind == FaultKind::kKillWorker || kind == FaultKind::kFreezeWorker;
}

std::vector<PlannedFault> PlanFaults(const ChurnPlanSettings& settings) {
  CHECK(settings.peers >= 2 && settings.every > absl::ZeroDuration());
  Dice dice(settings.seed);
  std::array<FaultKind, kFaultKinds> kinds;
  for (int i = 0; i < kFaultKinds; ++i) kinds[static_cast<size_t>(i)] = static_cast<FaultKind>(i);
  std::vector<PlannedFault> plan;
  const int64_t count = settings.length / settings.every;
  for (int64_t i = 0; i < count; ++i) {
    const auto in_cycle = static_cast<size_t>(i % kFaultKinds);
    if (in_cycle == 0) {
      for (uint32_t left = kFaultKinds; left > 1; --left) {
        std::swap(kinds[left - 1], kinds[dice.Below(left)]);
      }
    }
    PlannedFault fault;
    fault.kind = kinds[in_cycle];
    const bool ends_daemon =
        fault.kind == FaultKind::kKillPeer || fault.kind == FaultKind::kRestartPeer;
    const uint32_t first = ends_daemon ? 2 : 1;
    const uint32_t drawn = first + dice.Below(settings.peers - first + 1);
    fault.peer = OfCoordinator(fault.kind) ? 0 : drawn;
    // Anywhere in a round, and early enough in its span to be over before the next one.
    fault.at = settings.every * (static_cast<double>(i) + dice.Between(0.05, 0.3));
    fault.hold = HoldOf(fault.kind, settings.failure_timeout, &dice);
    plan.push_back(fault);
  }
  return plan;
}

// -----------------------------------------------------------------------------------------------

namespace {

constexpr char kCoordinator[] = "coordinator";

// Returns the time of the first line at or after `from` and before `end` that begins with `prefix`.
std::optional<absl::Time> FirstLine(const std::vector<LogLine>& log, absl::Time from,
                                    absl::Time end, absl::string_view prefix) {
  for (const LogLine& line : log) {
    if (line.at >= from && line.at < end && absl::StartsWith(line.text, prefix)) return line.at;
  }
  return std::nullopt;
}

// Log times are cut to milliseconds: an immediate effect may seem to precede its cause.
absl::Time Truncated(absl::Time time) { return absl::FromUnixMillis(absl::ToUnixMillis(time)); }

// The events of a fault come before the next fault.
absl::Time EndOf(const ChurnTrace& trace, size_t fault) {
  return fault + 1 < trace.faults.size() ? trace.faults[fault + 1].at : absl::InfiniteFuture();
}

const std::vector<LogLine>& LogOf(const ChurnTrace& trace, const std::string& process) {
  static const std::vector<LogLine> kNone;
  const auto found = trace.logs.find(process);
  return found == trace.logs.end() ? kNone : found->second;
}

double Seconds(absl::Duration duration) { return absl::ToDoubleSeconds(duration); }

}  // namespace

std::vector<LogLine> ParseLog(absl::string_view text) {
  std::vector<LogLine> lines;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    // 2026-03-01T12:00:00.123Z info round 12: ...
    const size_t time_end = line.find(' ');
    const size_t level_end =
        time_end == absl::string_view::npos ? time_end : line.find(' ', time_end + 1);
    if (level_end == absl::string_view::npos) continue;
    LogLine parsed;
    std::string error;
    if (!absl::ParseTime(absl::RFC3339_full, line.substr(0, time_end), &parsed.at, &error)) {
      continue;
    }
    parsed.text = std::string(line.substr(level_end + 1));
    lines.push_back(std::move(parsed));
  }
  return lines;
}

std::vector<Commit> CommitsOf(const std::vector<LogLine>& coordinator_log) {
  std::vector<Commit> commits;
  for (const LogLine& line : coordinator_log) {
    absl::string_view text = line.text;
    if (!absl::ConsumePrefix(&text, "round ")) continue;
    const size_t colon = text.find(": committed by ");
    Commit commit;
    commit.at = line.at;
    if (colon == absl::string_view::npos ||
        !absl::SimpleAtoi(text.substr(0, colon), &commit.version)) {
      continue;
    }
    text.remove_prefix(colon + absl::string_view(": committed by ").size());
    commit.contributors = absl::StrSplit(text.substr(0, text.find(';')), ", ");
    commits.push_back(std::move(commit));
  }
  return commits;
}

bool IsDetectable(FaultKind kind) {
  return kind != FaultKind::kRestartPeer && kind != FaultKind::kFreezeWorker;
}

std::optional<double> SecondsToDetect(const ChurnTrace& trace, size_t index) {
  const LandedFault& fault = trace.faults[index];
  if (!IsDetectable(fault.planned.kind)) return std::nullopt;
  const absl::Time from = Truncated(fault.at);
  const absl::Time end = EndOf(trace, index);
  if (OfWorker(fault.planned.kind)) {
    const auto seen = FirstLine(LogOf(trace, fault.victim), from, end, "the worker is gone");
    if (!seen.has_value()) return std::nullopt;
    return std::max(0.0, Seconds(*seen - fault.at));
  }
  const std::string word = OfCoordinator(fault.planned.kind)
                               ? "lost the coordinator"
                               : absl::StrCat("peer ", fault.victim, " is dead");
  double last = 0;
  for (const std::string& peer : trace.peers) {
    if (peer == fault.victim) continue;
    const auto seen = FirstLine(LogOf(trace, peer), from, end, word);
    if (!seen.has_value()) return std::nullopt;
    last = std::max(last, Seconds(*seen - fault.at));
  }
  return last;
}

std::optional<double> SecondsToRejoin(const ChurnTrace& trace, size_t index) {
  const LandedFault& fault = trace.faults[index];
  absl::Time from = Truncated(fault.healed);
  if (fault.planned.kind == FaultKind::kKillWorker) {
    // What it had handed over before its death is its daemon's, and no sign of life.
    const auto again =
        FirstLine(LogOf(trace, fault.victim), from, EndOf(trace, index), "worker on ");
    if (!again.has_value()) return std::nullopt;
    from = *again;
  }
  for (const Commit& commit : trace.commits) {
    if (commit.at < from) continue;
    const bool part = std::find(commit.contributors.begin(), commit.contributors.end(),
                                fault.victim) != commit.contributors.end();
    if (part || fault.victim == kCoordinator) {
      return std::max(0.0, Seconds(commit.at - fault.healed));
    }
  }
  return std::nullopt;
}

std::optional<double> RoundDelay(const ChurnTrace& trace, size_t index, double undisturbed) {
  const absl::Time at = trace.faults[index].at;
  const auto after = std::find_if(trace.commits.begin(), trace.commits.end(),
                                  [&](const Commit& commit) { return commit.at > at; });
  if (after == trace.commits.end() || after == trace.commits.begin()) return std::nullopt;
  double longest = 0;
  for (auto it = after; it != trace.commits.end() && it <= after + 1; ++it) {
    // Over a commit whose line was lost the gap is two rounds'.
    const auto rounds = static_cast<double>(it->version - std::prev(it)->version);
    longest = std::max(longest, Seconds(it->at - std::prev(it)->at) - rounds * undisturbed);
  }
  return longest;
}

double MedianRoundSeconds(const std::vector<Commit>& commits) {
  std::vector<double> times;
  for (size_t i = 1; i < commits.size(); ++i) {
    times.push_back(Seconds(commits[i].at - commits[i - 1].at));
  }
  return Percentile(std::move(times), 0.5).value_or(0);
}

std::optional<double> Percentile(std::vector<double> values, double share) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  const auto index = static_cast<size_t>(std::max(1.0, rank)) - 1;
  return values[std::min(index, values.size() - 1)];
}

uint32_t LostSteps(const ChurnTrace& trace, size_t index) {
  const LandedFault& fault = trace.faults[index];
  const auto next = std::find_if(trace.commits.begin(), trace.commits.end(),
                                 [&](const Commit& commit) { return commit.at >= fault.at; });
  const bool saved = fault.handed_over && next != trace.commits.end() &&
                     std::find(next->contributors.begin(), next->contributors.end(),
                               fault.victim) != next->contributors.end();
  return saved ? 0 : fault.steps_at_stake;
}

size_t CountTrainedAnew(const std::vector<LogLine>& coordinator_log) {
  return static_cast<size_t>(std::count_if(
      coordinator_log.begin(), coordinator_log.end(),
      [](const LogLine& line) { return absl::StrContains(line.text, "it trains anew"); }));
}

std::optional<double> LossAt(const std::vector<LossPoint>& points, uint64_t tokens) {
  const auto after = std::find_if(points.begin(), points.end(), [tokens](const LossPoint& point) {
    return point.tokens >= tokens;
  });
  if (after == points.end()) return std::nullopt;
  if (after->tokens == tokens) return after->loss;
  if (after == points.begin()) return std::nullopt;
  const LossPoint& before = *std::prev(after);
  const double share = static_cast<double>(tokens - before.tokens) /
                       static_cast<double>(after->tokens - before.tokens);
  return before.loss + share * (after->loss - before.loss);
}

void MeanOverTime::Add(absl::Time now, double value) {
  if (last_.has_value()) {
    const double passed = Seconds(now - *last_);
    seconds_ += passed;
    sum_ += passed * value;
  }
  last_ = now;
}

double MeanOverTime::mean() const { return seconds_ > 0 ? sum_ / seconds_ : 0; }

}  // namespace atolld

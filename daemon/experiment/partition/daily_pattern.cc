#include "daemon/experiment/partition/daily_pattern.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/experiment/partition/keyed_draws.h"

namespace atolld {
namespace {

constexpr double kDaySeconds = 86400;
constexpr double kHourSeconds = 3600;
constexpr double kPeakSeconds = 2 * kHourSeconds;
constexpr double kTwoPi = 6.28318530717958647692;

using Session = std::pair<int64_t, int64_t>;  // from, to, in seconds

// Returns cos(2 pi turns) by its Taylor series within half a turn, which gives the same bits
// everywhere, as keyed_draws.h requires.
double CosineOfTurns(double turns) {
  const double within = turns - std::floor(turns + 0.5);  // in [-1/2, 1/2)
  const double square = within * within * kTwoPi * kTwoPi;
  double sum = 1;
  for (int term = 26; term >= 2; term -= 2) sum = 1 - sum * square / (term * (term - 1));
  return sum;
}

// Cuts the sessions at the trace's end, sorts them, and joins those that touch.
std::vector<Session> WrapSessions(const std::vector<Session>& sessions, int64_t period) {
  std::vector<Session> cut;
  for (const auto& [from, to] : sessions) {
    if (to - from >= period) return {{0, period}};
    cut.emplace_back(from, std::min(to, period));
    if (to > period) cut.emplace_back(0, to - period);
  }
  std::sort(cut.begin(), cut.end());
  std::vector<Session> joined;
  for (const Session& session : cut) {
    if (!joined.empty() && session.first <= joined.back().second) {
      joined.back().second = std::max(joined.back().second, session.second);
    } else {
      joined.push_back(session);
    }
  }
  return joined;
}

std::vector<Session> SessionsOf(const DailyPattern& pattern, uint32_t party) {
  KeyedDraws draws(pattern.seed, "daily pattern", party);
  const int64_t period = int64_t{pattern.days} * static_cast<int64_t>(kDaySeconds);
  const double zone = static_cast<double>(draws.Below(pattern.zones));
  const double shift =
      kDaySeconds * zone / pattern.zones + kHourSeconds * draws.Normal() - kPeakSeconds;
  const double highest = pattern.sessions_a_day / kDaySeconds * (1 + pattern.depth);
  std::vector<Session> sessions;
  double at = 0;
  for (;;) {
    at -= PortableLog(draws.Uniform()) / highest;
    if (at >= static_cast<double>(period)) break;
    const double share =
        (1 + pattern.depth * CosineOfTurns((at + shift) / kDaySeconds)) / (1 + pattern.depth);
    const double chance = draws.Uniform();
    const double hours = pattern.median_hours * PortableExp(pattern.spread * draws.Normal());
    if (chance >= share) continue;
    const int64_t from = static_cast<int64_t>(at);
    const double longest = static_cast<double>(period);
    const double seconds = std::min(longest, std::max(1.0, hours * kHourSeconds));
    sessions.emplace_back(from, from + static_cast<int64_t>(seconds));
  }
  return WrapSessions(sessions, period);
}

}  // namespace

std::string DailyTrace(const DailyPattern& pattern) {
  std::string text = absl::StrFormat(
      "# %d parties by day and night, seed %d: %g sessions a day in %d time zones, %g hours in the "
      "median\nperiod %d\n",
      pattern.parties, pattern.seed, pattern.sessions_a_day, pattern.zones, pattern.median_hours,
      int64_t{pattern.days} * static_cast<int64_t>(kDaySeconds));
  for (uint32_t party = 1; party <= pattern.parties; ++party) {
    absl::StrAppend(&text, party, " ");
    const std::vector<Session> sessions = SessionsOf(pattern, party);
    for (size_t i = 0; i < sessions.size(); ++i) {
      absl::StrAppend(&text, i > 0 ? "," : "", sessions[i].first, "-", sessions[i].second);
    }
    absl::StrAppend(&text, sessions.empty() ? "never\n" : "\n");
  }
  return text;
}

}  // namespace atolld

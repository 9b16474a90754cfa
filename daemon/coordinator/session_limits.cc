#include "daemon/coordinator/session_limits.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

// Far above any run's members; a flood of connections ends here.
constexpr size_t kMostSessions = 8192;

}  // namespace

SessionLimits::SessionLimits(uint32_t sessions_per_minute)
    : per_minute_(sessions_per_minute),
      begun_(sessions_per_minute / 60.0, std::max(sessions_per_minute / 2.0, 1.0)) {}

absl::Status SessionLimits::Check(absl::Time now, const std::optional<Identity>& caller,
                                  size_t open) {
  if (open >= kMostSessions) return absl::ResourceExhaustedError("too many sessions");
  if (!caller || begun_.Allow(now, caller->id)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("peer ", caller->id,
                   " begins more sessions than [limits] sessions_per_minute = ", per_minute_));
}

}  // namespace atolld

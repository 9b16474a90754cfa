// Throttle, CallerThrottle and SessionLimits: how often something may be asked of the coordinator.
//
// A token bucket: so many a second over any long time, and `burst` at once after a pause. Pure
// state; time comes in; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "membership/trust/identity.h"

namespace atolld {

class Throttle {
 public:
  // Both above zero; `burst` at least one. It begins full.
  Throttle(double per_second, double burst);

  // One may be done now, and is counted; or none may.
  bool Allow(absl::Time now);

  // Counts one that is done in any case. How long whoever is patient waits before the next.
  absl::Duration Charge(absl::Time now);

  bool Full(absl::Time now);

 private:
  void Refill(absl::Time now);

  const double per_second_;
  const double burst_;
  double balance_;  // negative: overdrawn
  absl::Time filled_ = absl::InfinitePast();
};

// One bucket for each caller. It remembers those alone that have asked lately.
class CallerThrottle {
 public:
  CallerThrottle(double per_second, double burst) : per_second_(per_second), burst_(burst) {}

  bool Allow(absl::Time now, const std::string& caller);
  size_t remembered() const { return callers_.size(); }

 private:
  const double per_second_;
  const double burst_;
  std::map<std::string, Throttle> callers_;
  absl::Time swept_ = absl::InfinitePast();
};

// How many Sessions a coordinator holds, and how many one peer may begin. A Session that begins is
// work for the whole run: a row in the store, and a roster for everybody.
class SessionLimits {
 public:
  // Half a minute's may come at once: a line that breaks often is no flood.
  explicit SessionLimits(uint32_t sessions_per_minute);

  // Of a Session that `caller` (none: plain text) wants to begin while `open` are. OK counts it.
  absl::Status Check(absl::Time now, const std::optional<Identity>& caller, size_t open);

 private:
  const uint32_t per_minute_;
  CallerThrottle begun_;
};

}  // namespace atolld

// Throttle, CallerThrottle and SessionLimits limit how often callers may ask the coordinator for
// something.
//
// Each is a token bucket: it allows `per_second` over any long time, and `burst` at once after a
// pause. The caller passes the time. Pure. Used by one thread.
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
  // `per_second` must be above zero, and `burst` at least one. The bucket begins full.
  Throttle(double per_second, double burst);

  // If an action may be done now, counts it and returns true.
  bool Allow(absl::Time now);

  // Counts an action that is done in any case. Returns how long the caller should wait before the
  // next action in order to keep within the limit.
  absl::Duration Charge(absl::Time now);

  bool Full(absl::Time now);

 private:
  void Refill(absl::Time now);

  const double per_second_;
  const double burst_;
  double balance_;  // negative if the bucket is overdrawn
  absl::Time filled_ = absl::InfinitePast();
};

// Holds one bucket for each caller. It remembers only the callers that have asked lately.
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

// Limits how many Sessions a coordinator holds, and how many one peer may begin. Each new Session
// costs the whole run: a row in the store, and a new roster for every peer.
class SessionLimits {
 public:
  // A peer may begin half a minute's allowance of Sessions at once, because a line that breaks a
  // few times in a row is no attack.
  explicit SessionLimits(uint32_t sessions_per_minute);

  // Returns OK, and counts the Session, if `caller` may begin a Session while `open` Sessions are
  // open. `caller` is not set if connections are plain text. Fails with RESOURCE_EXHAUSTED if it
  // may not.
  absl::Status Check(absl::Time now, const std::optional<Identity>& caller, size_t open);

 private:
  const uint32_t per_minute_;
  CallerThrottle begun_;
};

}  // namespace atolld

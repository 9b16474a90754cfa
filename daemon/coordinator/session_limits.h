// SessionLimits: how many Sessions a coordinator holds, and how many one peer may begin.
//
// A Session that begins is work for the whole run: a row in the store, and a roster for everybody.
// Pure state; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/coordinator/throttle.h"
#include "membership/trust/identity.h"

namespace atolld {

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

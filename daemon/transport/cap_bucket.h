// CapBucket: says how much may still pass in one direction of a line whose owner has set a cap.
//
// It is a token bucket that may go into debt. Bytes that passed without permission (packets that
// the kernel took in before anything read them, headers, acknowledgements) are charged when they
// are seen, and the caller waits until that debt is paid. Law: from a moment without debt on, the
// bytes charged in any time T are at most rate x T, plus what kSaved of idle time has saved, plus
// the bytes that passed without permission.
//
// It has no clock: the caller passes the time, which never goes back. Pure. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/time/time.h"

namespace atolld {

class CapBucket {
 public:
  // Idle time beyond this saves nothing, so that a burst after a pause stays far below the
  // tolerance of the cap: 60 ms are 1.2 % of a window of five seconds. A shorter limit would waste
  // part of the line, because a caller on a busy machine often comes up to 60 ms late.
  static constexpr absl::Duration kSaved = absl::Milliseconds(60);

  static constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

  // Sets the cap in bytes a second. 0 means no cap, and cancels the debt.
  void SetRate(absl::Time now, uint64_t rate);
  uint64_t rate() const { return rate_; }

  // Returns the number of bytes that may pass now. Traffic with priority may also use the allowance
  // of the next `ahead` of time.
  size_t Allowed(absl::Time now, absl::Duration ahead = absl::ZeroDuration());

  void Charge(absl::Time now, uint64_t bytes);

  // Returns the time until this number of bytes is allowed.
  absl::Duration Wait(absl::Time now, size_t bytes);

 private:
  void Fill(absl::Time now);

  uint64_t rate_ = 0;
  double tokens_ = 0;  // in bytes; negative if there is a debt
  absl::Time filled_ = absl::InfinitePast();
};

}  // namespace atolld

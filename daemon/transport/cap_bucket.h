// CapBucket: how much may still pass in one direction of a line whose owner has set a cap.
//
// A token bucket that may go into debt. What has passed without being asked about (packets that the
// kernel took in before anybody read them, headers, acknowledgements) is charged when it is seen,
// and whoever asks waits until it is paid. Law: from a moment without debt on, what is charged in
// any time T is at most rate x T, what kSaved of idle time has saved, and what came unasked.
//
// It knows no clock: each call says the time, which never goes back. One thread's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/time/time.h"

namespace atolld {

class CapBucket {
 public:
  // Idle time beyond this saves nothing, so that a burst after a pause stays far below the cap's
  // tolerance: 60 ms are 1.2 % of a window of five seconds. On a busy machine whoever asks often
  // comes so late, and would else lose what the line could have carried meanwhile.
  static constexpr absl::Duration kSaved = absl::Milliseconds(60);

  static constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

  // Bytes a second; 0: no cap, and what was owed is forgotten.
  void SetRate(absl::Time now, uint64_t rate);
  uint64_t rate() const { return rate_; }

  // How many bytes may pass now. `ahead`: for what goes first, so much of the time to come may be
  // spent too.
  size_t Allowed(absl::Time now, absl::Duration ahead = absl::ZeroDuration());

  void Charge(absl::Time now, uint64_t bytes);

  // Until so many are allowed.
  absl::Duration Wait(absl::Time now, size_t bytes);

 private:
  void Fill(absl::Time now);

  uint64_t rate_ = 0;
  double tokens_ = 0;  // bytes; below 0: a debt
  absl::Time filled_ = absl::InfinitePast();
};

}  // namespace atolld

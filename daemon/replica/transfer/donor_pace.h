// DonorPace: decides when a donor may read and send the next block, and to which joiner.
//
// It is a token bucket for all joiners together: over any long time, no more than the rate is sent.
// A block may overdraw the bucket, and the next block then waits. Joiners take turns, no matter how
// many calls each has open. Pure. Used by one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace atolld {

class DonorPace {
 public:
  explicit DonorPace(uint64_t bytes_per_second);  // A rate of 0 means no limit.

  // Sets the rate from now on; an overdraft remains. If `beforehand` is true, the bucket must not
  // be overdrawn and its present balance is dropped: a block may be sent only when the balance
  // covers the whole block.
  void SetRate(absl::Time now, uint64_t bytes_per_second, bool beforehand = false);

  // Called when `call` of `joiner` has a block to send. The call then waits for its grant.
  void Wait(const std::string& joiner, uint64_t call);
  void Forget(uint64_t call);

  // Returns the call whose turn it is, and charges a whole block. Returns nullopt if no call waits
  // or it is too early.
  std::optional<uint64_t> Grant(absl::Time now);
  // Corrects a grant: `bytes` bytes were actually sent.
  void Settle(uint64_t bytes);

  // Returns how long it takes until Grant can return a call again; infinite if no call waits.
  absl::Duration Delay(absl::Time now);

 private:
  void Refill(absl::Time now);
  double most() const;
  double least() const;  // Returns the balance that a grant must exceed.

  uint64_t rate_;
  bool beforehand_ = false;
  double balance_;  // The balance in bytes; negative if the bucket is overdrawn.
  absl::Time filled_ = absl::InfinitePast();
  // The waiting calls of each joiner; no queue is empty.
  std::map<std::string, std::deque<uint64_t>> waiting_;
  std::string last_;  // The joiner that had the last turn.
};

}  // namespace atolld

// DonorPace: when a donor may read and send its next block, and to whom.
//
// A token bucket for all joiners together: over any long time no more than the rate is sent; a
// block may overdraw it and the next one waits for that. Joiners take turns, whatever the number of
// calls that each has open. Pure state; one thread.
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
  explicit DonorPace(uint64_t bytes_per_second);  // 0: no limit

  // From now on; what was overdrawn stays owed. `beforehand`: nothing is overdrawn any more, nor is
  // what was saved spent; a block goes when all of it has been saved from now on.
  void SetRate(absl::Time now, uint64_t bytes_per_second, bool beforehand = false);

  // `call` of `joiner` has a block to send; it waits for its grant.
  void Wait(const std::string& joiner, uint64_t call);
  void Forget(uint64_t call);

  // The call whose turn it is; a whole block is charged. Nothing: nobody waits, or not yet.
  std::optional<uint64_t> Grant(absl::Time now);
  // What became of a grant: so many bytes were sent after all.
  void Settle(uint64_t bytes);

  // How long until Grant can give again. Infinite: nobody waits.
  absl::Duration Delay(absl::Time now);

 private:
  void Refill(absl::Time now);
  double most() const;
  double least() const;  // a grant needs more

  uint64_t rate_;
  bool beforehand_ = false;
  double balance_;  // bytes; negative: overdrawn
  absl::Time filled_ = absl::InfinitePast();
  std::map<std::string, std::deque<uint64_t>> waiting_;  // by joiner; none is empty
  std::string last_;                                     // the joiner that had its turn
};

}  // namespace atolld

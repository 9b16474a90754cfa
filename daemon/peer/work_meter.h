// WorkMeter: divides the time from one update of a peer to the next into training and waiting, and
// counts the exchanges' bytes in each.
//
// The worker waits from a Boundary to the beginning of the training that makes the next update, and
// within that training for a merge. A training in between that led to no update counts as waiting.
// A wait for a merge ends with a commit. So, of the bytes that passed from the training's beginning
// to its last commit, a share counts as waited for: the length of the wait divided by the length of
// that time. Pure. Used by one thread.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"

namespace atolld {

class WorkMeter {
 public:
  // `bytes` is the number of bytes sent and received in exchanges so far.
  void OnTraining(absl::Time now, uint64_t bytes);
  void OnCommitted(absl::Time now, uint64_t bytes);
  // Called when the newest training has ended. `merge_seconds` is the time for which that training
  // waited for a merge.
  void OnBoundary(absl::Time now, uint64_t bytes, double merge_seconds);
  // Makes the time until the next Boundary not count as waiting, for example because the machine's
  // owner has paused the worker.
  void Forget() { boundary_.reset(); }

  // Sets the figures in the Ready of the update that the last Boundary ended.
  void Tell(v1::Ready* ready) const;

 private:
  struct Moment {
    absl::Time at;
    uint64_t bytes = 0;
  };

  std::optional<Moment> boundary_, began_;
  std::optional<Moment> committed_;  // The last commit since began_.
  double waited_seconds_ = 0;
  uint64_t hidden_bytes_ = 0, waited_bytes_ = 0;
};

}  // namespace atolld

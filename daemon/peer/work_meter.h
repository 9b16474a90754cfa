// WorkMeter: how the time from one update of a peer to its next divides into training and waiting,
// and which bytes of exchanges passed meanwhile.
//
// The worker waits from a Boundary to the beginning of the training that makes the next update
// (what was trained in between and came to nothing is lost, and counts as waited), and within it
// for a merge. Such a wait ends with a commit: of what passed up to the last one, its share of the
// time counts as waited for. Pure; one thread.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"

namespace atolld {

class WorkMeter {
 public:
  // `bytes`: sent and received in exchanges so far.
  void OnTraining(absl::Time now, uint64_t bytes);
  void OnCommitted(absl::Time now, uint64_t bytes);
  // Of the training that began last. `merge_seconds`: in which it waited for a merge.
  void OnBoundary(absl::Time now, uint64_t bytes, double merge_seconds);
  // What comes until the next Boundary is nobody's wait: the owner of the machine paused it, say.
  void Forget() { boundary_.reset(); }

  // Into the Ready of the update that the last Boundary was of.
  void Tell(v1::Ready* ready) const;

 private:
  struct Moment {
    absl::Time at;
    uint64_t bytes = 0;
  };

  std::optional<Moment> boundary_, began_;
  std::optional<Moment> committed_;  // the last one since began_
  double waited_seconds_ = 0;
  uint64_t hidden_bytes_ = 0, waited_bytes_ = 0;
};

}  // namespace atolld

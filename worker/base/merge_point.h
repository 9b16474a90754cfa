// Decides when and how a worker merges an entry that arrives while the worker trains; see
// TrainSteps.start and Merge in worker.proto.
//
// MergePoint decides when to merge, and touches no parameters. It is used by one thread at a time.
// MergeInto and RebaseOnto do the arithmetic, and are pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "atoll/v1/worker.pb.h"

namespace atolld {

// The parameters from which a training may start.
enum class TrainingStart { kTheta, kOwn, kGuess };

// Converts TrainSteps.start (worker.proto) to `start`. Fails with INVALID_ARGUMENT if its value is
// unknown, or if it is "own" for a virtual party, because the parameters of virtual parties are not
// kept.
absl::Status ReadStart(const v1::TrainSteps& train, TrainingStart* start);

class MergePoint {
 public:
  // Call this when a training begins. `own` is true if the training continues from the worker's own
  // parameters. Merges that have arrived but have not been done are then still to be done.
  // Otherwise they are dropped, because the training starts from newer parameters.
  void Begin(const v1::TrainSteps& train, bool own);

  void Add(const v1::Merge& merge);

  // Removes and returns the merges that must be done now, in the order of their arrival. The
  // training has done `done` of its `steps` steps. May also be called when no training is under
  // way.
  std::vector<v1::Merge> Take(uint32_t done, uint32_t steps);

  // Returns true if a training that has done `done` of its `steps` steps must not continue before a
  // merge arrives.
  bool Waits(uint32_t done, uint32_t steps) const;

  // Returns how many of its `steps` steps the training may do before it must merge or wait. Returns
  // `steps` if it waits for no merge.
  uint32_t StepsBefore(uint32_t steps) const;

 private:
  bool HasAwaited() const;

  // The version of the merge for which the training must wait; 0 if there is none.
  uint64_t awaited_ = 0;
  uint32_t after_ = 0;   // The number of steps before the awaited merge.
  uint64_t merged_ = 0;  // The newest version that was merged.
  std::vector<v1::Merge> pending_;
};

// Merges `theta` into `parameters` and `base` by the rule of Merge in worker.proto. The three have
// the same size. Each value of `theta` is read only once, because a commit may be writing to it.
// Fails with INVALID_ARGUMENT, and changes nothing, if a range ends after the end of the vector or
// the share is not between 0 and 1.
absl::Status MergeInto(const v1::Merge& merge, absl::Span<const float> theta,
                       absl::Span<float> base, absl::Span<float> parameters);

// Rebases: adds theta - base to `parameters`, and sets `base` to theta. Each value of `theta` is
// read only once.
void RebaseOnto(absl::Span<const float> theta, absl::Span<float> base,
                absl::Span<float> parameters);

}  // namespace atolld

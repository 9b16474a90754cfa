// What a worker does that trains on while an entry is on its way (worker.proto, TrainSteps.start
// and Merge): when it takes the entry in, and how.
//
// MergePoint keeps the order of things and touches no parameters; one thread at a time. MergeInto
// is the arithmetic, pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "atoll/v1/worker.pb.h"

namespace atolld {

// Where a training may start.
enum class TrainingStart { kTheta, kOwn, kGuess };

// As TrainSteps.start says. INVALID_ARGUMENT: no worker of this protocol knows it, or it is "own"
// for a virtual party, of which nothing stays where it is.
absl::Status ReadStart(const v1::TrainSteps& train, TrainingStart* start);

class MergePoint {
 public:
  // A training begins. From `own` parameters what has come and is not merged stays to be merged;
  // from others it is in them, or of no use to them.
  void Begin(const v1::TrainSteps& train, bool own);

  void Add(const v1::Merge& merge);

  // What is to be merged now, in the order in which it came, by a training that has done `done` of
  // its `steps`, or by a worker that trains nothing.
  std::vector<v1::Merge> Take(uint32_t done, uint32_t steps);

  // Such a training goes no further before a merge comes.
  bool Waits(uint32_t done, uint32_t steps) const;

  // How many of so many steps it may do before it merges or waits; all, if there is nothing.
  uint32_t StepsBefore(uint32_t steps) const;

 private:
  bool HasAwaited() const;

  uint64_t awaited_ = 0;  // version of the merge that the training waits for; 0: none
  uint32_t after_ = 0;    // so many steps
  uint64_t merged_ = 0;   // newest version that was merged
  std::vector<v1::Merge> pending_;
};

// Merges theta into parameters and base, all of one size, as worker.proto says of Merge. Each value
// of theta is read once, since a commit may be writing it. INVALID_ARGUMENT: a range ends after the
// vector, or the share is not from 0 to 1; nothing is changed then.
absl::Status MergeInto(const v1::Merge& merge, absl::Span<const float> theta,
                       absl::Span<float> base, absl::Span<float> parameters);

// As MergeInto, of a Rebase: both move by theta - base.
void RebaseOnto(absl::Span<const float> theta, absl::Span<float> base,
                absl::Span<float> parameters);

}  // namespace atolld

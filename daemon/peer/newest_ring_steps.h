// NewestRingSteps: the steps in which the values of masked updates are quantised for the entry
// after the replica's version (compression/ring_codec.h).
//
// The steps are computed from the mean of the newest entry, which is the same in all replicas. A
// job on the keeper's queue reads the mean when the replica moves. A replica that was fetched as a
// snapshot does not hold the mean, and has only the first round's steps until the next entry. Used
// on the loop thread.
#pragma once

#include <cstdint>
#include <memory>

#include "atoll/v1/run.pb.h"
#include "compression/ring_codec.h"
#include "compression/wire_codec.h"
#include "daemon/env/env.h"
#include "daemon/peer/replica_keeper.h"

namespace atolld {

class NewestRingSteps {
 public:
  explicit NewestRingSteps(ReplicaKeeper& keeper) : keeper_(keeper) {}

  void Follow(const v1::RunSpec& spec);  // Called once, with a checked spec.

  // Called when the replica has moved. Computes the steps from the new mean.
  void Load();
  // Returns true if the steps for the replica's version are known, or if it is known that there are
  // no steps. Otherwise calls `later` when this is known; only the newest `later` is called.
  bool Loaded(Task later);
  // Returns the steps of the first round, which need no mean.
  std::shared_ptr<const RingSteps> First() const;
  // Nullptr if there are no steps. May be called only if Loaded() has returned true.
  const std::shared_ptr<const RingSteps>& steps() const { return steps_; }

 private:
  bool loaded() const { return loaded_ && version_ == keeper_.version(); }

  ReplicaKeeper& keeper_;
  v1::RunSpec spec_;
  LevelCodecs codecs_;
  bool loading_ = false;
  bool loaded_ = false;
  uint64_t version_ = 0;
  std::shared_ptr<const RingSteps> steps_;
  Task later_;
  CallbackGuard guard_;
};

}  // namespace atolld

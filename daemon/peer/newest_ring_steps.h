// NewestRingSteps: in what steps the values of masked updates are counted, for the entry after the
// replica's version (compression/ring_codec.h).
//
// They come of the mean of the newest entry, which all replicas have in common: read when the
// replica moves, by a job on the keeper's queue. A replica that came by a snapshot alone does not
// hold that mean, and has no steps but the first until the next entry. Loop thread.
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

  void Follow(const v1::RunSpec& spec);  // once, checked before

  // The replica has moved: its newest mean is another.
  void Load();
  // Whether it is known, for the replica's version, what the steps are or that there are none.
  // Where it is not, `later` is called when it is; the newest one alone.
  bool Loaded(Task later);
  // Those of the first round, which need no mean.
  std::shared_ptr<const RingSteps> First() const;
  // nullptr: there are none. Only where they are loaded.
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

// UpdateMeasure: what a peer tells of the length of its update, and what its exchanges make updates
// one by.
//
// Where the run's rule has a centre, that is the mean of the newest entry: read when the replica
// moves, and the update's distance from it is measured anew for each version that the update is
// offered to. A replica that has come by a snapshot alone does not hold it, and tells no distance.
// Loop thread; reading and measuring run on the keeper's queue.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "atoll/v1/membership.pb.h"
#include "compression/level_codecs.h"
#include "daemon/env/env.h"
#include "daemon/exchange/contribution.h"
#include "daemon/exchange/exchange.h"
#include "daemon/peer/replica_keeper.h"

namespace atolld {

class UpdateMeasure {
 public:
  explicit UpdateMeasure(ReplicaKeeper& keeper) : keeper_(keeper) {}

  // The run's; once, checked before.
  void Follow(const v1::ExchangeSpec& exchange, const LevelCodecs& codecs);

  // The replica has moved: its newest mean is another.
  void Load();

  // Sets the norms of `ready`. False: they are not known yet for the replica's version; `later` is
  // called when they are, once.
  bool Tell(const std::shared_ptr<const Contribution>& contribution, v1::Ready* ready, Task later);

  // For an exchange of the entry after the replica's version.
  void Fill(ExchangeSettings* settings) const;

 private:
  bool from_centre() const { return rule_.has_value() && rule_->has_centre(); }
  bool Loaded() const { return loaded_ && version_ == keeper_.version(); }

  ReplicaKeeper& keeper_;
  LevelCodecs codecs_;
  std::optional<AggregationRule> rule_;  // nothing: the weighted mean
  bool loaded_ = false;
  uint64_t version_ = 0;                  // of the centre
  std::shared_ptr<const Centre> centre_;  // nullptr: it is not here
  // What was measured last: of which update, from which version's mean.
  std::shared_ptr<const Contribution> measured_;
  uint64_t measured_from_ = 0;
  ChunkNorms norms_;
  Task later_;
  CallbackGuard guard_;
};

}  // namespace atolld

// Builds the outcome that a peer votes for from the means of an exchange.
//
// MeanTable holds the means as they arrive. Meanwhile PayloadBuild makes the payload from them; if
// the build is given up, Assemble makes the payload at the end. OutcomeBuild ties these together
// and reports when a shard is complete and when all means have arrived. The classes are used on the
// loop thread; the functions are pure.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "atoll/v1/membership.pb.h"
#include "compression/base/bytes.h"
#include "compression/codec.h"
#include "daemon/env/env.h"
#include "daemon/exchange/exchange_plan.h"
#include "membership/history/digest.h"
#include "membership/history/payload.h"

namespace atolld {

// The outcome that a peer votes for.
struct ExchangeOutcome {
  uint32_t revision = 0;
  SharedBytes payload;
  Digest payload_digest;
  // The squared norm of the payload's decoded values; see Vote.squared_mean_bits.
  double squared_mean = 0;
  v1::MeanRecords records;
};

// The mean of one chunk, which is the same at all peers.
struct ChunkMean {
  uint32_t attempt = 0;  // The attempt that made the mean; 0 if the mean has not arrived.
  SharedBytes encoded;
  std::string contributors;           // A bitmap of the contributors.
  std::vector<std::string> partials;  // See ContributorSet.partials.
  double squared_norm = 0;            // The squared norm of the decoded values.
};

// Holds the means of all chunks as they arrive, and knows which shards are complete.
//
// A mean is dropped only when its shard's attempt changes; it is kept even if the peer that
// averaged it dies.
class MeanTable {
 public:
  // The shard's position in the plan, and its attempt.
  using ShardAttempt = std::pair<uint32_t, uint32_t>;

  // Adopts a revision of the plan. Appends to `dropped` the chunks whose means it drops.
  void Adopt(const ExchangePlan& plan, std::vector<uint32_t>* dropped);

  const ExchangePlan& plan() const { return plan_; }  // The plan that was adopted last.

  // Stores a mean. The mean must belong to the shard's attempt in plan(), and must not be stored
  // yet.
  void Store(uint32_t chunk, ChunkMean mean);

  bool Has(uint32_t chunk) const { return means_[chunk].attempt != 0; }
  const ChunkMean& at(uint32_t chunk) const { return means_[chunk]; }
  const std::vector<ChunkMean>& means() const { return means_; }
  bool whole() const { return missing_ == 0; }
  uint64_t changes() const { return changes_; }  // Changes whenever the stored means change.

  // Returns the shards that have become complete since the last call and still are.
  std::vector<ShardAttempt> TakeWholeShards();
  bool news() const { return !became_whole_.empty(); }

  // Called when `payload` was made of exactly these means. The table then refers to the payload
  // instead of holding the means separately.
  void LeanOn(const SharedBytes& payload);
  uint64_t held_bytes() const {
    return held_bytes_;
  }  // The bytes held in memory, without the payload.

 private:
  void Drop(uint32_t chunk);

  ExchangePlan plan_;
  std::vector<ChunkMean> means_;
  std::vector<bool> in_payload_;      // True for each chunk whose mean is in the payload.
  std::vector<uint32_t> missing_of_;  // The number of missing means of each shard.
  uint32_t missing_ = 0;
  uint64_t changes_ = 0;
  uint64_t held_bytes_ = 0;
  std::set<uint32_t> became_whole_;  // The shards that TakeWholeShards has yet to return.
};

// Returns the records of the means. `means` must have a mean for each chunk of the grid. A shard's
// record names the shard's reducer, even if this peer received the means from another peer.
v1::MeanRecords Records(const ExchangePlan& plan, const std::vector<ChunkMean>& means);
// Makes the outcome that a peer votes for, except squared_mean. The function is pure, so peers that
// hold the same means make the same outcome. It copies and hashes the whole payload, which takes
// long, so run it on the pool.
ExchangeOutcome Assemble(const ExchangePlan& plan, const std::vector<ChunkMean>& means);

// Returns the squared norm of the decoded means: the norms of the chunks, added in grid order.
double SquaredMean(const std::vector<ChunkMean>& means);

// Builds the payload while its means are still arriving, so that little is left to do after the
// last one.
//
// The code that makes or receives a mean writes it directly into its place in the payload, so that
// the mean is in memory only once. Blocks of the payload that are complete are hashed on the pool
// while other means arrive. This needs a codec with a fixed rate. The build is given up if a mean
// was not written to its place, is withdrawn (GiveUp) or is made twice; the payload is then made at
// the end (Assemble).
class PayloadBuild {
 public:
  PayloadBuild(Executor& executor, const ChunkGrid& grid, const Codec& codec);
  ~PayloadBuild();  // If the pool runs a job, it finishes the job, and the result is dropped.

  // Returns the place to which the caller must write a chunk's mean, on any thread, or nullopt if
  // the build was given up. A place may be claimed only once: a second claim ends the build and
  // returns nullopt, since the first caller may still be writing.
  std::optional<FreshBytes> Claim(uint32_t chunk);

  // Call this once for each chunk, when its claimed place holds this mean.
  void Take(uint32_t chunk, const SharedBytes& encoded);

  void GiveUp();
  bool given_up() const { return given_up_; }

  // Must be called after Take was called for every chunk, and only if the build was not given up.
  // Calls `done` with the same payload and digest as Assemble would make. `done` is never called
  // from inside this call, and not at all if the build is given up meanwhile.
  void Finish(std::function<void(ExchangeOutcome)> done);

 private:
  struct Work;

  void Advance();

  Executor& executor_;
  const ChunkGrid grid_;
  const Codec& codec_;
  bool given_up_;
  std::unique_ptr<Work> work_;  // Null before the first claim, and after the build was given up.
  bool hashing_ = false;
  std::function<void(ExchangeOutcome)> done_;
  CallbackGuard guard_;
};

// Collects the means of an exchange, and makes the outcome when all of them have arrived.
//
// OutcomeBuild runs one assembly at a time. Under a new revision that changes no mean, it reuses
// the existing payload. Events are called from posted tasks, so the owner may destroy this object
// in any of them.
class OutcomeBuild {
 public:
  struct Events {
    // Called when every chunk's mean has arrived; at most once in each revision.
    std::function<void(ExchangeOutcome)> on_complete;
    // Called when every mean of these shards has arrived; once for each shard and attempt.
    std::function<void(std::vector<MeanTable::ShardAttempt>)> on_shards_held;
  };

  // `codec` is the codec of means.
  OutcomeBuild(Executor& executor, const ChunkGrid& grid, const Codec& codec, Events events);

  // Adopts a revision of the plan. Returns the chunks whose means were dropped. TellNews must be
  // called afterwards.
  std::vector<uint32_t> Adopt(const ExchangePlan& plan);
  // See PayloadBuild::Claim.
  std::optional<FreshBytes> Claim(uint32_t chunk) { return payload_.Claim(chunk); }
  // Stores a mean as MeanTable::Store does. TellNews must be called afterwards.
  void Store(uint32_t chunk, ChunkMean mean);
  // Calls the events for the shards, or the outcome, that have become complete.
  void TellNews();
  void Stop();  // No event is called afterwards.

  bool Has(uint32_t chunk) const { return table_.Has(chunk); }
  const ChunkMean& at(uint32_t chunk) const { return table_.at(chunk); }
  uint64_t held_bytes() const {
    return table_.held_bytes();
  }  // The bytes held in memory, without the payload.

 private:
  void TellShardsHeld();
  void CompleteIfAllHere();
  void TellOutcome();
  void OnAssembled(uint64_t changes, ExchangeOutcome made);

  Executor& executor_;
  const Events events_;

  MeanTable table_;
  PayloadBuild payload_;  // The payload of the means in the table.
  bool stopped_ = false;
  bool telling_held_ = false;
  bool assembling_ = false;
  // The outcome made from the table when changes() was outcome_changes_.
  std::optional<ExchangeOutcome> outcome_;
  uint64_t outcome_changes_ = 0;
  uint32_t told_revision_ = 0;
  CallbackGuard guard_;
};

}  // namespace atolld

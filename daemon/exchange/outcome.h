// From the means of an exchange to what a peer votes for.
//
// MeanTable holds the means as they come in; PayloadBuild makes the payload of them meanwhile;
// Assemble makes it at the end where that was given up; OutcomeBuild ties them together and says
// when a shard, and when all, is here. Loop thread, but for the pure functions.
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

// What a peer votes for.
struct ExchangeOutcome {
  uint32_t revision = 0;
  SharedBytes payload;
  Digest payload_digest;
  double squared_mean = 0;  // of what the payload decodes to, as in Vote
  v1::MeanRecords records;
};

// The mean of one chunk, as everybody takes it.
struct ChunkMean {
  uint32_t attempt = 0;  // 0: not here
  SharedBytes encoded;
  std::string contributors;           // bitmap
  std::vector<std::string> partials;  // as in ContributorSet
  double squared_norm = 0;            // of what it decodes to
};

// The means of all chunks as they come in, and which shards are whole.
//
// A mean is dropped when its shard's attempt changes, and by nothing else: whoever averaged it may
// die.
class MeanTable {
 public:
  using ShardAttempt = std::pair<uint32_t, uint32_t>;  // position in the plan, attempt

  // Appends the chunks whose means are dropped to `dropped`.
  void Adopt(const ExchangePlan& plan, std::vector<uint32_t>* dropped);

  const ExchangePlan& plan() const { return plan_; }  // adopted last

  // `mean` is of the attempt of the plan adopted last, and not here yet.
  void Store(uint32_t chunk, ChunkMean mean);

  bool Has(uint32_t chunk) const { return means_[chunk].attempt != 0; }
  const ChunkMean& at(uint32_t chunk) const { return means_[chunk]; }
  const std::vector<ChunkMean>& means() const { return means_; }
  bool whole() const { return missing_ == 0; }
  uint64_t changes() const { return changes_; }  // another number, another content

  // The shards that have become whole since the last call and still are.
  std::vector<ShardAttempt> TakeWholeShards();
  bool news() const { return !became_whole_.empty(); }

  // `payload` was made of these very means.
  void LeanOn(const SharedBytes& payload);
  uint64_t held_bytes() const { return held_bytes_; }  // beside the payload

 private:
  void Drop(uint32_t chunk);

  ExchangePlan plan_;
  std::vector<ChunkMean> means_;
  std::vector<bool> in_payload_;      // by chunk
  std::vector<uint32_t> missing_of_;  // by shard
  uint32_t missing_ = 0;
  uint64_t changes_ = 0;
  uint64_t held_bytes_ = 0;
  std::set<uint32_t> became_whole_;  // shards
};

// `means` has one for each chunk of the grid, all here. A shard's record names its reducer, whoever
// gave the means out.
v1::MeanRecords Records(const ExchangePlan& plan, const std::vector<ChunkMean>& means);
// What a peer votes for, all but squared_mean: a pure function, so peers that hold the same means
// make the same. Blocking (it copies and hashes the whole payload): run it on the pool.
ExchangeOutcome Assemble(const ExchangePlan& plan, const std::vector<ChunkMean>& means);

// The squared norm of what the means decode to: those of the chunks, added in grid order.
double SquaredMean(const std::vector<ChunkMean>& means);

// The payload while its means are still coming in, so that little is left to do after the last one.
//
// Whoever makes a mean or receives it writes it into its place, so that it lies in memory once, and
// blocks that have become whole are hashed on the pool, beside the wire. That takes a codec of a
// fixed rate. A mean that lies elsewhere ends the build, as does one that is taken back (GiveUp) or
// made twice, and the payload is then made at the end (Assemble).
class PayloadBuild {
 public:
  PayloadBuild(Executor& executor, const ChunkGrid& grid, const Codec& codec);
  ~PayloadBuild();  // a job that runs is finished by the pool; nothing follows it

  // Where a chunk's mean is to be written, on any thread, by whoever claims it; nothing if it has
  // been given up. A place is claimed once: who claims it again ends the build and gets nothing,
  // for the first may be writing yet.
  std::optional<FreshBytes> Claim(uint32_t chunk);

  // The mean of a chunk that was not taken yet: its place is written.
  void Take(uint32_t chunk, const SharedBytes& encoded);

  void GiveUp();
  bool given_up() const { return given_up_; }

  // Every chunk was taken, and it was not given up: tells payload and digest as Assemble makes
  // them, or nothing if it is given up meanwhile; never from inside.
  void Finish(std::function<void(ExchangeOutcome)> done);

 private:
  struct Work;

  void Advance();

  Executor& executor_;
  const ChunkGrid grid_;
  const Codec& codec_;
  bool given_up_;
  std::unique_ptr<Work> work_;  // null before the first claim, and once given up
  bool hashing_ = false;
  std::function<void(ExchangeOutcome)> done_;
  CallbackGuard guard_;
};

// All means of an exchange, and the outcome when they are all here.
//
// One assembly at a time; a revision under which no mean has changed takes the payload there is.
// The owner is told by posted tasks, so it may destroy this from any of them.
class OutcomeBuild {
 public:
  struct Events {
    std::function<void(ExchangeOutcome)> on_complete;  // once a revision; every chunk is here
    // Every mean of these shards is here; once a shard and attempt.
    std::function<void(std::vector<MeanTable::ShardAttempt>)> on_shards_held;
  };

  // `codec`: of means.
  OutcomeBuild(Executor& executor, const ChunkGrid& grid, const Codec& codec, Events events);

  // Gives the chunks whose means are dropped. TellNews follows.
  std::vector<uint32_t> Adopt(const ExchangePlan& plan);
  // As PayloadBuild's.
  std::optional<FreshBytes> Claim(uint32_t chunk) { return payload_.Claim(chunk); }
  // As MeanTable's. TellNews follows.
  void Store(uint32_t chunk, ChunkMean mean);
  // Tells the owner what has become whole.
  void TellNews();
  void Stop();  // nothing is told any more

  bool Has(uint32_t chunk) const { return table_.Has(chunk); }
  const ChunkMean& at(uint32_t chunk) const { return table_.at(chunk); }
  uint64_t held_bytes() const { return table_.held_bytes(); }  // beside the payload

 private:
  void TellShardsHeld();
  void CompleteIfAllHere();
  void TellOutcome();
  void OnAssembled(uint64_t changes, ExchangeOutcome made);

  Executor& executor_;
  const Events events_;

  MeanTable table_;
  PayloadBuild payload_;  // of the means in the table
  bool stopped_ = false;
  bool telling_held_ = false;
  bool assembling_ = false;
  std::optional<ExchangeOutcome> outcome_;  // of the table as it was after so many changes
  uint64_t outcome_changes_ = 0;
  uint32_t told_revision_ = 0;
  CallbackGuard guard_;
};

}  // namespace atolld

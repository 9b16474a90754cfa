// Exchange: one peer's part in the exchange of one entry - as contributor, as reducer, and as
// receiver of every mean.
//
//   mean_c   = (sum over present contributors in roster order of w_i * Decode(chunk_i,c))
//              * (1 / sum of their w_i), in fp32
//   result_c = Encode(mean_c), once; everybody, the reducer included, takes these bytes
//
// A reducer reduces a chunk when every contributor that is not lost has delivered it, and sends the
// result down at once. Under a newer revision of the plan, shards whose (attempt, reducer) are
// unchanged go on; the others begin again, from the same encoded contributions. The contributors,
// their weights and the shards' bounds are those of the first revision.
//
// Skew: a chunk or result of an attempt that has not been announced here yet stops its stream
// (nothing more is read from it) until the plan arrives; one of an older attempt is dropped. So a
// stream holds at most one early frame.
//
// Liars: a contributor whose chunk does not fit or cannot be decoded is refused by that reducer for
// this entry: its stream is closed with INVALID_ARGUMENT, nothing more is taken from it, and the
// chunks that it owes are left out, as those of a lost one. It may redial, and still receives the
// results.
//
// Loop thread; decoding, reducing, hashing and assembling run on the pool.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "atoll/v1/exchange.pb.h"
#include "atoll/v1/membership.pb.h"
#include "compression/codec.h"
#include "daemon/bytes.h"
#include "daemon/env.h"
#include "daemon/replica/digest.h"
#include "daemon/replica/payload.h"

namespace atolld {

// A peer's encoded update: one piece of bytes a chunk of the grid. Encoded once; every attempt
// resends the same.
struct Contribution {
  std::vector<SharedBytes> chunks;
  Digest root;  // ContributionRoot(chunks)
};

// SHA-256 over the SHA-256 of each chunk, in grid order.
Digest ContributionRoot(absl::Span<const SharedBytes> chunks);

// Encodes `values` by the grid. INVALID_ARGUMENT if a value is not finite. Blocking: run it on the
// pool.
absl::StatusOr<Contribution> EncodeContribution(const ChunkGrid& grid, const Codec& codec,
                                                absl::Span<const float> values);

// What the streams of all exchanges of a process have sent, both roles: whole messages with their
// prefixes. Loop thread.
struct ExchangeTraffic {
  uint64_t sent_bytes = 0;
};

struct ExchangeSettings {
  std::string run_id;
  std::string self;  // peer id
  const Codec* codec;
  bool zstd;
  ChunkGrid grid;
  absl::Duration failure_timeout;  // a stream without progress for so long is broken
  ExchangeTraffic* traffic;        // counted into; outlives the exchange
};

// What a peer votes for.
struct ExchangeOutcome {
  uint32_t revision = 0;
  SharedBytes payload;
  Digest payload_digest;
  std::vector<v1::ShardRecord> shards;  // with the exceptions of single chunks
  std::vector<Digest> shard_digests;    // of the shards' chunks, in the plan's order
};

class Exchange {
 public:
  struct Events {
    std::function<void(ExchangeOutcome)> on_complete;  // once a revision; every chunk is here
    // No progress for failure_timeout, or refused, or its results do not fit. Goes on trying; may
    // come again.
    std::function<void(std::string reducer, absl::Status why)> on_reducer_unreachable;
    // At most once: a plan that cannot be carried out, a chunk that nobody contributed to, a mean
    // that is not finite.
    std::function<void(absl::Status why)> on_failed = nullptr;
  };

  // `contribution` is nullptr for a peer that only reduces or receives (an aggregator, a peer that
  // was not ready): its streams bring results and carry no chunks. Any peer may open such a stream,
  // 64 beyond those that the plan names.
  Exchange(Env env, const ExchangeSettings& settings, const v1::Plan& plan,
           std::shared_ptr<const Contribution> contribution, Events events);
  ~Exchange();  // cancels all streams

  // A newer revision of the same (version, epoch): shards redistributed, contributors lost. Older
  // ones are ignored, and so is, with a line in the log, one that changes contributors, weights or
  // the shards' bounds.
  void Update(const v1::Plan& plan);

  // A contributor's stream, its Open already read (see ExchangeServer).
  void Accept(const v1::ExchangeOpen& open, std::unique_ptr<Call> call);

  uint64_t version() const;
  uint64_t epoch() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Receives the incoming Exchange streams of a peer and hands each to the running exchange it
// belongs to. A stream for a plan that has not arrived here yet is held until it does, for at most
// failure_timeout (then FAILED_PRECONDITION), at most 64 at once (then RESOURCE_EXHAUSTED); one for
// an older entry is refused with FAILED_PRECONDITION, one of another run with INVALID_ARGUMENT.
// Loop thread.
class ExchangeServer {
 public:
  ExchangeServer(Env env, std::string run_id, absl::Duration failure_timeout);
  ~ExchangeServer();
  void Accept(std::unique_ptr<Call> call);
  // nullptr between rounds, and before the exchange is destroyed; hands over the streams held for
  // it.
  void SetCurrent(Exchange* exchange);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace atolld

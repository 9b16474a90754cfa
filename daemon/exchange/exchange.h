// Exchange: one peer's part in the exchange of one entry - as contributor, as reducer or relay, as
// holder, and as receiver of every mean.
//
//   mean_c   = the rule of what the pieces decode to (chunk_work.h)
//   result_c = Encode(mean_c), once; everybody, the reducer included, takes these bytes
//
// A piece is a contributor's chunk or a relay's mean of its members' chunks, encoded once. A
// reducer reduces a chunk when everybody that is waited for is in a piece (see reducer.h) and sends
// the result down at once; a relay hands it on to its members. Under a newer revision of the plan,
// shards whose attempt is unchanged go on, the others begin again, from the same encoded
// contributions. A shard with a holder is no more reduced: whoever lacks a mean of it gets it
// there. A peer that is told to hold a shard and lacks a mean of it refuses those that lack it too
// with FAILED_PRECONDITION.
//
// Skew: a frame of an attempt or a route that has not been announced here yet stops its stream
// (nothing more is read from it) until the plan arrives; one of an older is dropped. So a stream
// holds at most one early frame.
//
// Roots: before its first chunk a contributor's stream carries the leaves that the root in the plan
// was made of; each chunk is held against its leaf when it is averaged.
//
// Liars: a contributor whose leaves are not those of its root, or whose chunk does not fit, cannot
// be decoded or has another digest than its leaf says, is refused by that reducer or relay for this
// entry: its stream is closed with INVALID_ARGUMENT, nothing more is taken from it, and the chunks
// that it owes are left out, as a lost one's. It may redial, and still receives the results.
//
// Loop thread; decoding, reducing, hashing and assembling run on the pool.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "atoll/v1/exchange.pb.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"
#include "daemon/exchange/contribution.h"
#include "daemon/exchange/exchange_settings.h"
#include "daemon/exchange/outcome.h"

namespace atolld {

struct ExchangeFigures {
  uint64_t averaged = 0;    // chunks averaged and encoded here, a relay's partial means included
  uint64_t held_bytes = 0;  // in memory beside the contribution and the outcome's payload
  uint64_t kept_bytes = 0;  // of what was averaged here, for an audit
  uint64_t looked_at = 0;   // streams, to see which of them may send
};

class Exchange {
 public:
  struct Events {
    std::function<void(ExchangeOutcome)> on_complete;  // once a revision; every chunk is here
    // No progress for failure_timeout, dials refused for a shorter time, or the stream refused, or
    // its results do not fit: a reducer, a relay or a holder. Goes on trying; may come again. This
    // peer itself, if it is to hold a shard that it lacks a mean of.
    std::function<void(std::string reducer, absl::Status why)> on_reducer_unreachable;
    // At most once: a plan that cannot be carried out, a chunk that nobody contributed to, a mean
    // that is not finite.
    std::function<void(absl::Status why)> on_failed = nullptr;
    // Every mean of these shards (position in the plan, attempt) is here. Once a shard and attempt,
    // also for those reduced here; several at once where they come together.
    std::function<void(std::vector<std::pair<uint32_t, uint32_t>>)> on_shards_held = nullptr;
    // What this peer, as reducer or relay, did not take; once a contributor.
    std::function<void(const v1::UpdateRefused& refused)> on_refused = nullptr;
  };

  // `contribution` is nullptr for a peer that only reduces or receives (an aggregator, a peer that
  // was not ready): its streams bring results and carry no chunks. Any peer may open such a stream,
  // 64 beyond those that the plan names.
  Exchange(Env env, const ExchangeSettings& settings, const v1::Plan& plan,
           std::shared_ptr<const Contribution> contribution, Events events);
  ~Exchange();  // cancels all streams

  // A newer revision of the same (version, epoch): shards redistributed, relays and holders
  // changed, contributors lost. Older ones are ignored, and so is, with a line in the log, one that
  // breaks the law of exchange_plan.h.
  void Update(const v1::Plan& plan);

  // A contributor's stream, its Open already read, which came at `opened` (see ExchangeServer).
  void Accept(const v1::ExchangeOpen& open, std::unique_ptr<Call> call, absl::Time opened);

  // What this peer averaged of the chunks that are asked for. FAILED_PRECONDITION: of another
  // entry; NOT_FOUND: of one of them nothing, or nothing was to be kept.
  absl::StatusOr<std::vector<Frame>> Inputs(const v1::InputsRequest& request) const;
  // Recomputes means of others under the current revision. The first order's `tell` hears the
  // verdicts of all, each as it is found and by its order's deadline, until the next revision.
  void Audit(const v1::Audit& order, std::function<void(v1::AuditReport)> tell);

  uint64_t version() const;
  uint64_t epoch() const;
  ExchangeFigures figures() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Receives the incoming Exchange streams of a peer and hands each to the running exchange that it
// belongs to.
//
// A stream for a plan that has not arrived here yet is held until it does, for at most
// failure_timeout (then FAILED_PRECONDITION), at most 256 at once and 64 of one caller (then
// RESOURCE_EXHAUSTED); one for an older entry is refused with FAILED_PRECONDITION, one of another
// run with INVALID_ARGUMENT. Loop thread.
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

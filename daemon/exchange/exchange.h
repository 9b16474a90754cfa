// Exchange: one peer's part in the exchange of one entry, as contributor, as reducer or relay, as
// holder, and as receiver of every mean.
//
//   mean_c   = the rule applied to the decoded pieces (chunk_work.h)
//   result_c = Encode(mean_c), once; all peers, the reducer included, take these bytes
//
// A piece is a contributor's chunk or a relay's mean of its members' chunks, encoded once. A
// reducer reduces a chunk when every awaited contributor is in a piece (see reducer.h), and sends
// the result at once; a relay forwards the result to its members. Under a newer revision of the
// plan, shards with an unchanged attempt continue; the others begin again, from the same encoded
// contributions. A shard with a holder is no longer reduced: peers that lack a mean of the shard
// get it from the holder. If a peer must hold a shard but lacks a mean of it, it refuses peers that
// lack the same mean with FAILED_PRECONDITION.
//
// Skew: if a frame belongs to an attempt or a route of which this peer does not have the plan yet,
// its stream is not read until the plan arrives; a frame of an older attempt or route is dropped.
// So a stream holds at most one early frame.
//
// Roots: on a contributor's stream, the leaves from which the root in the plan was made come before
// the first chunk; each chunk is checked against its leaf when it is averaged.
//
// Liars: a reducer or relay refuses a contributor for this entry if the leaves do not make the
// root, or if a chunk does not fit, cannot be decoded or has another digest than its leaf. It then
// closes the stream with INVALID_ARGUMENT, takes nothing more from the contributor, and leaves out
// the missing chunks, as for a lost contributor. The contributor may redial, and still receives the
// results.
//
// Used on the loop thread; decoding, reducing, hashing and assembling run on the pool.
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
  // The chunks that this peer has averaged and encoded, as a reducer or a relay.
  uint64_t averaged = 0;
  // The bytes held in memory, without the contribution and the outcome's payload.
  uint64_t held_bytes = 0;
  uint64_t kept_bytes = 0;  // The bytes kept for an audit of what this peer has averaged.
  uint64_t looked_at = 0;   // The number of streams that were examined to find those that may send.
};

class Exchange {
 public:
  struct Events {
    // Called when this peer has every chunk's mean; at most once in each revision.
    std::function<void(ExchangeOutcome)> on_complete;
    // Called when a reducer, relay or holder has made no progress for failure_timeout, has refused
    // dials for a shorter time, has refused the stream, or has sent results that do not fit. The
    // exchange continues to dial it, so this may be called again. `reducer` is this peer itself if
    // it must hold a shard but lacks a mean of it.
    std::function<void(std::string reducer, absl::Status why)> on_reducer_unreachable;
    // Called, at most once, when the plan cannot be carried out, a chunk has no contributor, or a
    // mean is not finite.
    std::function<void(absl::Status why)> on_failed = nullptr;
    // Called when this peer has every mean of these shards, each given as its position in the plan
    // and its attempt. Each pair of a shard and an attempt is reported once, even if this peer
    // reduced the shard itself; one call may report several.
    std::function<void(std::vector<std::pair<uint32_t, uint32_t>>)> on_shards_held = nullptr;
    // Called when this peer, as reducer or relay, has refused an update; at most once for each
    // contributor.
    std::function<void(const v1::UpdateRefused& refused)> on_refused = nullptr;
  };

  // `contribution` is nullptr for a peer that only reduces or receives (an aggregator, or a peer
  // that was not ready); its streams only receive results. Any peer may open such a stream to this
  // peer, but at most 64 peers that the plan does not name are accepted.
  Exchange(Env env, const ExchangeSettings& settings, const v1::Plan& plan,
           std::shared_ptr<const Contribution> contribution, Events events);
  ~Exchange();  // Cancels all streams.

  // Takes a newer revision of the same (version, epoch), in which shards may be redistributed,
  // relays and holders changed, and contributors lost. An older revision is ignored. A revision
  // that breaks the law of exchange_plan.h is ignored and logged.
  void Update(const v1::Plan& plan);

  // Accepts a contributor's stream, whose Open has been read and came at `opened` (see
  // ExchangeServer).
  void Accept(const v1::ExchangeOpen& open, std::unique_ptr<Call> call, absl::Time opened);

  // Returns the inputs that this peer averaged for the requested chunks. Fails with
  // FAILED_PRECONDITION if the request is for another entry, and with NOT_FOUND if this peer has
  // not averaged one of the chunks or has not kept its inputs.
  absl::StatusOr<std::vector<Frame>> Inputs(const v1::InputsRequest& request) const;
  // Recomputes means of other peers under the current revision. The `tell` of the revision's first
  // order gets the verdicts of all its orders, each when it is found and by its order's deadline.
  void Audit(const v1::Audit& order, std::function<void(v1::AuditReport)> tell);

  uint64_t version() const;
  uint64_t epoch() const;
  ExchangeFigures figures() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Receives the incoming Exchange streams of a peer and hands each to its running exchange.
//
// A stream for a plan that this peer does not have yet is held until the plan arrives. It is
// refused with FAILED_PRECONDITION after failure_timeout, and with RESOURCE_EXHAUSTED if 256
// streams, or 64 streams of its caller, are already held. A stream for an older entry is refused
// with FAILED_PRECONDITION, and a stream of another run with INVALID_ARGUMENT. Used on the loop
// thread.
class ExchangeServer {
 public:
  ExchangeServer(Env env, std::string run_id, absl::Duration failure_timeout);
  ~ExchangeServer();
  void Accept(std::unique_ptr<Call> call);
  // Sets the running exchange and hands over the streams that were held for it. Must be called with
  // nullptr before the exchange is destroyed.
  void SetCurrent(Exchange* exchange);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace atolld

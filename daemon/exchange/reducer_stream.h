// The accepting side of an exchange. A ReducerStream belongs to one (contributor, reducer) pair: it
// receives the contributor's chunks or partial means, and sends means. A relay accepts the streams
// of its members, and a holder the streams of all peers. ReducerStreams holds all such streams of a
// peer.
//
// A stream reads one frame at a time and hands it to the sink, which decides whether reading
// continues. Results are queued as chunk numbers; at most kMaxUnsentBytes and one result wait in
// the call. Used on the loop thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "atoll/v1/exchange.pb.h"
#include "compression/base/bytes.h"
#include "daemon/env/env.h"
#include "daemon/exchange/chunk_work.h"
#include "daemon/exchange/exchange_plan.h"
#include "daemon/exchange/exchange_settings.h"
#include "daemon/exchange/outcome.h"
#include "daemon/exchange/started_call.h"
#include "daemon/exchange/stream_flow.h"

namespace atolld {

class ReducerStream {
 public:
  // Takes the frames that arrive.
  class Sink {
   public:
    enum class Fate {
      kNext,   // The frame was taken or ignored: continue to read.
      kEarly,  // This peer does not have the frame's plan yet: wait for Resume.
    };
    virtual ~Sink() = default;
    // Takes a chunk or a partial mean. An error closes the stream with that error.
    virtual absl::StatusOr<Fate> OnContribution(const ReducerStream& stream,
                                                const v1::ContributionChunk& chunk,
                                                const SharedBytes& payload) = 0;
    // Takes all the leaves of the contributor. An error closes the stream with that error.
    virtual absl::StatusOr<Fate> OnLeaves(const ReducerStream& stream,
                                          const std::string& leaves) = 0;
  };

  // Provides the results that are to be sent.
  class Owner {
   public:
    enum class Delivery {
      kReady,
      kLater,     // The pool makes the result's wire form; Pump is called afterwards.
      kUnwanted,  // The attempt has ended, or the other end gets the result from another peer.
    };
    virtual ~Owner() = default;
    virtual Delivery PrepareResult(const ReducerStream& stream, uint32_t chunk,
                                   uint32_t attempt) = 0;
    virtual Frame ResultFrame(uint32_t chunk) const = 0;  // Called for a result that is kReady.
    // Called when the stream has ended. It is not called from inside the call's callbacks, and may
    // destroy the stream.
    virtual void OnGone(ReducerStream* stream) = 0;
  };

  ReducerStream(Env env, const ExchangeSettings& settings, std::string contributor, Lane lane,
                std::unique_ptr<Call> call, Owner& owner, Sink& sink);
  ~ReducerStream();

  const std::string& contributor() const { return contributor_; }
  const Lane& lane() const { return lane_; }

  // Records that the other end already has this result.
  void MarkHeld(uint32_t chunk, uint32_t attempt) { there_[chunk] = attempt; }
  // Sends this result unless another lane carries it, the other end has it, or this stream has
  // already sent it.
  void Offer(uint32_t chunk, uint32_t attempt);
  void Pump();  // Sends the frames that can be sent now.
  // Call this when a new plan has arrived. Handles the early frame again.
  void Resume();
  // Stops reading; queued frames are still sent.
  void Close(absl::Status status);

 private:
  void OnFrame(Frame frame);
  void OnLeaves(const v1::ContributionLeaves& leaves);
  void JudgeLeaves();
  void Judge(const v1::ContributionChunk& chunk, const SharedBytes& payload);
  void Gone();
  void Tick();

  Env env_;
  const ExchangeSettings& settings_;
  const std::string contributor_;
  const Lane lane_;
  Owner& owner_;
  Sink& sink_;

  std::unique_ptr<Call> call_;
  bool closed_ = false;
  bool gone_ = false;
  std::string leaves_;  // The leaves that have arrived, until all of them have.
  std::deque<std::pair<uint32_t, uint32_t>> todo_;  // The results to send, as (chunk, attempt).
  // For each chunk, the attempt of the result that the other end has or will get.
  std::map<uint32_t, uint32_t> there_;
  std::optional<std::pair<v1::ContributionChunk, SharedBytes>> held_;
  bool leaves_early_ = false;  // True if the leaves have arrived before their plan.
  absl::Time held_since_;
  StreamMeter meter_;
  CallbackGuard guard_;
};

// The streams of all peers that have dialled this peer. The means are sent on them.
//
// With zstd, the wire form of a mean is kept as long as the mean. The plan and the means belong to
// the exchange and must outlive this object; Resume must be called after each change of the plan.
// Used on the loop thread.
class ReducerStreams final : public ReducerStream::Owner {
 public:
  ReducerStreams(Env env, const ExchangeSettings& settings, const ChunkForm& form,
                 const ExchangePlan& plan, const OutcomeBuild& outcome, ReducerStream::Sink& sink);

  // Accepts a stream, whose Open came at `opened`. Refuses it with INVALID_ARGUMENT if the peer's
  // name or the lane is not valid, with FAILED_PRECONDITION if this peer must hold a shard but
  // lacks a mean that the other peer lacks as well, and with RESOURCE_EXHAUSTED if there are too
  // many streams. A second stream of a peer for the same lane replaces the first.
  void Accept(const v1::ExchangeOpen& open, std::unique_ptr<Call> call, absl::Time opened);
  void Refuse(std::unique_ptr<Call> call, const absl::Status& why);

  // Called when these means were dropped.
  void DropMeans(const std::vector<uint32_t>& chunks);
  // Call this when the plan has changed. Handles the early frames again, and offers all means that
  // this peer has.
  void Resume();
  // Fails with FAILED_PRECONDITION if this peer must hold a shard but lacks a mean of it. It then
  // ends all streams, so that each peer dials again, names the means that it lacks, and is refused
  // or served.
  absl::Status CheckHolding();

  // Called when the mean has arrived or was made. Keeps its wire form.
  void KeepWire(uint32_t chunk, SharedBytes wire) { wire_[chunk] = std::move(wire); }
  void Offer(uint32_t chunk, uint32_t attempt);
  void CloseOf(const std::string& contributor, const absl::Status& why);

  uint64_t held_bytes() const;

 private:
  using StreamKey = std::pair<std::string, Lane>;  // The peer that has dialled, and the lane.

  Delivery PrepareResult(const ReducerStream& stream, uint32_t chunk, uint32_t attempt) override;
  Frame ResultFrame(uint32_t chunk) const override;
  void OnGone(ReducerStream* stream) override;
  absl::Status WhyRefused(const v1::ExchangeOpen& open, const Lane& lane) const;
  absl::Status CheckHolding(const v1::ExchangeOpen* open) const;
  std::vector<uint32_t> ServedShards() const;
  void MarkWhatIsThere(const v1::ExchangeOpen& open, ReducerStream* stream) const;
  void OfferAll(ReducerStream* stream) const;
  void Compress(uint32_t chunk);

  Env env_;
  const ExchangeSettings& settings_;
  const ChunkForm form_;  // The form of means.
  const ExchangePlan& plan_;
  const OutcomeBuild& outcome_;
  ReducerStream::Sink& sink_;

  std::vector<uint32_t> served_;   // The shards that other peers get from this peer under the plan.
  std::vector<SharedBytes> wire_;  // The wire form of each mean, by chunk.
  std::set<uint32_t> compressing_;
  std::map<StreamKey, std::unique_ptr<ReducerStream>> streams_;
  Refusals refusals_;
  CallbackGuard guard_;
};

}  // namespace atolld

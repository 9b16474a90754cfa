// The accepted side of an exchange. A ReducerStream is one (contributor, reducer) pair's: the
// other's chunks or partial means come up, means go down. A relay accepts its members' streams, a
// holder everybody's. ReducerStreams are all of a peer's.
//
// A stream reads one frame at a time and hands it to the sink, whose verdict decides whether to
// read on. Results wait as numbers of chunks; at most kMaxUnsentBytes and one of them wait in the
// call. Loop thread.
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
  // Who takes what comes.
  class Sink {
   public:
    enum class Fate {
      kNext,   // taken or ignored: read on
      kEarly,  // its plan has not arrived here: wait for Resume
    };
    virtual ~Sink() = default;
    // An error closes the stream with it.
    virtual absl::StatusOr<Fate> OnContribution(const ReducerStream& stream,
                                                const v1::ContributionChunk& chunk,
                                                const SharedBytes& payload) = 0;
    // The contributor's, all of them. An error closes the stream with it.
    virtual absl::StatusOr<Fate> OnLeaves(const ReducerStream& stream,
                                          const std::string& leaves) = 0;
  };

  // Who says what there is to send.
  class Owner {
   public:
    enum class Delivery {
      kReady,
      kLater,     // the pool makes its form of the wire: Pump is called then
      kUnwanted,  // of an attempt that is over, or for this peer to get elsewhere
    };
    virtual ~Owner() = default;
    virtual Delivery PrepareResult(const ReducerStream& stream, uint32_t chunk,
                                   uint32_t attempt) = 0;
    virtual Frame ResultFrame(uint32_t chunk) const = 0;  // of one that is ready
    // The stream is over; called outside of the call's callbacks, may destroy the stream.
    virtual void OnGone(ReducerStream* stream) = 0;
  };

  ReducerStream(Env env, const ExchangeSettings& settings, std::string contributor, Lane lane,
                std::unique_ptr<Call> call, Owner& owner, Sink& sink);
  ~ReducerStream();

  const std::string& contributor() const { return contributor_; }
  const Lane& lane() const { return lane_; }

  // The other end holds this result already.
  void MarkHeld(uint32_t chunk, uint32_t attempt) { there_[chunk] = attempt; }
  // Sends this result unless another lane carries it, it is there, or was sent on this stream.
  void Offer(uint32_t chunk, uint32_t attempt);
  void Pump();  // sends what can be sent
  // A new plan has arrived: looks at the early frame again.
  void Resume();
  // No more is read; queued frames still go out.
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
  std::string leaves_;                              // until they are all here
  std::deque<std::pair<uint32_t, uint32_t>> todo_;  // (chunk, attempt) to be sent
  std::map<uint32_t, uint32_t> there_;  // attempt of the result that the other end has or gets
  std::optional<std::pair<v1::ContributionChunk, SharedBytes>> held_;
  bool leaves_early_ = false;  // they are, and their plan is not
  absl::Time held_since_;
  StreamMeter meter_;
  CallbackGuard guard_;
};

// The streams of all who have dialled this peer, and the means that they get.
//
// With zstd the wire's form of a mean is kept as long as the mean. The plan and the means are the
// exchange's: they outlive this; Resume follows each change of the plan. Loop thread.
class ReducerStreams final : public ReducerStream::Owner {
 public:
  ReducerStreams(Env env, const ExchangeSettings& settings, const ChunkForm& form,
                 const ExchangePlan& plan, const OutcomeBuild& outcome, ReducerStream::Sink& sink);

  // A stream whose Open came at `opened`. Refused: INVALID_ARGUMENT, no peer's name or no lane;
  // FAILED_PRECONDITION, this peer is to hold a shard and lacks a mean of it that the other lacks
  // too; RESOURCE_EXHAUSTED, too many. A second stream of a peer takes the place of the first.
  void Accept(const v1::ExchangeOpen& open, std::unique_ptr<Call> call, absl::Time opened);
  void Refuse(std::unique_ptr<Call> call, const absl::Status& why);

  // These means are here no more.
  void DropMeans(const std::vector<uint32_t>& chunks);
  // The plan has changed: early frames are looked at again, and all that is here is offered.
  void Resume();
  // FAILED_PRECONDITION: this peer is to hold a shard and lacks a mean of it. The streams then
  // begin anew, so that each says what it lacks and is refused or served.
  absl::Status CheckHolding();

  // The mean is here; what it came as, or was made as, is its form of the wire.
  void KeepWire(uint32_t chunk, SharedBytes wire) { wire_[chunk] = std::move(wire); }
  void Offer(uint32_t chunk, uint32_t attempt);
  void CloseOf(const std::string& contributor, const absl::Status& why);

  uint64_t held_bytes() const;

 private:
  using StreamKey = std::pair<std::string, Lane>;  // who dialled first

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
  const ChunkForm form_;  // of means
  const ExchangePlan& plan_;
  const OutcomeBuild& outcome_;
  ReducerStream::Sink& sink_;

  std::vector<uint32_t> served_;   // shards whose means somebody gets from here, by the plan
  std::vector<SharedBytes> wire_;  // by chunk
  std::set<uint32_t> compressing_;
  std::map<StreamKey, std::unique_ptr<ReducerStream>> streams_;
  Refusals refusals_;
  CallbackGuard guard_;
};

}  // namespace atolld

// ReducerStream: the accepted side of one (contributor, reducer) pair: the other's chunks or
// partial means come up, means go down. A relay accepts its members' streams, a holder everybody's.
//
// Reads one frame at a time and hands it to the owner, whose verdict decides whether to read on.
// Results wait as numbers of chunks; at most kMaxUnsentBytes and one of them wait in the call. Loop
// thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "atoll/v1/exchange.pb.h"
#include "daemon/env/env.h"
#include "daemon/exchange/exchange.h"
#include "daemon/exchange/lane.h"
#include "daemon/exchange/stream_meter.h"

namespace atolld {

class ReducerStream {
 public:
  class Owner {
   public:
    enum class Fate {
      kNext,   // taken or ignored: read on
      kEarly,  // its plan has not arrived here: wait for Resume
    };
    virtual ~Owner() = default;
    // An error closes the stream with it.
    virtual absl::StatusOr<Fate> OnContribution(const ReducerStream& stream,
                                                const v1::ContributionChunk& chunk,
                                                const SharedBytes& payload) = 0;
    // The contributor's, all of them. An error closes the stream with it.
    virtual absl::Status OnLeaves(const ReducerStream& stream, std::string leaves) = 0;
    enum class Delivery {
      kReady,
      kLater,     // the pool makes its form of the wire: Pump is called then
      kUnwanted,  // of an attempt that is over, or for this peer to get elsewhere
    };
    virtual Delivery PrepareResult(const ReducerStream& stream, uint32_t chunk,
                                   uint32_t attempt) = 0;
    virtual Frame ResultFrame(uint32_t chunk) const = 0;  // of one that is ready
    // The stream is over; called outside of the call's callbacks, may destroy the stream.
    virtual void OnGone(ReducerStream* stream) = 0;
  };

  ReducerStream(Env env, const ExchangeSettings& settings, std::string contributor, Lane lane,
                std::unique_ptr<Call> call, Owner& owner);
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
  void Judge(const v1::ContributionChunk& chunk, const SharedBytes& payload);
  void Gone();
  void Tick();

  Env env_;
  const ExchangeSettings& settings_;
  const std::string contributor_;
  const Lane lane_;
  Owner& owner_;

  std::unique_ptr<Call> call_;
  bool closed_ = false;
  bool gone_ = false;
  std::string leaves_;                              // until they are all here
  std::deque<std::pair<uint32_t, uint32_t>> todo_;  // (chunk, attempt) to be sent
  std::map<uint32_t, uint32_t> there_;  // attempt of the result that the other end has or gets
  std::optional<std::pair<v1::ContributionChunk, SharedBytes>> held_;
  absl::Time held_since_;
  StreamMeter meter_;
  CallbackGuard guard_;
};

}  // namespace atolld

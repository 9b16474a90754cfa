// The dialling side of an exchange. A ContributorStream belongs to one (contributor, reducer) pair:
// it sends the peer's own chunks or partial means, and receives means. For its members a relay
// counts as a reducer; a holder only sends means. ContributorStreams holds all such streams of a
// peer.
//
// Every new call begins with an Open that names the results that this peer already has. Then come
// the leaves, against which own chunks are checked, and the chunks without a result. So a broken
// call costs a repetition but never a hang. At most kMaxUnsentBytes and one chunk wait in the call,
// and the SendWindow limits how far chunks run ahead of their means. OnUnreachable is called, and
// dialling continues, if there is no progress for failure_timeout, if dials are refused for min(500
// ms, failure_timeout / 4) or get no answer for failure_timeout / 4, or if the reducer refuses. The
// class ContributorStream has more than twenty members because it keeps the state of the present
// call, of the dials that failed before it, and of the plan that outlives both. Used on the loop
// thread.
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
#include "absl/strings/string_view.h"
#include "atoll/v1/exchange.pb.h"
#include "compression/base/bytes.h"
#include "daemon/env/env.h"
#include "daemon/exchange/chunk_work.h"
#include "daemon/exchange/contribution.h"
#include "daemon/exchange/exchange_plan.h"
#include "daemon/exchange/exchange_settings.h"
#include "daemon/exchange/outcome.h"
#include "daemon/exchange/stream_flow.h"

namespace atolld {

class ContributorStream {
 public:
  enum class Sends { kNothing, kOwnChunk, kPartialMean };
  struct Chunk {
    uint32_t chunk;
    uint32_t attempt;
    Sends sends;
  };

  // Provides the data to send, and judges the data that is received.
  class Owner {
   public:
    enum class Fate {
      kWanted,
      kUnwanted,    // Already received, or from an attempt that has ended.
      kEarly,       // Sent under a plan that this peer does not have yet.
      kPassedOver,  // Right by an older plan; by this plan another peer sends it.
      kBad,         // No honest reducer would send it.
    };
    virtual ~Owner() = default;
    virtual v1::ExchangeOpen MakeOpen() = 0;
    virtual bool HasResult(uint32_t chunk) const = 0;
    // Returns the leaves of this peer's contribution, if it has one.
    virtual absl::string_view Leaves() const = 0;
    // Returns true if this stream may send more although it has sent this share of its chunks.
    // Otherwise calls Pump when it may.
    virtual bool MayGo(const ContributorStream& stream, double share) = 0;
    // Called when Reach() has changed.
    virtual void OnReach(const ContributorStream& stream) = 0;
    // Returns false if the chunk is not ready. Pump is then called when the pool has made its wire
    // form, or Offer when its partial mean was made.
    virtual bool PrepareContribution(const Chunk& chunk) = 0;
    // Returns the frame of a prepared chunk. To send it again, it must be prepared again.
    virtual Frame TakeContributionFrame(const Chunk& chunk) = 0;
    virtual Fate Judge(const std::string& reducer, const v1::ResultChunk& result) const = 0;
    // Returns the place in the payload for the chunk's mean, if the mean may be written to it now.
    virtual std::optional<FreshBytes> ClaimPlace(uint32_t chunk) = 0;
  };

  // Receives the stream's results.
  class Sink {
   public:
    virtual ~Sink() = default;
    // `wire` is the wire form of `mean` if it differs from the encoded bytes (with zstd).
    virtual void OnResult(const v1::ResultChunk& result, MeasuredChunk mean,
                          const ByteParts& wire) = 0;
    virtual void OnUnreachable(const std::string& reducer, absl::Status why) = 0;
  };

  // `number` must be unique among the streams of the owner.
  ContributorStream(Env env, const ExchangeSettings& settings, uint64_t number, std::string reducer,
                    Lane lane, Owner& owner, Sink& sink);
  ~ContributorStream();

  uint64_t number() const { return number_; }

  // Sets the chunks to send and to receive under the newest revision, in ascending order.
  void Assign(const std::string& address, std::vector<Chunk> chunks);
  void Offer(uint32_t chunk);  // Called when the chunk's partial mean was made.
  // Called when the mean has arrived, from any peer. Pump must follow.
  void OnMean(uint32_t chunk);
  void Pump();  // Sends the frames that can be sent now.

  // Returns the share of its chunks that this stream's window lets it send, beyond which the other
  // streams should not send; StreamPace::kFree if it sends nothing.
  double Reach() const;
  // True if no mean has come for so long that no stream should wait for this one.
  bool Stalls() const { return window_.Stalls(env_.executor.Now()); }

 private:
  void Dial();
  void RedialLater();
  void PlanSends();
  void SendLeaves();
  double SentShare() const;
  void PumpLater();
  bool Sent(const Chunk& chunk) const;
  bool Settled(const Chunk& chunk) const;
  void OnFrame(Frame frame);
  void OnResult(v1::ResultChunk result, ByteParts payload);
  void Verify(v1::ResultChunk result, ByteParts payload);
  void OnVerified(const v1::ResultChunk& result, const absl::StatusOr<MeasuredChunk>& mean,
                  const ByteParts& wire);
  void OnClosed(absl::Status status);
  void NoteRefusedDial(const absl::Status& status);
  void NoteSilentDial();
  void Drop();  // Drops the call.
  void Unreachable(absl::Status why);
  void Tick();
  bool Needed() const;
  void Next();

  Env env_;
  const ExchangeSettings& settings_;
  const ChunkForm form_;  // The form of means.
  const uint64_t number_;
  const std::string reducer_;
  const Lane lane_;
  Owner& owner_;
  Sink& sink_;

  std::string address_;
  std::vector<Chunk> chunks_;
  std::unique_ptr<Call> call_;
  uint64_t calls_ = 0;              // Used to recognise callbacks of earlier calls.
  std::deque<Chunk> todo_;          // The chunks to send on this call, in ascending order.
  size_t sends_ = 0;                // How many of `chunks_` this peer sends.
  std::map<uint32_t, Chunk> sent_;  // The chunks sent on this call.
  bool leaves_sent_ = false;        // True if the leaves were sent on this call.
  bool passed_over_ = false;  // True if a result was ignored on this call that may be wanted later.
  std::optional<std::pair<v1::ResultChunk, ByteParts>>
      held_;  // An early result; nothing is read while it waits.
  absl::Time held_since_;
  // The results of this call that are being verified; reading stops at kChunksAhead.
  size_t verifying_ = 0;
  SendWindow window_;
  bool pumping_later_ = false;
  StreamMeter meter_;
  absl::Time last_good_;
  absl::Duration backoff_;
  bool redialling_ = false;
  bool refused_before_ = false;
  bool connected_ = false;  // True if this call has sent or received data.
  absl::Time refused_since_ = absl::InfiniteFuture();  // Every dial was refused since then.
  absl::Time dialled_at_;                              // The time at which this call was dialled.
  bool refusal_told_ = false;  // True if a refusal was reported under this plan.
  CallbackGuard guard_;
};

// The streams to all peers that this peer dials under its plan: the reducers, relays and holders of
// its chunks. It sends its own chunks on these streams and, as a relay, its members' partial means.
//
// A partial mean is kept until its result has arrived, so that it is encoded once; with zstd, the
// wire form of an own chunk is kept until it is sent. The plan, the means and the contribution
// (nullptr if there is none) belong to the exchange and must outlive this object; Assign must be
// called after each change of the plan. Used on the loop thread.
class ContributorStreams final : public ContributorStream::Owner {
 public:
  ContributorStreams(Env env, const ExchangeSettings& settings, const ChunkForm& form,
                     std::shared_ptr<const Contribution> contribution, const ExchangePlan& plan,
                     OutcomeBuild& outcome, ContributorStream::Sink& sink);

  bool contributes() const;  // Returns true if this peer contributes under the plan.

  // Forgets partial means that have no place under the next plan.
  void DropStale(const ExchangePlan& next);
  // Makes and ends streams, and assigns to each the chunks to send and to receive.
  void Assign();

  // Called on a relay. Sends a partial mean to the shard's reducer.
  void SendPartial(uint32_t chunk, uint32_t attempt, SharedBytes wire, std::string contributors);
  void OnMean(uint32_t chunk);  // Called when the mean has arrived, from any peer.

  uint64_t held_bytes() const;
  // The number of streams examined so far.
  uint64_t looked_at() const { return pace_.looked_at(); }

 private:
  using StreamKey = std::pair<std::string, Lane>;  // The dialled peer, and the lane.

  v1::ExchangeOpen MakeOpen() override;
  bool HasResult(uint32_t chunk) const override { return outcome_.Has(chunk); }
  absl::string_view Leaves() const override { return contribution_->leaves; }
  bool MayGo(const ContributorStream& stream, double share) override;
  void OnReach(const ContributorStream& stream) override;
  bool PrepareContribution(const ContributorStream::Chunk& chunk) override;
  Frame TakeContributionFrame(const ContributorStream::Chunk& chunk) override;
  Fate Judge(const std::string& from, const v1::ResultChunk& result) const override;
  std::optional<FreshBytes> ClaimPlace(uint32_t chunk) override { return outcome_.Claim(chunk); }
  std::map<StreamKey, std::vector<ContributorStream::Chunk>> Assignments() const;
  void CompressOwnChunk(uint32_t chunk);
  void PumpCarriers(uint32_t chunk);
  void PumpFree();
  bool Stalls(uint64_t number) const { return by_number_.at(number)->Stalls(); }

  struct Partial {
    uint32_t attempt;
    SharedBytes wire;
    std::string contributors;
  };

  Env env_;
  const ExchangeSettings& settings_;
  const ChunkForm form_;  // The form of contributions.
  const std::shared_ptr<const Contribution> contribution_;
  const ExchangePlan& plan_;
  OutcomeBuild& outcome_;
  ContributorStream::Sink& sink_;

  std::map<uint32_t, Partial> partials_;
  std::vector<SharedBytes> own_wire_;
  std::set<uint32_t> compressing_;
  std::map<StreamKey, std::unique_ptr<ContributorStream>> streams_;
  uint64_t made_ = 0;  // The number of streams made so far.
  std::map<uint64_t, ContributorStream*> by_number_;
  // The streams that carry each chunk: one or two.
  std::vector<std::vector<ContributorStream*>> carriers_;
  StreamPace pace_;
  bool pumping_ = false;  // True while free streams are pumped or the plan is assigned.
  CallbackGuard guard_;
};

}  // namespace atolld

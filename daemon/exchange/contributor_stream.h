// The dialled side of an exchange. A ContributorStream is one (contributor, reducer) pair's: own
// chunks or partial means go up, means come down. To its members a relay is a reducer; from a
// holder means come alone. ContributorStreams are all of a peer's.
//
// Every new call begins with an Open that says which results are here, then resends the chunks
// whose results are not, own ones behind the leaves that they are held against: a break costs a
// repeat, never a hang. At most kMaxUnsentBytes and one chunk wait in the call, and its chunks run
// ahead of their means as far as the SendWindow allows. Without progress for failure_timeout, when
// dials are refused for min(500 ms, failure_timeout / 4), or when the reducer refuses, the sink is
// told, and dialling goes on. Loop thread.
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

  // Who says what there is to send, and judges what comes.
  class Owner {
   public:
    enum class Fate {
      kWanted,
      kUnwanted,    // here already, or of an attempt that is over
      kEarly,       // by a plan that has not been announced here
      kPassedOver,  // rightly sent by an older plan; by this one it comes from elsewhere
      kBad,         // no honest reducer sends it
    };
    virtual ~Owner() = default;
    virtual v1::ExchangeOpen MakeOpen() = 0;
    virtual bool HasResult(uint32_t chunk) const = 0;
    virtual absl::string_view Leaves() const = 0;  // of the own contribution, if there is one
    // Whether the other streams let this one send beyond this share of its chunks. False: Pump is
    // called when they do.
    virtual bool MayGo(const ContributorStream& stream, double share) = 0;
    virtual void OnReach(const ContributorStream& stream) = 0;  // it has changed
    // False: the pool makes its form of the wire, Pump is called then; or the partial mean is not
    // there yet, Offer is called then.
    virtual bool PrepareContribution(const Chunk& chunk) = 0;
    // Of one that is prepared; to send it again it has to be prepared again.
    virtual Frame TakeContributionFrame(const Chunk& chunk) = 0;
    virtual Fate Judge(const std::string& reducer, const v1::ResultChunk& result) const = 0;
    // Where it is to lie, if it may be written there now.
    virtual std::optional<FreshBytes> ClaimPlace(uint32_t chunk) = 0;
  };

  // Who takes what comes of it.
  class Sink {
   public:
    virtual ~Sink() = default;
    // `wire` is what `mean` came as where that is another form, with zstd.
    virtual void OnResult(const v1::ResultChunk& result, MeasuredChunk mean,
                          const ByteParts& wire) = 0;
    virtual void OnUnreachable(const std::string& reducer, absl::Status why) = 0;
  };

  // `number`: another one for each stream of the owner.
  ContributorStream(Env env, const ExchangeSettings& settings, uint64_t number, std::string reducer,
                    Lane lane, Owner& owner, Sink& sink);
  ~ContributorStream();

  uint64_t number() const { return number_; }

  // What there is to send and to receive under the newest revision, ascending.
  void Assign(const std::string& address, std::vector<Chunk> chunks);
  void Offer(uint32_t chunk);   // its partial mean is there
  void OnMean(uint32_t chunk);  // it is here, from wherever it came; Pump follows
  void Pump();                  // sends what can be sent

  // Up to which share of their chunks the other streams ought to send, for this one to stay in
  // step with them: the share that its own window lets it send. StreamPace::kFree if it sends
  // nothing.
  double Reach() const;
  // No mean has come for so long that nobody ought to wait for it.
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
  void Drop();  // the call
  void Unreachable(absl::Status why);
  void Tick();
  bool Needed() const;
  void Next();

  Env env_;
  const ExchangeSettings& settings_;
  const ChunkForm form_;  // of means
  const uint64_t number_;
  const std::string reducer_;
  const Lane lane_;
  Owner& owner_;
  Sink& sink_;

  std::string address_;
  std::vector<Chunk> chunks_;
  std::unique_ptr<Call> call_;
  uint64_t calls_ = 0;              // tells callbacks of a former call apart
  std::deque<Chunk> todo_;          // to be sent on this call, ascending
  std::map<uint32_t, Chunk> sent_;  // on this call
  bool leaves_sent_ = false;        // on this call
  bool passed_over_ = false;        // a result on this call, which may yet be wanted from here
  std::optional<std::pair<v1::ResultChunk, ByteParts>>
      held_;  // an early result; nothing is read meanwhile
  absl::Time held_since_;
  size_t verifying_ = 0;  // results of this call; at kChunksAhead nothing is read
  SendWindow window_;
  bool pumping_later_ = false;
  StreamMeter meter_;
  absl::Time last_good_;
  absl::Duration backoff_;
  bool redialling_ = false;
  bool refused_before_ = false;
  bool connected_ = false;  // this call: something was written or has come
  absl::Time refused_since_ = absl::InfiniteFuture();  // every dial
  bool refusal_told_ = false;                          // under this plan
  CallbackGuard guard_;
};

// The streams to all whom this peer dials under its plan: the reducers, relays and holders of its
// chunks; and what it sends on them: own chunks, and as a relay its members' partial means.
//
// A partial mean is kept until its result is here, so that it is encoded once; with zstd the wire's
// form of an own chunk while it is about to be sent. The plan, the means and the contribution
// (nullptr: none) are the exchange's: they outlive this, and Assign follows each change of the
// plan. Loop thread.
class ContributorStreams final : public ContributorStream::Owner {
 public:
  ContributorStreams(Env env, const ExchangeSettings& settings, const ChunkForm& form,
                     std::shared_ptr<const Contribution> contribution, const ExchangePlan& plan,
                     OutcomeBuild& outcome, ContributorStream::Sink& sink);

  bool contributes() const;  // under the plan

  // Forgets partial means that have no place under the next plan.
  void DropStale(const ExchangePlan& next);
  // Makes and ends streams, and tells each what there is to send and to receive.
  void Assign();

  // As a relay: to be sent to the shard's reducer.
  void SendPartial(uint32_t chunk, uint32_t attempt, SharedBytes wire, std::string contributors);
  void OnMean(uint32_t chunk);  // it is here, from wherever it came

  uint64_t held_bytes() const;
  uint64_t looked_at() const { return pace_.looked_at(); }  // streams, so far

 private:
  using StreamKey = std::pair<std::string, Lane>;  // who is dialled first

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
  const ChunkForm form_;  // of contributions
  const std::shared_ptr<const Contribution> contribution_;
  const ExchangePlan& plan_;
  OutcomeBuild& outcome_;
  ContributorStream::Sink& sink_;

  std::map<uint32_t, Partial> partials_;
  std::vector<SharedBytes> own_wire_;
  std::set<uint32_t> compressing_;
  std::map<StreamKey, std::unique_ptr<ContributorStream>> streams_;
  uint64_t made_ = 0;  // streams
  std::map<uint64_t, ContributorStream*> by_number_;
  std::vector<std::vector<ContributorStream*>> carriers_;  // by chunk: one or two
  StreamPace pace_;
  bool pumping_ = false;  // those that wait no more, or not yet: the plan is being assigned
  CallbackGuard guard_;
};

}  // namespace atolld

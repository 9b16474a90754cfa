// RoundExchange: a peer's part in the exchanges of the rounds, from a plan to the vote.
//
// With it go PartnerWaker, which wakes the connections before an exchange, and StopWatch, so that
// nobody is blamed for what this process itself has missed. Loop thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/worker.pb.h"
#include "compression/wire_codec.h"
#include "daemon/env/env.h"
#include "daemon/exchange/exchange.h"
#include "daemon/exchange/exchange_plan.h"
#include "daemon/exchange/mean_audit.h"
#include "daemon/exchange/wake.h"
#include "daemon/peer/own_update.h"
#include "daemon/peer/replica_keeper.h"
#include "membership/planning/arrival_log.h"

namespace atolld {

// Notices that this process itself was stopped for a while (a closed lid, SIGSTOP, a
// debugger), so that it does not blame others for its own silence.
//
// Somebody ticks it often; a tick that comes much too late, or none when one was long due, says
// that nothing ran here. Pure state; one thread.
class StopWatch {
 public:
  // A gap of `longest` or more between two ticks is a stop; after one, all that is due may be stale
  // for as long again.
  explicit StopWatch(absl::Duration longest) : longest_(longest) {}

  void SetLongest(absl::Duration longest) { longest_ = longest; }

  void Tick(absl::Time now) {
    if (last_ != absl::InfinitePast() && now - last_ >= longest_) stopped_ = now;
    last_ = now;
  }

  // Whether this process was stopped, or went on so short a while ago that what has run out here
  // says nothing of others.
  bool JustStopped(absl::Time now) const {
    return (last_ != absl::InfinitePast() && now - last_ >= longest_) || now - stopped_ < longest_;
  }

 private:
  absl::Duration longest_;
  absl::Time last_ = absl::InfinitePast();
  absl::Time stopped_ = absl::InfinitePast();
};

// When a peer wakes the connections of its next exchange (daemon/exchange/wake.h).
//
// They are taken to be those that it dialled in the last one. Once in the last half second
// of its training, by the worker's progress; then every two seconds while its update waits for a
// plan, for a minute at most: a run that is paused needs no traffic. It sends little beside what
// the exchange will: a line on which 4 KiB are long carries small vectors.
class PartnerWaker {
 public:
  explicit PartnerWaker(Env env) : env_(env), calls_(env, absl::Seconds(10)) {}

  // `values`: of the vector that is exchanged.
  void OnPlan(const ExchangePlan& plan, uint64_t values, const std::string& self, uint32_t lanes);
  // It begins, or goes on beside an exchange that has ended and began then.
  void OnTraining(std::optional<absl::Time> began = std::nullopt);
  void OnProgress(const v1::WorkerProgress& progress);
  void OnWaiting();  // the update is there, or will be at once; any number of times

  void Accept(std::unique_ptr<Call> call) { calls_.Accept(std::move(call)); }  // another's

 private:
  enum class Phase { kTraining, kWaiting, kExchanging };
  void Wake();
  void WakeWhileWaiting();

  const Env env_;
  WakeCalls calls_;

  std::set<std::string> addresses_;  // of the newest plan
  size_t bytes_ = 0;                 // to each
  uint32_t lanes_ = 1;
  Phase phase_ = Phase::kExchanging;
  absl::Time began_;  // training
  absl::Time woken_ = absl::InfinitePast();
  int waited_ = 0;  // times
  Executor::TimerId timer_ = 0;
  CallbackGuard guard_;
};

// A peer's part in the exchange of one entry: its two ends of the streams, its vote, what it tells
// the coordinator meanwhile.
//
// Laws: it takes part only with the update that the plan names; a vote is cast only for a payload
// that is durable here, and repeated until the entry is committed; a plan never goes back. In an
// exchange its outputs come in this order: on_busy(true), the shards that are held here, the vote,
// on_busy(false).
class RoundExchange {
 public:
  struct Events {
    std::function<void(const v1::PeerMessage&)> send;  // to the coordinator, if there is one now
    std::function<void(bool)> on_busy;                 // the exchange has begun (true), or ended
    // Of a run with masks: what an exchange has come to is a sum that nobody can read, by the plan
    // of that revision. Once its masks are off it comes back by Decide.
    std::function<void(ExchangeOutcome, const ExchangePlan&)> on_masked_sum = nullptr;
  };

  // `keeper` and `own` outlive it.
  RoundExchange(Env env, std::string self, ReplicaKeeper& keeper, const OwnUpdate& own,
                Events events);
  ~RoundExchange();

  // At each Session. An exchange of an earlier epoch ends: its coordinator's successor begins it
  // again.
  void Follow(const v1::RunSpec& spec, uint64_t epoch, absl::Duration failure_timeout);
  // What the coordinator may have missed while the Session was down.
  void Repeat();
  void SetLanes(uint32_t lanes) { lanes_ = lanes; }  // ExchangeSettings::lanes

  // A plan for the entry after the replica's version: the exchange begins, or goes on under a newer
  // revision. An error: no honest coordinator sends it.
  absl::Status OnPlan(const v1::Plan& plan);
  void OnAudit(const v1::Audit& order);
  void OnDigest();  // of the newest state: a vote may have waited for it
  // What is to be voted for. Of another revision than the newest: nothing.
  void Decide(ExchangeOutcome outcome);
  void End();    // if the replica has reached its version
  void Leave();  // whatever it has come to: it is void
  bool under_way() const { return exchange_ != nullptr; }

  bool Accept(const std::string& method, std::unique_ptr<Call>* call);  // false: of no method here
  PartnerWaker& waker() { return waker_; }
  // A few times a failure_timeout: how this peer notices that it was stopped itself.
  void Tick() { stop_watch_.Tick(env_.executor.Now()); }
  const TrafficCount& traffic() const { return traffic_; }  // of all exchanges

 private:
  void Start(const v1::Plan& plan);
  ExchangeSettings Settings();
  Exchange::Events Hears();
  void OnShardsHeld(const std::vector<std::pair<uint32_t, uint32_t>>& shards);
  void OnOutcome(ExchangeOutcome outcome);
  void SendVote();
  void OnReducerUnreachable(const std::string& reducer, const absl::Status& why);

  const Env env_;
  const std::string self_;
  ReplicaKeeper& keeper_;
  const OwnUpdate& own_;
  const Events events_;

  v1::RunSpec spec_;
  LevelCodecs codecs_;
  uint64_t epoch_ = 0;
  absl::Duration failure_timeout_ = absl::Seconds(10);
  uint32_t lanes_ = 1;
  std::unique_ptr<ExchangeServer> server_;  // nullptr: it follows no run
  std::unique_ptr<Exchange> exchange_;      // nullptr: none is under way
  InputsServer inputs_;
  PartnerWaker waker_;
  ExchangePlan plan_;      // newest of the exchange, and
  uint32_t revision_ = 0;  // its revision
  absl::Time began_;
  std::vector<v1::PeerMessage> held_;       // shards told as held in this exchange
  std::optional<ExchangeOutcome> outcome_;  // complete, and to be voted for once the state's digest
                                            // is there
  std::optional<v1::Vote> vote_;            // cast for what is prepared
  TrafficCount traffic_;
  ArrivalLog arrivals_;  // of exchange_
  StopWatch stop_watch_{absl::Seconds(10)};
  CallbackGuard guard_;
};

}  // namespace atolld

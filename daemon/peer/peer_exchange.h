// PeerExchange: a peer's part in the exchanges of the rounds, from a plan to the vote.
//
// The header also has PartnerWaker, which wakes the connections before an exchange, and StopWatch,
// which notices if this process was stopped for a while, so that it does not blame other peers for
// that. Used on the loop thread.
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

// Notices that this process was stopped for a while (a closed lid, SIGSTOP, a debugger), so that it
// does not blame others for its own silence.
//
// Tick must be called often. A tick that comes much too late, or is long overdue, shows that this
// process did not run. Pure. Used by one thread.
class StopWatch {
 public:
  // A gap of `longest` or more between two ticks counts as a stop. Timeouts that expire within
  // `longest` after a stop may be stale.
  explicit StopWatch(absl::Duration longest) : longest_(longest) {}

  void SetLongest(absl::Duration longest) { longest_ = longest; }

  void Tick(absl::Time now) {
    if (last_ != absl::InfinitePast() && now - last_ >= longest_) stopped_ = now;
    last_ = now;
  }

  // Returns true if this process was stopped, and continued so recently that an expired timeout
  // says nothing about other peers.
  bool JustStopped(absl::Time now) const {
    return (last_ != absl::InfinitePast() && now - last_ >= longest_) || now - stopped_ < longest_;
  }

 private:
  absl::Duration longest_;
  absl::Time last_ = absl::InfinitePast();
  absl::Time stopped_ = absl::InfinitePast();
};

// Decides when a peer wakes the connections of its next exchange (daemon/exchange/wake.h).
//
// PartnerWaker assumes that the next exchange uses the connections that the last one dialled. It
// wakes them once in the last half second of the training, judged by the worker's progress, and
// then every two seconds while the update waits for a plan. It stops after a minute, since a run
// that is paused needs no traffic. A wake-up call is small compared with the exchange, since a run
// over slow lines has small vectors.
class PartnerWaker {
 public:
  // Called with the result of each wake-up call. May be null.
  using Heard = std::function<void(const std::string& address, const absl::Status&)>;

  explicit PartnerWaker(Env env, Heard heard = nullptr)
      : env_(env), heard_(std::move(heard)), calls_(env, absl::Seconds(10)) {}

  void SetPatience(absl::Duration patience) { calls_.SetPatience(patience); }
  const std::set<std::string>& addresses() const { return addresses_; }

  // `values` is the length of the vector that is exchanged.
  void OnPlan(const ExchangePlan& plan, uint64_t values, const std::string& self, uint32_t lanes);
  // Called when a training begins, or with the time at which it began if it ran beside an exchange
  // that has now ended.
  void OnTraining(std::optional<absl::Time> began = std::nullopt);
  void OnProgress(const v1::WorkerProgress& progress);
  // Called when the update is ready or about to be ready; may be called repeatedly.
  void OnWaiting();

  // Accepts a wake-up call of another peer.
  void Accept(std::unique_ptr<Call> call) { calls_.Accept(std::move(call)); }

 private:
  enum class Phase { kTraining, kWaiting, kExchanging };
  void Wake();
  void WakeWhileWaiting();

  const Env env_;
  const Heard heard_;
  WakeCalls calls_;

  std::set<std::string> addresses_;  // The addresses that the newest plan dials.
  size_t bytes_ = 0;                 // The bytes that are sent to each address.
  uint32_t lanes_ = 1;
  Phase phase_ = Phase::kExchanging;
  absl::Time began_;  // The time at which the training began.
  absl::Time woken_ = absl::InfinitePast();
  int waited_ = 0;  // The number of times that the connections were woken while the update waited.
  Executor::TimerId timer_ = 0;
  CallbackGuard guard_;
};

// A peer's part in the exchange of one entry: its streams, both dialled and accepted, its vote, and
// its reports to the coordinator.
//
// Laws: it takes part only with the update that the plan names; a vote is cast only for a payload
// that is durable on this peer, and is repeated until the entry is committed; an older plan never
// replaces a newer one. In an exchange its outputs come in this order: on_busy(true), the reports
// of shards that this peer holds, the vote, on_busy(false). The class has more than twenty members
// because it keeps what outlives an exchange, and also the plan, the outcome and the vote of the
// exchange under way.
class PeerExchange {
 public:
  struct Events {
    // Sends to the coordinator; does nothing if none is connected.
    std::function<void(const v1::PeerMessage&)> send;
    // Called with true when the exchange begins, and with false when it ends.
    std::function<void(bool)> on_busy;
    // Called, in a run with masks, when an exchange has ended with a sum that is still masked, with
    // the plan of the outcome's revision. Once the masks are removed, the caller passes the outcome
    // to Decide.
    std::function<void(ExchangeOutcome, const ExchangePlan&)> on_masked_sum = nullptr;
    PartnerWaker::Heard on_woken = nullptr;  // Called for each partner that was woken.
    // Called when a reducer's stream became silent or a dial got no answer, before this is reported
    // to the coordinator.
    std::function<void(const std::string& peer, const absl::Status&)> on_silent = nullptr;
    // Called when the coordinator has given an exchange up, with the addresses that were dialled in
    // it.
    std::function<void(const std::set<std::string>& addresses)> on_given_up = nullptr;
  };

  // `keeper` and `own` must outlive this object.
  PeerExchange(Env env, std::string self, ReplicaKeeper& keeper, const OwnUpdate& own,
               Events events);
  ~PeerExchange();

  // Called at the start of each Session. Ends an exchange of an earlier epoch, because the new
  // coordinator begins the exchange again.
  void Follow(const v1::RunSpec& spec, uint64_t epoch, absl::Duration failure_timeout);
  // Sends again what the coordinator may have missed while the Session was down.
  void Repeat();
  void SetLanes(uint32_t lanes) { lanes_ = lanes; }  // See ExchangeSettings::lanes.

  // Called with a plan for the entry after the replica's version. Begins the exchange, or continues
  // it under a newer revision. Fails if no honest coordinator would send the plan.
  absl::Status OnPlan(const v1::Plan& plan);
  void OnAudit(const v1::Audit& order);
  // Called when the newest state's digest is known, for which a vote may have waited.
  void OnDigest();
  // Sets the outcome that this peer votes for. Does nothing if the outcome's revision is not the
  // newest.
  void Decide(ExchangeOutcome outcome);
  void End();    // Ends the exchange if the replica has reached the version of its entry.
  void Leave();  // Ends the exchange without a result.
  bool under_way() const { return exchange_ != nullptr; }

  // Takes an incoming call of an exchange. Returns false if the method is not one of an exchange.
  bool Accept(const std::string& method, std::unique_ptr<Call>* call);
  PartnerWaker& waker() { return waker_; }
  // Must be called several times in each failure_timeout, so that this peer notices if its process
  // was stopped.
  void Tick() { stop_watch_.Tick(env_.executor.Now()); }
  const TrafficCount& traffic() const { return traffic_; }  // The traffic of all exchanges.

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
  std::unique_ptr<ExchangeServer> server_;  // Nullptr until a run is followed.
  std::unique_ptr<Exchange> exchange_;      // Nullptr if no exchange is under way.
  InputsServer inputs_;
  PartnerWaker waker_;
  ExchangePlan plan_;      // The newest plan of the exchange.
  uint32_t revision_ = 0;  // The revision of plan_.
  absl::Time began_;
  std::vector<v1::PeerMessage> held_;  // The reports of shards held in this exchange.
  // The complete outcome, which waits for the state's digest before it is voted for.
  std::optional<ExchangeOutcome> outcome_;
  std::optional<v1::Vote> vote_;  // The vote that was cast for the prepared payload.
  TrafficCount traffic_;
  ArrivalLog arrivals_;  // The arrivals of the exchange under way.
  StopWatch stop_watch_{absl::Seconds(10)};
  CallbackGuard guard_;
};

}  // namespace atolld

// RoundRunner: a peer's part in the rounds - training, the encoded contribution, the exchange, the
// vote.
//
// Laws: a contribution is encoded once and those bytes stand until a commit says whether they were
// included; the residual changes at a commit alone; a vote is cast only for a payload that is
// durable here; a Train replaces whatever ran before. A round lost with the coordinator is offered
// again to its successor. Loop thread; encoding runs on the keeper's queue, so that theta does not
// move under it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/worker.pb.h"
#include "daemon/env/env.h"
#include "daemon/exchange/exchange.h"
#include "daemon/exchange/exchange_plan.h"
#include "daemon/exchange/exchange_server.h"
#include "daemon/exchange/inputs.h"
#include "daemon/peer/partner_waker.h"
#include "daemon/peer/replica_keeper.h"
#include "daemon/peer/residual_keeping.h"
#include "daemon/peer/stop_watch.h"
#include "daemon/peer/update_measure.h"
#include "daemon/peer/worker.h"

namespace atolld {

class RoundRunner {
 public:
  struct Events {
    std::function<void(const v1::PeerMessage&)> send;  // to the coordinator, if there is one now
    std::function<void()> on_idle;                 // nothing of this peer is in a round any more
    std::function<void(bool)> on_busy;             // its exchange has begun (true), or ended
    std::function<void()> on_update_lost;          // that it had told of: Hello must be said again
    std::function<void(absl::Status)> on_refused;  // a plan that came early, by OnPlan
    std::function<void(v1::Ready*)> sign;
  };

  RoundRunner(Env env, std::string self, ReplicaKeeper& keeper, Worker& trainer, Events events);
  ~RoundRunner();

  // The coordinator: its run and epoch (repeated at each Session), and its messages.
  void Follow(const v1::RunSpec& spec, uint64_t epoch, absl::Duration failure_timeout);
  void SetLanes(uint32_t lanes) { lanes_ = lanes; }  // ExchangeSettings::lanes
  void OnSessionDown();
  void OnTrain(const v1::Train& train);
  absl::Status OnPlan(const v1::Plan& plan);  // an error: no honest coordinator sends it
  void OnAudit(const v1::Audit& order);
  void OnEvaluate(const v1::Evaluate& evaluate);

  void OnWorkerReady();
  void OnWorkerLost();
  void OnBoundary(const v1::Boundary& boundary);
  void OnProgress(const v1::WorkerProgress& progress);
  void OnEvaluated(const v1::WorkerEvaluated& evaluated);

  void OnSkipped(const v1::EntryHeader& header);  // by a snapshot; OnOpened follows
  void OnOpened();
  void OnCommitted(const v1::EntryHeader& header);
  void OnDigest();

  // The residual, beside the replica in `dir`. Load: blocking, before the loop runs, once a replica
  // was loaded. Save: what is newer than on the disk, then `done`.
  void LoadResidual(const std::string& dir);
  void KeepResidualIn(const std::string& dir) { kept_.dir = dir; }
  void SaveResidual(Task done);

  // A few times a failure_timeout: how this peer notices that it was stopped itself.
  void Tick() { stop_watch_.Tick(env_.executor.Now()); }
  bool Accept(const std::string& method, std::unique_ptr<Call>* call);  // false: of no method here
  void Drain();  // no new training; on_idle comes when the round under way is over
  bool idle() const;
  std::vector<v1::SampleRange> samples() const;  // of the training or update that this peer holds
  v1::PeerProgress progress() const;

 private:  // An update that is encoded and waits to be taken into an entry.
  struct Update {
    std::shared_ptr<const Contribution> contribution;
    v1::Ready ready;
    std::vector<float> values;  // with error feedback: a = update + residual
  };

  void StartTraining();
  void Encode(const v1::Boundary& boundary);
  void SendReady();
  void StartExchange(const v1::Plan& plan);
  void OnOutcome(ExchangeOutcome outcome);
  void SendVote();
  void WatchEvaluation(uint64_t version);
  void OnReducerUnreachable(const std::string& reducer, const absl::Status& why);
  void SettleUpdate(const v1::EntryHeader& header);
  void Rebase(uint64_t version);
  void SettleResidual(const v1::EntryHeader& header, int position);
  void KeepResidual();
  void EndExchange();
  void GoOn();
  void CheckIdle();
  const char* phase() const;

  const Env env_;
  const std::string self_;
  const Events events_;

  ReplicaKeeper& keeper_;
  Worker& trainer_;
  UpdateMeasure measure_;
  v1::RunSpec spec_;
  LevelCodecs codecs_;
  uint64_t epoch_ = 0;
  absl::Duration failure_timeout_ = absl::Seconds(10);
  uint32_t lanes_ = 1;
  bool worker_ready_ = false, draining_ = false;
  std::optional<v1::Train> assigned_;    // not yet answered by an update
  std::optional<v1::Plan> next_plan_;    // as next_train_
  std::optional<v1::Train> next_train_;  // for a version whose base is still to be committed here
  bool training_ = false;                // the worker does assigned_
  uint32_t age_ = 0;                     // commits since its training began
  uint64_t training_id_ = 0;  // of the newest Train: an older encoding that ends late is dropped
  std::optional<Update> update_;
  uint64_t settled_version_ = 0;  // the newest entry that update and residual were judged by
  std::shared_ptr<const std::vector<float>> residual_;  // changed by commits alone; nullptr: zero
  ResidualKeeping kept_;

  std::unique_ptr<ExchangeServer> server_;
  std::unique_ptr<Exchange> exchange_;
  InputsServer inputs_;
  PartnerWaker waker_;
  ExchangePlan plan_;      // newest of the exchange, and
  uint32_t revision_ = 0;  // its revision
  absl::Time exchange_began_;
  std::vector<v1::PeerMessage> held_;         // shards told as held in this exchange
  std::optional<v1::Vote> vote_;              // cast for what is prepared
  std::vector<v1::Evaluate> evaluates_;       // the worker's; commits are held meanwhile
  std::vector<v1::Evaluate> next_evaluates_;  // of a version still to be committed here
  TrafficCount traffic_;
  ArrivalLog arrivals_;  // of exchange_
  v1::WorkerProgress newest_progress_;
  double train_seconds_ = 0;
  StopWatch stop_watch_{absl::Seconds(10)};
  CallbackGuard guard_;
};

}  // namespace atolld

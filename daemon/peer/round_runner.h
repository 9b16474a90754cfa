// RoundRunner: a peer's part in the rounds. It leads the peer through training, offering the
// update, the exchange and the commit, and then to the next training.
//
// PeerTraining is the state machine of the training; OwnUpdate holds the update that this peer
// offers; PeerExchange carries a plan out; MaskLink hides the update in a sum if the run has
// masks; WorkerEvaluations does the worker's shares of evaluations; RoundMode knows what the run's
// mode asks for. This class decides when each of them acts. Laws: a Train replaces the training
// before it, except that a Train ahead keeps the offered update, or waits until an update is
// offered; the update slot is encoded only once the previous update is settled; a message about a
// version whose base this peer has not committed yet waits for that commit; a round that was lost
// with the coordinator is offered again to the next coordinator. The class has more than forty
// methods because it handles each message and each event that concerns the peer's round. Used on
// the loop thread.
#pragma once

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
#include "daemon/env/env.h"
#include "daemon/peer/mask_link.h"
#include "daemon/peer/own_update.h"
#include "daemon/peer/peer_exchange.h"
#include "daemon/peer/peer_training.h"
#include "daemon/peer/replica_keeper.h"
#include "daemon/peer/round_mode.h"
#include "daemon/peer/still_tensors.h"
#include "daemon/peer/training_figures.h"
#include "daemon/peer/worker.h"
#include "daemon/peer/worker_evaluations.h"

namespace atolld {

class RoundRunner {
 public:
  struct Events {
    // Sends to the coordinator; does nothing if none is connected.
    std::function<void(const v1::PeerMessage&)> send;
    std::function<void()> on_idle;  // Called when this peer is no longer in a round.
    // Called with true when this peer's exchange begins, and with false when it ends.
    std::function<void(bool)> on_busy;
    // Called when the update that this peer has announced, or the training that it was given, is
    // lost. A new Hello must then be sent.
    std::function<void()> on_update_lost;
    // Called when a plan that came early, and so had to wait, is refused.
    std::function<void(absl::Status)> on_refused;
    std::function<void(v1::Ready*)> sign;
    // The results of dialling its partners; see PeerExchange::Events.
    PartnerWaker::Heard on_woken = nullptr;
    std::function<void(const std::string& peer, const absl::Status&)> on_silent = nullptr;
    std::function<void(const std::set<std::string>& addresses)> on_given_up = nullptr;
  };

  // `dir` is the folder of the replica and of the residual.
  RoundRunner(Env env, std::string self, std::string dir, ReplicaKeeper& keeper, Worker& worker,
              Events events);

  // Called at the start of each Session with the coordinator's run and epoch.
  void Follow(const v1::RunSpec& spec, uint64_t epoch, absl::Duration failure_timeout);
  void SetLanes(uint32_t lanes) { exchange_.SetLanes(lanes); }  // See ExchangeSettings::lanes.
  void OnSessionDown();
  void OnTrain(const v1::Train& train);
  void ForgetNextTrains();                    // Drops the Trains that have not begun.
  absl::Status OnPlan(const v1::Plan& plan);  // Fails if no honest coordinator would send the plan.
  void OnAudit(const v1::Audit& order) { exchange_.OnAudit(order); }
  void OnMask(const v1::MaskToParty& message) { masks_.OnMessage(message); }
  void OnEvaluate(const v1::Evaluate& evaluate);

  void OnWorkerReady();
  void OnWorkerLost();
  void OnHeldBack();  // Called when the owner stops the worker. Other peers then train its samples.
  void OnBoundary(const v1::Boundary& boundary);
  void OnProgress(const v1::WorkerProgress& progress);
  void OnEvaluated(const v1::WorkerEvaluated& evaluated) { evaluations_.OnEvaluated(evaluated); }

  // Called when the replica, by a snapshot, has skipped this entry; OnOpened follows.
  void OnSkipped(const v1::EntryHeader& header);
  void OnOpened();
  void OnDropped();  // Called when the replica was dropped. Updates trained from it do not count.
  void OnCommitted(const v1::EntryHeader& header);
  void OnDigest();

  // LoadResidual reads the residual's file; it blocks, and is called before the loop runs and after
  // a replica was loaded. SaveResidual saves the residual if it is newer than the file, then calls
  // `done`. LoadMaskKeys reads the other peers' keys, which masks need. It blocks, is called before
  // the loop runs, needs no replica, and fails if their file is damaged. `key` must outlive this
  // object.
  absl::Status LoadMaskKeys(const SigningKey* key) { return masks_.Load(key); }
  void LoadResidual() { own_.LoadResidual(); }
  void SaveResidual(Task done) { own_.SaveResidual(std::move(done)); }

  // Must be called several times in each failure_timeout, so that this peer notices if its process
  // was stopped.
  void Tick() { exchange_.Tick(); }
  // Takes an incoming call of an exchange. Returns false if the method is not one of an exchange.
  bool Accept(const std::string& method, std::unique_ptr<Call>* call) {
    return exchange_.Accept(method, call);
  }
  void Drain();  // Starts no new training. on_idle is called when the round under way is over.
  // Starts no new training until it is called with a null `done`, and calls `done` whenever this
  // peer is in no round.
  void Rest(Task done);
  bool exchanging() const { return exchange_.under_way(); }
  bool idle() const;
  // samples() returns the samples of the update that this peer offers or, if it offers none, of its
  // training. ahead_samples() returns the samples of a training that runs beside an offered update.
  std::vector<v1::SampleRange> samples() const;
  std::vector<v1::SampleRange> ahead_samples() const;
  bool trains_ahead() const { return training_.given() && own_.held(); }
  bool offers() const { return own_.held(); }
  // True if this peer trains or holds an update. With private data, which has no numbered samples,
  // this is all that can be reported.
  bool owes_update() const { return training_.given() || own_.held(); }
  v1::PeerProgress progress() const;
  uint64_t tokens() const { return figures_.tokens(); }  // The tokens of all finished trainings.

 private:
  enum class Phase { kSyncing, kStarting, kExchanging, kMasking, kEvaluating, kTraining, kWaiting };
  enum class WorkerState { kAway, kReady, kHeldBack };
  // The messages about a version whose base this peer has not committed yet.
  struct ToCome {
    std::optional<v1::Train> train;
    // A Train ahead that came early. It begins as soon as the update before it is offered.
    std::optional<v1::Train> ahead;
    std::optional<v1::Plan> plan;
  };

  static const char* NameOf(Phase phase);
  Phase phase() const;
  bool worker_ready() const { return worker_state_ == WorkerState::kReady; }

  void TakeTrain(const v1::Train& train);
  void StartTraining();
  std::vector<PartRange> Frozen() const;
  void BeginSteps(const std::string& start);
  void DisownTraining();
  void BeginAnew();
  void EncodeWaiting();
  void WatchTensors();  // Checks which tensors of the update in the slot have moved.
  void OnEncoded(const v1::Boundary& boundary, const absl::Status& status,
                 OwnUpdate::Encoded encoded);
  void SendReady();
  void TellDropped();
  uint64_t exchanged_bytes() const;  // Returns the bytes sent and received in exchanges.
  void GoOn();
  void CheckIdle();
  PeerExchange::Events ExchangeEvents();
  MaskLink::Events MaskEvents();

  const Env env_;
  const Events events_;

  ReplicaKeeper& keeper_;
  Worker& worker_;
  OwnUpdate own_;
  PeerExchange exchange_;
  MaskLink masks_;
  WorkerEvaluations evaluations_;
  PeerTraining training_;
  TrainingFigures figures_;
  const std::shared_ptr<StillTensors> still_ = std::make_shared<StillTensors>();
  std::unique_ptr<RoundMode> mode_;  // Null until a run is followed.
  uint64_t epoch_ = 0;
  WorkerState worker_state_ = WorkerState::kAway;
  // The version for which an update was last offered in the present Session, or 0 if none was
  // offered. Nullopt while there is no Session.
  std::optional<uint64_t> offered_;
  ToCome to_come_;
  bool draining_ = false;
  Task rested_;  // The `done` of Rest; null while this peer does not rest.
  // True if a Train ahead was ignored because this peer rests. The coordinator still counts on that
  // training.
  bool refused_ahead_ = false;
  CallbackGuard guard_;
};

}  // namespace atolld

// RoundRunner: a peer's part in the rounds - the machine that goes from training to an update that
// is offered, to an exchange, to a commit, and on.
//
// OwnUpdate holds what this peer contributes, RoundExchange carries a plan out, MaskLink hides the
// update in a sum where the run has masks; this class decides when. Laws: a Train replaces whatever
// ran before, but one ahead leaves the update that is offered, or waits until there is one; the
// update slot is encoded only once the update before is settled; what is said for a version whose
// base is still to be committed here waits for that commit; a round lost with the coordinator is
// offered again to its successor. Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/worker.pb.h"
#include "daemon/env/env.h"
#include "daemon/peer/eager_guess.h"
#include "daemon/peer/mask_link.h"
#include "daemon/peer/own_update.h"
#include "daemon/peer/replica_keeper.h"
#include "daemon/peer/round_exchange.h"
#include "daemon/peer/work_meter.h"
#include "daemon/peer/worker.h"

namespace atolld {

class RoundRunner {
 public:
  struct Events {
    std::function<void(const v1::PeerMessage&)> send;  // to the coordinator, if there is one now
    std::function<void()> on_idle;      // nothing of this peer is in a round any more
    std::function<void(bool)> on_busy;  // its exchange has begun (true), or ended
    // What it had told of, or was given to train, is gone: Hello must be said again.
    std::function<void()> on_update_lost;
    std::function<void(absl::Status)> on_refused;  // a plan that came early, by OnPlan
    std::function<void(v1::Ready*)> sign;
  };

  // `dir`: where the replica lies, and beside it the residual.
  RoundRunner(Env env, std::string self, std::string dir, ReplicaKeeper& keeper, Worker& trainer,
              Events events);

  // The coordinator: its run and epoch (repeated at each Session), and its messages.
  void Follow(const v1::RunSpec& spec, uint64_t epoch, absl::Duration failure_timeout);
  void SetLanes(uint32_t lanes) { exchange_.SetLanes(lanes); }  // ExchangeSettings::lanes
  void OnSessionDown();
  void OnTrain(const v1::Train& train);
  void ForgetNextTrains();                    // those that have not begun
  absl::Status OnPlan(const v1::Plan& plan);  // an error: no honest coordinator sends it
  void OnAudit(const v1::Audit& order) { exchange_.OnAudit(order); }
  void OnMask(const v1::MaskToParty& message) { masks_.OnMessage(message); }
  void OnEvaluate(const v1::Evaluate& evaluate);

  void OnWorkerReady();
  void OnWorkerLost();
  void OnHeldBack();  // ... by its owner: others train what it was given
  void OnBoundary(const v1::Boundary& boundary);
  void OnProgress(const v1::WorkerProgress& progress);
  void OnEvaluated(const v1::WorkerEvaluated& evaluated);

  void OnSkipped(const v1::EntryHeader& header);  // by a snapshot; OnOpened follows
  void OnOpened();
  void OnDropped();  // the replica: nothing that was trained from it counts
  void OnCommitted(const v1::EntryHeader& header);
  void OnDigest();

  // The residual's file. Load: blocking, before the loop runs, once a replica was loaded. Save:
  // what is newer than on the disk, then `done`.
  // The others' keys that masks go by are read the same way, whether or not there is a replica; an
  // error: their file is damaged. `key` outlives it.
  absl::Status LoadMaskKeys(const SigningKey* key) { return masks_.Load(key); }
  void LoadResidual() { own_.LoadResidual(); }
  void SaveResidual(Task done) { own_.SaveResidual(std::move(done)); }

  // A few times a failure_timeout: how this peer notices that it was stopped itself.
  void Tick() { exchange_.Tick(); }
  // False: of no method here.
  bool Accept(const std::string& method, std::unique_ptr<Call>* call) {
    return exchange_.Accept(method, call);
  }
  void Drain();  // no new training; on_idle comes when the round under way is over
  // The same for a while: no new training, and `done` each time that nothing is in a round; null:
  // not any more.
  void Rest(Task done);
  bool exchanging() const { return exchange_.under_way(); }
  bool idle() const;
  // Of the update that this peer offers, or else of its training; and of its training beside that.
  std::vector<v1::SampleRange> samples() const;
  std::vector<v1::SampleRange> ahead_samples() const;
  bool trains_ahead() const { return assigned_.has_value() && own_.held(); }
  bool offers() const { return own_.held(); }
  // It trains, or holds an update: with private data the one thing that can be said of it.
  bool owes_update() const { return assigned_.has_value() || own_.held(); }
  v1::PeerProgress progress() const;
  uint64_t tokens() const { return tokens_; }  // of all training that its worker has finished

 private:
  enum class Phase { kSyncing, kStarting, kExchanging, kMasking, kEvaluating, kTraining, kWaiting };
  static const char* NameOf(Phase phase);
  Phase phase() const;

  void TakeTrain(const v1::Train& train);
  void StartTraining();
  bool guesses() const { return spec_.mode().kind() == "eager"; }
  void BeginSteps(const std::string& start);
  void DropTraining();
  void EncodeWaiting();
  void OnEncoded(const v1::Boundary& boundary, const absl::Status& status,
                 OwnUpdate::Encoded encoded);
  void SendReady();
  void TellDropped();
  uint64_t exchanged_bytes() const;  // sent and received
  void WatchEvaluation(uint64_t version);
  void GiveUpEvaluations();
  void Rebase(uint64_t version);
  void Merge(uint64_t version, bool whole, bool included);
  void FollowEntry(const v1::EntryHeader& header, bool offered, bool included);
  void FollowState();
  void GoOn();
  void CheckIdle();
  RoundExchange::Events ExchangeEvents();
  MaskLink::Events MaskEvents();

  const Env env_;
  const Events events_;

  ReplicaKeeper& keeper_;
  Worker& trainer_;
  OwnUpdate own_;
  EagerGuess guess_;
  RoundExchange exchange_;
  MaskLink masks_;
  bool follows_ = false;  // a run
  v1::RunSpec spec_;      // its
  uint64_t epoch_ = 0;
  absl::Duration failure_timeout_ = absl::Seconds(10);
  bool worker_ready_ = false, draining_ = false;
  bool held_back_ = false;  // from OnHeldBack to OnWorkerReady
  Task rested_;             // of Rest
  bool refused_ = false;    // a Train ahead, meanwhile: the coordinator counts on it

  std::optional<v1::Train> assigned_;  // not yet answered by an update
  bool session_ = false;               // the coordinator hears what is sent
  uint64_t offered_ = 0;   // the version that this Session was offered an update for, last
  bool starting_ = false;  // the guess is made from which the worker is to start
  bool training_ = false;  // the worker does assigned_, or has done it
  absl::Time began_;       // that training
  uint32_t age_ = 0;       // commits since its training began, without those that it has merged
  bool missed_ = false;    // the newest of them it has not taken in
  // It is over, and its update lies in the slot until the one that is offered is settled.
  std::optional<v1::Boundary> boundary_;
  uint64_t offered_for_ = 0;  // the entry for which the update that is held was encoded
  bool of_worker_ = false;    // the worker that runs has made it: it is in its parameters
  // Of mode "streaming": what the worker's own parameters have is to be forgotten, so that its next
  // training begins from theta; and an entry that has taken the update, or may have, and was passed
  // over by a snapshot (0: none).
  bool own_lost_ = false;
  uint64_t taken_unseen_ = 0;
  uint64_t training_id_ = 0;  // of the newest Train: an older encoding that ends late is dropped
  std::vector<v1::Evaluate> evaluates_;  // the worker's; commits are held meanwhile

  // What was said for a version whose base is still to be committed here.
  std::optional<v1::Train> next_train_;
  // One ahead, given early: it begins as soon as the update before it is offered.
  std::optional<v1::Train> waiting_train_;
  std::optional<v1::Plan> next_plan_;
  std::vector<v1::Evaluate> next_evaluates_;

  v1::WorkerProgress newest_progress_;
  uint64_t evaluated_ = 0;  // as the worker counts what it has done of a share
  double train_seconds_ = 0;
  WorkMeter work_;
  uint64_t tokens_ = 0;
  CallbackGuard guard_;
};

}  // namespace atolld

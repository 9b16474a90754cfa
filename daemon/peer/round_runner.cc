#include "daemon/peer/round_runner.h"

#include <algorithm>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "membership/history/fragment.h"
#include "membership/history/run_mode.h"
#include "membership/run/own_evaluation.h"

namespace atolld {
namespace {

// One a party; nothing where nothing is held out here.
void TellOwnLosses(const v1::WorkerEvaluated& evaluated, v1::Evaluated* answer) {
  v1::OwnLoss* const own = answer->mutable_own();
  for (const double loss : evaluated.own_losses()) {
    if (own->losses_size() < kMostOwnLosses) own->add_losses(loss);
  }
  if (own->losses_size() == 0 && evaluated.tokens() > 0) {
    own->add_losses(evaluated.loss_sum() / static_cast<double>(evaluated.tokens()));
  }
}

}  // namespace

RoundRunner::RoundRunner(Env env, std::string self, std::string dir, ReplicaKeeper& keeper,
                         Worker& trainer, Events events)
    : env_(env),
      events_(std::move(events)),
      keeper_(keeper),
      trainer_(trainer),
      own_(env, self, dir, keeper),
      guess_(keeper, own_),
      exchange_(env, self, keeper, own_, ExchangeEvents()),
      masks_(env, std::move(self), dir, keeper, own_, MaskEvents()) {}

RoundExchange::Events RoundRunner::ExchangeEvents() {
  RoundExchange::Events events;
  events.send = events_.send;
  events.on_busy = events_.on_busy;
  events.on_masked_sum = [this](ExchangeOutcome outcome, const ExchangePlan& plan) {
    masks_.OnSum(std::move(outcome), plan);
  };
  return events;
}

MaskLink::Events RoundRunner::MaskEvents() {
  MaskLink::Events events;
  events.send = events_.send;
  events.sign = events_.sign;
  events.on_unmasked = [this](ExchangeOutcome outcome) { exchange_.Decide(std::move(outcome)); };
  events.on_over = [this] { exchange_.Leave(); };
  return events;
}

void RoundRunner::Follow(const v1::RunSpec& spec, uint64_t epoch, absl::Duration failure_timeout) {
  if (!std::exchange(follows_, true)) {  // the peer has checked the run before
    spec_ = spec;
    own_.Follow(spec);
    masks_.Follow(spec);
  }
  const bool successor = epoch_ != 0 && epoch != epoch_;
  if (successor) next_plan_.reset();
  epoch_ = epoch;
  session_ = true;
  failure_timeout_ = failure_timeout;
  exchange_.Follow(spec, epoch, failure_timeout);
  if (successor) masks_.Forget();  // its attempt was the former epoch's
  // What the coordinator may have missed while the Session was down.
  if (own_.held()) SendReady();
  exchange_.Repeat();
  masks_.Repeat();
}

void RoundRunner::OnSessionDown() {
  session_ = false;
  offered_ = 0;
  ForgetNextTrains();  // the coordinator says all again after the next Hello
  next_plan_.reset();
  next_evaluates_.clear();
}

// -----------------------------------------------------------------------------------------------
// Training

void RoundRunner::OnTrain(const v1::Train& train) {
  // Of the last two the coordinator is told, or has been by now, and gives it to others.
  if (rested_ && train.ahead()) refused_ = true;
  if (draining_ || rested_ || held_back_) return;
  waiting_train_.reset();
  if (train.ahead() && next_train_ && !next_train_->ahead()) {
    waiting_train_ = train;
  } else {
    TakeTrain(train);
  }
}

void RoundRunner::TakeTrain(const v1::Train& train) {
  next_train_.reset();
  if (train.ahead() && assigned_ && !own_.held()) {
    waiting_train_ = train;
    return;
  }
  if (!keeper_.has_state() || train.version() > keeper_.version() + (train.ahead() ? 2 : 1)) {
    next_train_ = train;  // commits are still to come, and they settle the update at hand
    return;
  }
  if (train.ahead() && own_.held() && offered_ != keeper_.version() + 1) {
    waiting_train_ = train;  // until the Ready is said, which the state's digest may hold up
    return;
  }
  DropTraining();
  assigned_ = train;
  if (!train.ahead()) {
    if (own_.held()) own_lost_ = true;  // it is refused, and must not come again in the next one
    own_.Drop();
    masks_.GiveUp(absl::CancelledError("another update is trained"));
  }
  StartTraining();
}

void RoundRunner::ForgetNextTrains() {
  next_train_.reset();
  waiting_train_.reset();
}

void RoundRunner::DropTraining() {
  assigned_.reset();
  boundary_.reset();
  starting_ = training_ = false;
  age_ = 0;
  missed_ = false;
  ++training_id_;
}

// Hands the assignment to the worker once that is there.
void RoundRunner::StartTraining() {
  // A replica that is being opened anew has no theta to begin from.
  if (!assigned_ || training_ || starting_ || !worker_ready_ || !keeper_.has_state()) return;
  if (IsStreaming(spec_)) return BeginSteps(std::exchange(own_lost_, false) ? "" : "own");
  if (!guesses() || !own_.held()) return BeginSteps("");
  starting_ = true;
  guess_.Make(guard_.Wrap([this, id = training_id_](absl::Status status) {
    if (id != training_id_ || !std::exchange(starting_, false)) return;
    if (!status.ok()) {
      env_.log.Info(absl::StrCat("round ", assigned_->version(),
                                 ": training starts from theta: ", status.message()));
    }
    BeginSteps(status.ok() ? "guess" : "");
  }));
}

void RoundRunner::BeginSteps(const std::string& start) {
  v1::DaemonMessage message;
  v1::TrainSteps* steps = message.mutable_train();
  steps->set_version(assigned_->version());
  steps->set_first_step(assigned_->first_step());
  steps->set_steps(assigned_->steps());
  *steps->mutable_samples() = assigned_->samples();
  steps->set_taken(own_.taken());
  steps->set_clip_bits(assigned_->clip_bits());
  steps->set_start(start);
  if (IsStreaming(spec_) && own_.held()) {  // whose entry is on its way
    steps->set_merge_after(spec_.mode().overlap_steps());
    steps->set_merge_version(keeper_.version() + 1);
  }
  trainer_.Send(message);
  training_ = true;
  work_.OnTraining(env_.executor.Now(), exchanged_bytes());
  age_ = 0;
  missed_ = false;
  began_ = env_.executor.Now();
  exchange_.waker().OnTraining();
}

void RoundRunner::OnWorkerReady() {
  worker_ready_ = true;
  held_back_ = false;
  StartTraining();
}

void RoundRunner::OnWorkerLost() {
  worker_ready_ = false;
  if (training_) {
    env_.log.Info(absl::StrCat("round ", assigned_->version(),
                               ": training begins again when the worker is back"));
  }
  starting_ = training_ = false;
  boundary_.reset();  // its samples are others' by now
  waiting_train_.reset();
  of_worker_ = false;
  age_ = 0;
  missed_ = false;
  if (!evaluates_.empty()) GiveUpEvaluations();
}

void RoundRunner::OnHeldBack() {
  DropTraining();
  next_train_.reset();
  refused_ = false;
  OnWorkerLost();
  held_back_ = true;
  work_.Forget();
  newest_progress_.Clear();
  CheckIdle();
}

void RoundRunner::OnProgress(const v1::WorkerProgress& progress) {
  if (progress.evaluated() > 0) {  // of an evaluation, which may come in the middle of the steps
    evaluated_ = progress.evaluated();
    return;
  }
  const v1::WorkerProgress before = std::exchange(newest_progress_, progress);
  if (progress.step() == 0) {  // has no figures yet: those of the last round stand
    if (progress.loss() == 0) newest_progress_.set_loss(before.loss());
    newest_progress_.set_tokens_per_second(before.tokens_per_second());
  }
  exchange_.waker().OnProgress(progress);
}

void RoundRunner::OnBoundary(const v1::Boundary& boundary) {
  if (!training_ || boundary_ || boundary.version() != assigned_->version()) {
    return;  // a replaced Train's
  }
  train_seconds_ += boundary.seconds();
  work_.OnBoundary(env_.executor.Now(), exchanged_bytes(), boundary.waited_seconds());
  if (boundary.seconds() > 0) {  // a short round has no other figure
    newest_progress_.set_tokens_per_second(static_cast<double>(boundary.tokens()) /
                                           boundary.seconds());
  }
  tokens_ += boundary.tokens();
  boundary_ = boundary;
  EncodeWaiting();
}

// One update is offered at a time, and what encoding has lost of that one goes into the next: the
// slot stays as it is until an entry has settled it.
void RoundRunner::EncodeWaiting() {
  if (!boundary_ || own_.held()) return;
  const v1::Boundary boundary = *std::exchange(boundary_, std::nullopt);
  exchange_.waker().OnWaiting();
  OwnUpdate::Trained trained;
  trained.first_sample =
      assigned_->samples().empty() ? boundary.version() : assigned_->samples(0).first();
  trained.clip = double{absl::bit_cast<float>(assigned_->clip_bits())};
  trained.parties = boundary.parties();
  trained.slow_codec = assigned_->slow_codec();
  trained.within = boundary.within();
  own_.Encode(trained, [this, boundary, id = training_id_](const absl::Status& status,
                                                           OwnUpdate::Encoded encoded) {
    if (id != training_id_ || !assigned_) return;
    OnEncoded(boundary, status, std::move(encoded));
  });
}

void RoundRunner::OnEncoded(const v1::Boundary& boundary, const absl::Status& status,
                            OwnUpdate::Encoded encoded) {
  if (!status.ok()) {
    // On the same samples by the same worker it would come to the same.
    return trainer_.Restart(absl::DataLossError(
        absl::StrCat("round ", boundary.version(), ": its update is none: ", status.message())));
  }
  trainer_.Accept();
  v1::Ready ready;
  ready.set_age(age_);
  ready.set_steps(boundary.steps());
  ready.set_tokens(boundary.tokens());
  ready.set_loss(boundary.loss());
  ready.set_train_seconds(boundary.seconds());
  work_.Tell(&ready);
  ready.set_own_samples(boundary.samples());
  ready.set_base_loss(boundary.first_loss());
  ready.set_parties(boundary.parties());
  ready.set_party_weight(boundary.weight());
  *ready.mutable_samples() = assigned_->samples();
  ready.set_train_number(assigned_->number());
  ready.set_clip_bits(absl::bit_cast<uint32_t>(static_cast<float>(encoded.clip)));
  ready.set_within(encoded.within);
  own_.Hold(std::move(encoded), std::move(ready), missed_);
  offered_for_ = keeper_.version() + 1;
  of_worker_ = worker_ready_;
  assigned_.reset();
  training_ = false;
  SendReady();
}

uint64_t RoundRunner::exchanged_bytes() const {
  return exchange_.traffic().sent_bytes + exchange_.traffic().received_bytes;
}

void RoundRunner::SendReady() {
  std::optional<v1::Ready> ready = own_.Offer(epoch_, guard_.Wrap([this] {
    if (own_.held()) SendReady();
  }));
  if (!ready) return;
  if (own_.plain() == nullptr) events_.sign(&*ready);  // a masked one's root comes with its masks
  if (session_) offered_ = ready->version();
  v1::PeerMessage message;
  *message.mutable_ready() = *std::move(ready);
  events_.send(message);
  exchange_.waker().OnWaiting();
  if (waiting_train_) TakeTrain(*std::exchange(waiting_train_, std::nullopt));
}

// An entry has left the update out and it is gone. Who was offered it knows that by the header; who
// was not waits for it.
void RoundRunner::TellDropped() {
  if (own_.TakeDropped() && offered_ != own_.settled_version()) events_.on_update_lost();
}

// The worker's base moves with theta, however theta has moved.
void RoundRunner::Rebase(uint64_t version) {
  v1::DaemonMessage message;
  message.mutable_rebase()->set_version(version);
  trainer_.Send(message);
  missed_ = false;
}

// The worker's own parameters, which it keeps from round to round, take in what an entry has made
// of its fragment; or, where entries were not seen, all of theta.
void RoundRunner::Merge(uint64_t version, bool whole, bool included) {
  if (!worker_ready_) return;
  v1::DaemonMessage message;
  v1::Merge* const merge = message.mutable_merge();
  merge->set_version(version);
  if (!whole) {
    const auto ranges = FragmentRanges(spec_, keeper_.genesis().manifest(), version);
    for (const FragmentRange& range : ranges) {
      v1::ValueRange* const values = merge->add_ranges();
      values->set_first(range.first);
      values->set_count(range.count);
    }
  }
  merge->set_own_share_bits(spec_.mode().merge_bits());
  merge->set_rebase(!included);
  trainer_.Send(message);
}

// -----------------------------------------------------------------------------------------------
// Exchange

absl::Status RoundRunner::OnPlan(const v1::Plan& plan) {
  next_plan_.reset();
  if (!keeper_.has_state() || plan.version() > keeper_.version() + 1) {
    next_plan_ = plan;  // an aggregator is not waited for: commits are still to come
    return absl::OkStatus();
  }
  if (plan.version() <= keeper_.version()) return absl::OkStatus();
  RETURN_IF_ERROR(masks_.CheckPlan(plan));
  return exchange_.OnPlan(plan);
}

// -----------------------------------------------------------------------------------------------
// Evaluation: the worker's shares

void RoundRunner::OnEvaluate(const v1::Evaluate& evaluate) {
  if (!keeper_.has_state() || evaluate.version() > keeper_.version()) {
    next_evaluates_.push_back(evaluate);  // that version is still to be committed here
    return;
  }
  if (!worker_ready_ || evaluate.version() < keeper_.version()) return;
  if (evaluates_.empty()) WatchEvaluation(evaluate.version());
  evaluates_.push_back(evaluate);
  keeper_.HoldCommits(true);  // theta must be one version's while the worker reads it
  v1::DaemonMessage message;
  message.mutable_evaluate()->set_version(evaluate.version());
  message.mutable_evaluate()->set_share(evaluate.share());
  message.mutable_evaluate()->set_shares(evaluate.shares());
  message.mutable_evaluate()->set_own(evaluate.own());
  trainer_.Send(message);
}

// The run does not wait for a slow worker's share, so this replica must not fall behind for it: the
// others, who hold what it lacks, may leave meanwhile.
void RoundRunner::WatchEvaluation(uint64_t version) {
  env_.executor.RunAfter(failure_timeout_, guard_.Wrap([this, version] {
    if (evaluates_.empty() || evaluates_.front().version() != version) return;
    if (!keeper_.behind()) return WatchEvaluation(version);
    env_.log.Info(absl::StrCat("version ", keeper_.version(),
                               ": its evaluation takes too long here and is given up"));
    GiveUpEvaluations();
  }));
}

void RoundRunner::GiveUpEvaluations() {
  evaluates_.clear();
  keeper_.HoldCommits(false);
}

void RoundRunner::OnEvaluated(const v1::WorkerEvaluated& evaluated) {
  const auto asked =
      std::find_if(evaluates_.begin(), evaluates_.end(), [&](const v1::Evaluate& evaluate) {
        return evaluate.version() == evaluated.version() && evaluate.share() == evaluated.share() &&
               evaluate.shares() == evaluated.shares() && evaluate.own() == evaluated.own();
      });
  if (asked == evaluates_.end()) return;
  evaluates_.erase(asked);
  v1::PeerMessage message;
  v1::Evaluated* answer = message.mutable_evaluated();
  answer->set_version(evaluated.version());
  answer->set_share(evaluated.share());
  answer->set_shares(evaluated.shares());
  answer->set_loss_sum(evaluated.loss_sum());
  answer->set_tokens(evaluated.tokens());
  if (evaluated.own()) TellOwnLosses(evaluated, answer);
  events_.send(message);
  if (evaluates_.empty()) keeper_.HoldCommits(false);
}

// -----------------------------------------------------------------------------------------------
// The replica has moved

void RoundRunner::OnSkipped(const v1::EntryHeader& header) {
  const bool included = own_.TakenBy(header) != nullptr;
  if (!own_.OnSkipped(header)) return;
  if (included) taken_unseen_ = header.version();
  if (training_) ++age_;
}

void RoundRunner::OnOpened() {
  exchange_.End();  // a snapshot may have led past its entry
  if (training_ && own_.settled_version() < keeper_.version()) {
    age_ += static_cast<uint32_t>(keeper_.version() - own_.settled_version());
  }
  if (own_.OnOpened()) {
    taken_unseen_ = offered_for_;  // it may be, and must not count twice
    events_.on_update_lost();
  }
  TellDropped();
  own_.LoadCentre();
  guess_.Forget();
  masks_.OnMoved();
  FollowState();
  EncodeWaiting();
  StartTraining();
  GoOn();
  CheckIdle();
}

// Theta has moved under the worker, whether or not the headers between were seen.
void RoundRunner::FollowState() {
  if (!IsStreaming(spec_)) {
    if (training_) Rebase(keeper_.version());
    return;
  }
  if (own_.held() && offered_for_ <= keeper_.version()) own_.Drop();  // of another fragment
  const uint64_t taken = std::exchange(taken_unseen_, 0);
  if (taken != 0 && of_worker_) Merge(taken, false, true);
  Merge(keeper_.version(), true, false);
}

void RoundRunner::OnDropped() {
  exchange_.End();
  own_.Drop();
  guess_.Forget();
  masks_.GiveUp(absl::CancelledError("the replica was dropped, and the update with it"));
  DropTraining();
  waiting_train_.reset();
  own_lost_ = true;
  if (!evaluates_.empty()) GiveUpEvaluations();
  CheckIdle();
}

void RoundRunner::OnCommitted(const v1::EntryHeader& header) {
  exchange_.End();
  work_.OnCommitted(env_.executor.Now(), exchanged_bytes());
  const bool offered = own_.held(), included = own_.TakenBy(header) != nullptr;
  if (guesses()) guess_.OnCommitted(header);
  own_.OnCommitted(header);
  TellDropped();
  masks_.OnMoved();
  FollowEntry(header, offered, included);
  EncodeWaiting();
  GoOn();
  CheckIdle();
}

// What an entry makes of the training under way: a straggler's, or, where an update was `offered`,
// one that runs ahead. Of these the latter misses the entry that has taken that update, and no
// other: that is what the mode is about. In mode "streaming" nothing is missed, since the worker
// merges each entry.
void RoundRunner::FollowEntry(const v1::EntryHeader& header, bool offered, bool included) {
  if (IsStreaming(spec_)) {
    Merge(header.version(), false, included && of_worker_);
    if (training_ && !offered) ++age_;
  } else if (training_ && (offered || assigned_->version() <= header.version())) {
    ++age_;
    missed_ = included;
    if (!included && !Planted(PlantedBug::kStragglerNotRebased)) Rebase(header.version());
  }
  if (offered && training_ && !boundary_) exchange_.waker().OnTraining(began_);
}

void RoundRunner::OnDigest() {
  exchange_.OnDigest();
  if (own_.held() && !exchange_.under_way()) SendReady();
}

// What was said for a version that was still to come. Evaluation first: a commit waits for it.
void RoundRunner::GoOn() {
  for (const v1::Evaluate& evaluate : std::exchange(next_evaluates_, {})) OnEvaluate(evaluate);
  if (next_train_) TakeTrain(v1::Train(*next_train_));
  if (!next_plan_) return;
  const absl::Status taken = OnPlan(v1::Plan(*next_plan_));
  if (!taken.ok()) events_.on_refused(taken);
}

// -----------------------------------------------------------------------------------------------
// What others see

void RoundRunner::Drain() {
  draining_ = true;
  ForgetNextTrains();
  // What is trained beside an update that stands would come after the round under way.
  if (own_.held() || !exchange_.under_way()) DropTraining();
  CheckIdle();
}

void RoundRunner::Rest(Task done) {
  rested_ = std::move(done);
  if (rested_) {
    refused_ = refused_ || waiting_train_ || (next_train_ && next_train_->ahead());
    ForgetNextTrains();
  }
  if (!rested_ && std::exchange(refused_, false)) events_.on_update_lost();
  CheckIdle();
}

bool RoundRunner::idle() const {
  return !assigned_ && !training_ && !own_.held() && !exchange_.under_way();
}

void RoundRunner::CheckIdle() {
  if (!idle()) return;
  if (draining_) env_.executor.Post(guard_.Wrap([this] { events_.on_idle(); }));
  if (rested_) {
    env_.executor.Post(guard_.Wrap([this] {
      if (!rested_ || !idle()) return;
      const Task done = rested_;  // which may ask for another rest, or for none
      done();
    }));
  }
}

std::vector<v1::SampleRange> RoundRunner::samples() const {
  if (own_.held()) return own_.samples();
  if (assigned_) return {assigned_->samples().begin(), assigned_->samples().end()};
  return {};
}

std::vector<v1::SampleRange> RoundRunner::ahead_samples() const {
  if (!trains_ahead()) return {};
  return {assigned_->samples().begin(), assigned_->samples().end()};
}

RoundRunner::Phase RoundRunner::phase() const {
  if (keeper_.syncing()) return Phase::kSyncing;
  const bool worker_awaited = trainer_.trains() && !worker_ready_ && !held_back_;
  if (worker_awaited || !keeper_.has_state()) return Phase::kStarting;
  // Whoever trains beside an exchange is at both; exchanging() tells of that.
  if (training_ && !boundary_ && own_.held() && evaluates_.empty()) return Phase::kTraining;
  if (exchange_.under_way()) return Phase::kExchanging;
  if (masks_.under_way()) return Phase::kMasking;
  if (!evaluates_.empty()) return Phase::kEvaluating;
  if (training_ && !boundary_) return Phase::kTraining;
  return Phase::kWaiting;
}

const char* RoundRunner::NameOf(Phase phase) {
  switch (phase) {
    case Phase::kSyncing:
      return "syncing";
    case Phase::kStarting:
      return "starting";
    case Phase::kExchanging:
      return "exchanging";
    case Phase::kMasking:
      return "masking";
    case Phase::kEvaluating:
      return "evaluating";
    case Phase::kTraining:
      return "training";
    case Phase::kWaiting:
      break;
  }
  return "waiting";
}

v1::PeerProgress RoundRunner::progress() const {
  v1::PeerProgress progress;
  progress.set_phase(NameOf(phase()));
  progress.set_version(keeper_.version());
  progress.set_step(newest_progress_.step());
  progress.set_steps(newest_progress_.steps());
  progress.set_loss(newest_progress_.loss());
  progress.set_tokens_per_second(newest_progress_.tokens_per_second());
  progress.set_exchange_bytes_sent(exchange_.traffic().sent_bytes);
  progress.set_exchange_bytes_received(exchange_.traffic().received_bytes);
  progress.set_train_seconds(train_seconds_);
  progress.set_evaluated(evaluates_.empty() ? 0 : evaluated_);
  return progress;
}

}  // namespace atolld

#include "daemon/peer/round_runner.h"

#include <algorithm>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "membership/experts/expert_parts.h"
#include "membership/trust/contribution.h"

namespace atolld {
namespace {

// An update of which an entry takes less than this share of what it takes of others is hardly
// taken.
constexpr float kHardlyTaken = 0.125f;

// Returns true if the update of `own` was cut so much more than those of others. A rule may scale
// the updates of all contributors, so they are compared.
bool IsHardlyTaken(const v1::RunSpec& spec, const v1::EntryHeader& header, const std::string& own) {
  float largest = 0, taken = 0;
  for (int i = 0; i < header.contributors_size(); ++i) {
    const float share = CarriedShare(spec, header, i);
    largest = std::max(largest, share);
    if (header.contributors(i).peer() == own) taken = share;
  }
  return taken < kHardlyTaken * largest;
}

}  // namespace

RoundRunner::RoundRunner(Env env, std::string self, std::string dir, ReplicaKeeper& keeper,
                         Worker& worker, Events events)
    : env_(env),
      events_(std::move(events)),
      keeper_(keeper),
      worker_(worker),
      own_(env, self, dir, keeper),
      exchange_(env, self, keeper, own_, ExchangeEvents()),
      masks_(env, std::move(self), dir, keeper, own_, MaskEvents()),
      evaluations_(env, keeper, worker, events_.send),
      training_(env.log) {}

PeerExchange::Events RoundRunner::ExchangeEvents() {
  PeerExchange::Events events;
  events.send = events_.send;
  events.on_busy = events_.on_busy;
  events.on_woken = events_.on_woken;
  events.on_silent = events_.on_silent;
  events.on_given_up = events_.on_given_up;
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
  events.on_shown = [this] {
    env_.executor.Post(guard_.Wrap([this] { events_.on_update_lost(); }));
    CheckIdle();
  };
  return events;
}

void RoundRunner::Follow(const v1::RunSpec& spec, uint64_t epoch, absl::Duration failure_timeout) {
  if (mode_ == nullptr) {  // the peer has checked the run before
    mode_ = RoundMode::Of(spec, {keeper_, worker_, own_, training_});
    own_.Follow(spec);
    masks_.Follow(spec);
  }
  const bool successor = epoch_ != 0 && epoch != epoch_;
  if (successor) to_come_.plan.reset();
  epoch_ = epoch;
  if (!offered_) offered_ = 0;
  evaluations_.SetFailureTimeout(failure_timeout);
  exchange_.Follow(spec, epoch, failure_timeout);
  if (successor) masks_.Forget();  // its attempt was the former epoch's
  // What the coordinator may have missed while the Session was down.
  if (own_.held()) SendReady();
  exchange_.Repeat();
  masks_.Repeat();
}

void RoundRunner::OnSessionDown() {
  offered_.reset();
  to_come_ = {};  // the coordinator says all again after the next Hello
  evaluations_.ForgetWaiting();
}

// -----------------------------------------------------------------------------------------------
// PeerTraining

void RoundRunner::OnTrain(const v1::Train& train) {
  if (rested_ && train.ahead()) refused_ahead_ = true;
  // The coordinator is told that this peer rests or is held back, and gives the samples to others.
  if (draining_ || rested_ || worker_state_ == WorkerState::kHeldBack) return;
  to_come_.ahead.reset();
  if (train.ahead() && to_come_.train && !to_come_.train->ahead()) {
    to_come_.ahead = train;
  } else {
    TakeTrain(train);
  }
}

void RoundRunner::TakeTrain(const v1::Train& train) {
  to_come_.train.reset();
  if (train.ahead() && training_.given() && !own_.held()) {
    to_come_.ahead = train;
    return;
  }
  if (!keeper_.has_state() || train.version() > keeper_.version() + (train.ahead() ? 2 : 1)) {
    to_come_.train = train;  // commits are still to come, and they settle the update at hand
    return;
  }
  if (train.ahead() && own_.held() && offered_.value_or(0) != keeper_.version() + 1) {
    to_come_.ahead = train;  // until the Ready is said, which the state's digest may hold up
    return;
  }
  training_.Drop();
  training_.Give(train);
  if (!train.ahead()) {
    if (own_.held()) mode_->OnRefused();
    if (train.refused()) {
      own_.Refuse();
    } else {
      own_.Drop();
    }
    masks_.GiveUp(absl::CancelledError("another update is trained"));
  }
  StartTraining();
}

void RoundRunner::ForgetNextTrains() {
  to_come_.train.reset();
  to_come_.ahead.reset();
}

// Hands the assignment to the worker once the worker is there.
void RoundRunner::StartTraining() {
  // A replica that is being opened anew has no theta to begin from.
  if (training_.state() != PeerTraining::State::kGiven || !worker_ready() || !keeper_.has_state()) {
    return;
  }
  EagerGuess* const guess = mode_->guess();
  if (guess == nullptr || !own_.held()) return BeginSteps(mode_->Start());
  training_.Guess();
  guess->Make(guard_.Wrap([this, id = training_.id()](absl::Status status) {
    if (id != training_.id() || training_.state() != PeerTraining::State::kGuessing) return;
    if (!status.ok()) {
      env_.log.Info(absl::StrCat("round ", training_.train().version(),
                                 ": training starts from theta: ", status.message()));
    }
    BeginSteps(status.ok() ? "guess" : "");
  }));
}

// Returns what the present training leaves as it is: the experts of other peers.
std::vector<PartRange> RoundRunner::Frozen() const {
  const ExpertParts* const parts = keeper_.fragments().experts();
  if (parts == nullptr) return {};
  return FrozenRanges(*parts, training_.train().owned());
}

void RoundRunner::BeginSteps(const std::string& start) {
  const v1::Train& train = training_.train();
  v1::DaemonMessage message;
  v1::TrainSteps* steps = message.mutable_train();
  steps->set_version(train.version());
  steps->set_first_step(train.first_step());
  steps->set_steps(train.steps());
  *steps->mutable_samples() = train.samples();
  steps->set_taken(own_.taken());
  if (own_.taken()) steps->set_carried_bits(absl::bit_cast<uint32_t>(own_.carried()));
  steps->set_refused(own_.refused());
  steps->set_clip_bits(train.clip_bits());
  steps->set_start(start);
  steps->set_again(masks_.ShownTo(train.version()));
  for (const PartRange& range : Frozen()) {
    v1::ValueRange* const frozen = steps->add_frozen();
    frozen->set_first(range.first);
    frozen->set_count(range.count);
  }
  mode_->Fill(steps);
  worker_.Send(message);
  const absl::Time now = env_.executor.Now();
  training_.Begin(now);
  figures_.OnTraining(now, exchanged_bytes());
  exchange_.waker().OnTraining();
}

void RoundRunner::OnWorkerReady() {
  worker_state_ = WorkerState::kReady;
  StartTraining();
}

void RoundRunner::OnWorkerLost() {
  worker_state_ = WorkerState::kAway;
  const bool begun = training_.begun();
  if (training_.LoseWorker() && begun && training_.state() == PeerTraining::State::kGiven) {
    env_.log.Info(absl::StrCat("round ", training_.train().version(),
                               ": training begins again when the worker is back"));
  }
  to_come_.ahead.reset();
  if (mode_) mode_->OnWorkerLost();
  evaluations_.GiveUp();
}

void RoundRunner::OnHeldBack() {
  training_.Drop();
  to_come_.train.reset();
  refused_ahead_ = false;
  OnWorkerLost();
  worker_state_ = WorkerState::kHeldBack;
  figures_.OnHeldBack();
  CheckIdle();
}

void RoundRunner::OnProgress(const v1::WorkerProgress& progress) {
  if (progress.evaluated() > 0) {  // of an evaluation, which may come in the middle of the steps
    evaluations_.OnProgress(progress.evaluated());
    return;
  }
  figures_.OnProgress(progress);
  exchange_.waker().OnProgress(progress);
}

void RoundRunner::OnBoundary(const v1::Boundary& boundary) {
  if (!training_.Finish(boundary)) return;  // a replaced Train's
  figures_.OnBoundary(env_.executor.Now(), exchanged_bytes(), boundary);
  if (training_.disowned()) return BeginAnew();
  EncodeWaiting();
}

// Checks the update for tensors that do not move. In a run with fragments an update has only some
// tensors. The coordinator is told too, unless it must not know anything of a single update.
void RoundRunner::WatchTensors() {
  if (!still_->watches() || keeper_.fragments().several()) return;
  const auto said = std::make_shared<std::string>(), verdict = std::make_shared<std::string>();
  keeper_.RunExclusive(
      [said, verdict, still = still_, memory = keeper_.memory(), frozen = Frozen(),
       manifest = keeper_.genesis().manifest()] {
        *said = still->Look(manifest, memory->update(), frozen);
        *verdict = still->verdict();
      },
      guard_.Wrap([this, said, verdict, version = keeper_.version() + 1] {
        if (!said->empty()) env_.log.Warning(absl::StrCat("round ", version, ": ", *said));
        if (!masks_.masked()) figures_.OnLooked(*verdict);
      }));
}

// Encodes the waiting update. Only one update is offered at a time, and its encoding loss goes into
// the next one, so the slot is unchanged until an entry has settled the offered update.
void RoundRunner::EncodeWaiting() {
  if (own_.held()) return;
  const std::optional<v1::Boundary> boundary = training_.Encode();
  if (!boundary) return;
  const v1::Train& train = training_.train();
  exchange_.waker().OnWaiting();
  WatchTensors();
  OwnUpdate::Trained trained;
  trained.first_sample = train.samples().empty() ? boundary->version() : train.samples(0).first();
  trained.clip = double{absl::bit_cast<float>(train.clip_bits())};
  trained.parties = boundary->parties();
  trained.slow_codec = train.slow_codec();
  trained.owned = train.owned();
  trained.within = boundary->within();
  own_.Encode(trained, [this, boundary = *boundary, id = training_.id()](
                           const absl::Status& status, OwnUpdate::Encoded encoded) {
    if (id == training_.id()) OnEncoded(boundary, status, std::move(encoded));
  });
}

void RoundRunner::OnEncoded(const v1::Boundary& boundary, const absl::Status& status,
                            OwnUpdate::Encoded encoded) {
  if (!status.ok()) {
    // The same worker would make the same of the same samples.
    training_.Spoil();
    return worker_.Restart(absl::DataLossError(absl::StrCat(
        "round ", boundary.version(), ": no update can be made of it: ", status.message())));
  }
  worker_.Accept();
  v1::Ready ready;
  ready.set_age(training_.age());
  ready.set_steps(boundary.steps());
  ready.set_tokens(boundary.tokens());
  ready.set_loss(boundary.loss());
  ready.set_train_seconds(boundary.seconds());
  figures_.Tell(&ready);
  ready.set_own_samples(boundary.samples());
  ready.set_base_loss(boundary.first_loss());
  ready.set_parties(boundary.parties());
  ready.set_party_weight(boundary.weight());
  *ready.mutable_samples() = training_.train().samples();
  ready.set_train_number(training_.train().number());
  ready.set_clip_bits(absl::bit_cast<uint32_t>(static_cast<float>(encoded.clip)));
  ready.set_within(encoded.within);
  own_.Hold(std::move(encoded), std::move(ready), training_.missed());
  mode_->OnHeld(keeper_.version() + 1);
  training_.Offer();
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
  if (offered_) offered_ = ready->version();
  v1::PeerMessage message;
  *message.mutable_ready() = *std::move(ready);
  events_.send(message);
  exchange_.waker().OnWaiting();
  if (to_come_.ahead) TakeTrain(*std::exchange(to_come_.ahead, std::nullopt));
}

// An entry has left the update out, and it was dropped. A coordinator that was offered it knows
// this from the header; one that was not is told, since it waits for the update.
void RoundRunner::TellDropped() {
  if (own_.TakeDropped() && offered_.value_or(0) != own_.settled_version()) {
    events_.on_update_lost();
  }
}

// -----------------------------------------------------------------------------------------------
// Exchange

absl::Status RoundRunner::OnPlan(const v1::Plan& plan) {
  to_come_.plan.reset();
  if (!keeper_.has_state() || plan.version() > keeper_.version() + 1) {
    to_come_.plan = plan;  // an aggregator is not waited for: commits are still to come
    return absl::OkStatus();
  }
  if (plan.version() <= keeper_.version()) return absl::OkStatus();
  RETURN_IF_ERROR(masks_.CheckPlan(plan));
  return exchange_.OnPlan(plan);
}

void RoundRunner::OnEvaluate(const v1::Evaluate& evaluate) {
  evaluations_.OnEvaluate(evaluate, worker_ready());
}

// -----------------------------------------------------------------------------------------------
// The replica has moved

void RoundRunner::OnSkipped(const v1::EntryHeader& header) {
  const bool included = own_.TakenBy(header) != nullptr;
  if (!own_.OnSkipped(header)) return;
  if (included && mode_) mode_->OnTakenUnseen(header.version());
  if (training_.begun()) training_.NoteEntries(1);
}

void RoundRunner::OnOpened() {
  exchange_.End();  // a snapshot may have led past its entry
  if (training_.begun() && own_.settled_version() < keeper_.version()) {
    training_.NoteEntries(keeper_.version() - own_.settled_version());
  }
  if (own_.OnOpened()) {
    if (mode_) mode_->OnMaybeTaken();
    events_.on_update_lost();
  }
  TellDropped();
  own_.LoadCentre();
  masks_.OnMoved();
  if (mode_) mode_->OnOpened(worker_ready());
  EncodeWaiting();
  StartTraining();
  GoOn();
  CheckIdle();
}

void RoundRunner::OnDropped() {
  exchange_.End();
  own_.Drop();
  masks_.GiveUp(absl::CancelledError("the replica was dropped, and the update with it"));
  training_.Drop();
  to_come_.ahead.reset();
  if (mode_) mode_->OnDropped();
  evaluations_.GiveUp();
  CheckIdle();
}

void RoundRunner::OnCommitted(const v1::EntryHeader& header) {
  exchange_.End();
  figures_.OnCommitted(env_.executor.Now(), exchanged_bytes());
  const v1::Contributor* const taken = own_.TakenBy(header);
  const bool offered = own_.held(), included = taken != nullptr;
  const bool hardly_taken = included && mode_->KeepsUpdate() &&
                            IsHardlyTaken(keeper_.genesis().spec(), header, taken->peer());
  if (mode_) mode_->OnMoving(header);
  own_.OnCommitted(header);
  TellDropped();
  masks_.OnMoved();
  if (mode_) mode_->OnEntry(header, offered, included, worker_ready());
  if (hardly_taken) DisownTraining();
  if (offered && training_.stepping()) exchange_.waker().OnTraining(training_.began());
  EncodeWaiting();
  GoOn();
  CheckIdle();
}

// The worker trains from what the entry has hardly taken: its next update would bring that again.
// A worker that is still at it is left to its boundary, since its answer may be under way.
void RoundRunner::DisownTraining() {
  mode_->OnRefused();
  if (!training_.begun()) return;
  env_.log.Warning(absl::StrCat("round ", training_.train().version(),
                                ": the update before was scaled down to almost nothing, so this "
                                "training is made anew, without it"));
  training_.Disown();
  if (training_.state() == PeerTraining::State::kDone) BeginAnew();
}

void RoundRunner::BeginAnew() {
  const v1::Train train = training_.train();
  training_.Drop();
  training_.Give(train);
  StartTraining();
}

void RoundRunner::OnDigest() {
  exchange_.OnDigest();
  if (own_.held() && !exchange_.under_way()) SendReady();
}

// Carries out the messages for a version that was still to come. Evaluation comes first, since a
// commit waits for it.
void RoundRunner::GoOn() {
  evaluations_.OnMoved(worker_ready());
  if (to_come_.train) TakeTrain(v1::Train(*to_come_.train));
  if (!to_come_.plan) return;
  const absl::Status taken = OnPlan(v1::Plan(*to_come_.plan));
  if (!taken.ok()) events_.on_refused(taken);
}

// -----------------------------------------------------------------------------------------------
// What others see

void RoundRunner::Drain() {
  draining_ = true;
  ForgetNextTrains();
  // What is trained beside an update that stands would come after the round under way.
  if (own_.held() || !exchange_.under_way()) training_.Drop();
  CheckIdle();
}

void RoundRunner::Rest(Task done) {
  rested_ = std::move(done);
  if (rested_) {
    refused_ahead_ =
        refused_ahead_ || to_come_.ahead || (to_come_.train && to_come_.train->ahead());
    ForgetNextTrains();
  }
  if (!rested_ && std::exchange(refused_ahead_, false)) events_.on_update_lost();
  CheckIdle();
}

bool RoundRunner::idle() const {
  return !training_.given() && !own_.held() && !exchange_.under_way();
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
  if (!training_.given()) return {};
  return {training_.train().samples().begin(), training_.train().samples().end()};
}

std::vector<v1::SampleRange> RoundRunner::ahead_samples() const {
  if (!trains_ahead()) return {};
  return {training_.train().samples().begin(), training_.train().samples().end()};
}

RoundRunner::Phase RoundRunner::phase() const {
  if (keeper_.syncing()) return Phase::kSyncing;
  const bool worker_awaited = worker_.trains() && worker_state_ == WorkerState::kAway;
  if (worker_awaited || !keeper_.has_state()) return Phase::kStarting;
  // Whoever trains beside an exchange is at both; exchanging() tells of that.
  if (training_.stepping() && own_.held() && !evaluations_.under_way()) return Phase::kTraining;
  if (exchange_.under_way()) return Phase::kExchanging;
  if (masks_.under_way()) return Phase::kMasking;
  if (evaluations_.under_way()) return Phase::kEvaluating;
  if (training_.stepping()) return Phase::kTraining;
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
  figures_.Fill(&progress);
  progress.set_exchange_bytes_sent(exchange_.traffic().sent_bytes);
  progress.set_exchange_bytes_received(exchange_.traffic().received_bytes);
  progress.set_evaluated(evaluations_.evaluated());
  return progress;
}

}  // namespace atolld

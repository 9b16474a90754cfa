#include "worker/base/session.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "worker/base/trained_tensors.h"

namespace atolld {
namespace {

constexpr uint32_t kProtocol = 2;
constexpr absl::Duration kProgressEvery = absl::Milliseconds(250);  // worker.proto: a few a second

}  // namespace

Session::Session(Inbox& inbox, Outbox& outbox, Learner& learner, WorkerEnv env)
    : inbox_(inbox), outbox_(outbox), learner_(learner), env_(std::move(env)) {}

absl::Status Session::Run() {
  v1::WorkerMessage hello;
  hello.mutable_hello()->set_pid(static_cast<uint32_t>(::getpid()));
  hello.mutable_hello()->set_protocol(kProtocol);
  hello.mutable_hello()->set_software(learner_.software());
  outbox_.Send(hello);

  absl::Status status;
  while (status.ok()) {
    const absl::optional<Event> event = NextEvent();
    if (event.has_value()) {
      const absl::StatusOr<Next> next = Handle(*event);
      if (next.ok() && *next == Next::kEnd) return absl::OkStatus();
      status = next.status();
    } else if (training_) {
      status = TrainOn();
    }
  }
  v1::WorkerMessage failed;
  failed.mutable_failed()->set_what(std::string(status.message()));
  outbox_.Send(failed);
  return status;
}

// An idle worker waits for an event. A training worker only polls, unless its learner has nothing
// to do before some time has passed, or it cannot continue without a merge.
absl::optional<Event> Session::NextEvent() {
  if (!training_) return inbox_.TakeFor(absl::InfiniteDuration());
  const bool waits = Waits();
  if (!waits && done_.next <= absl::ZeroDuration()) return inbox_.TakeFor(absl::ZeroDuration());
  const absl::Time began = env_.now();
  absl::Duration limit = std::min(last_progress_ - began, absl::ZeroDuration()) + kProgressEvery;
  if (!waits) limit = std::min(limit, done_.next - LastedUntil(began));
  absl::optional<Event> event = inbox_.TakeFor(std::max(limit, absl::ZeroDuration()));
  if (waits) waited_ += env_.now() - began;
  return event;
}

absl::StatusOr<Session::Next> Session::Handle(const Event& event) {
  if (event.kind != Event::Kind::kMessage) {
    env_.Log(event.kind == Event::Kind::kClosed ? "the daemon closed the stream" : "asked to end");
    return Next::kEnd;
  }
  const v1::DaemonMessage& message = event.message;
  absl::Status status;
  switch (message.message_case()) {
    case v1::DaemonMessage::kConfigure:
      status = Configure(message.configure());
      break;
    case v1::DaemonMessage::kMapMemory:
      status = Map(message.map_memory());
      break;
    case v1::DaemonMessage::kWriteInitialState:
      status = WriteInitialState();
      break;
    case v1::DaemonMessage::kTrain:
      status = BeginTraining(message.train());
      break;
    case v1::DaemonMessage::kRebase:
      status = ApplyRebase(message.rebase());
      break;
    case v1::DaemonMessage::kMerge:
      status = TakeMerge(message.merge());
      break;
    case v1::DaemonMessage::kEvaluate:
      status = EvaluateOneShare(message.evaluate());
      if (absl::IsCancelled(status)) status = absl::OkStatus();  // the event that did it comes next
      break;
    case v1::DaemonMessage::kStop:
      learner_.Stop();
      return Next::kEnd;
    case v1::DaemonMessage::MESSAGE_NOT_SET:
      break;  // of a newer daemon; it does not depend on an answer
  }
  RETURN_IF_ERROR(status);
  return Next::kGoOn;
}

absl::Status Session::Configure(const v1::Configure& configure) {
  training_ = has_own_ = false;
  train_ = v1::TrainSteps();
  merges_ = MergePoint();
  slots_ = nullptr;
  v1::WorkerMessage message;
  ASSIGN_OR_RETURN(*message.mutable_configured(), learner_.Configure(configure));
  manifest_ = message.configured().manifest();
  outbox_.Send(message);
  return absl::OkStatus();
}

absl::Status Session::Map(const v1::MapMemory& map) {
  if (manifest_.elements() == 0) {
    return absl::FailedPreconditionError("MapMemory came before Configure");
  }
  ASSIGN_OR_RETURN(slots_, Slots::Map(map, manifest_.elements()));
  return absl::OkStatus();
}

absl::Status Session::RequireMemory(absl::string_view message) const {
  if (slots_ != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(message, " came before MapMemory"));
}

absl::Status Session::WriteInitialState() {
  RETURN_IF_ERROR(RequireMemory("WriteInitialState"));
  RETURN_IF_ERROR(learner_.Initialise(slots_->update()));
  has_own_ = false;  // they stand on no base
  v1::WorkerMessage message;
  message.mutable_initial_state_written();
  outbox_.Send(message);
  return absl::OkStatus();
}

absl::Status Session::BeginTraining(const v1::TrainSteps& train) {
  RETURN_IF_ERROR(RequireMemory("TrainSteps"));
  ASSIGN_OR_RETURN(const absl::Span<const float> from, FromOf(train));
  RETURN_IF_ERROR(TrainedTensors::Without(train, manifest_).status());
  // Any training that went on is given up: this one supersedes it.
  if (std::exchange(training_, false)) RETURN_IF_ERROR(learner_.CatchUp(*slots_));
  ASSIGN_OR_RETURN(steps_, learner_.Begin(train, *slots_));
  RETURN_IF_ERROR(StartFrom(from, train));
  merges_.Begin(train, from.empty());
  training_ = true;
  done_ = StepsDone();
  evaluating_ = waited_ = absl::ZeroDuration();
  began_ = env_.now();
  RETURN_IF_ERROR(learner_.Start(from, *slots_));
  SendProgress();
  return Settle();
}

// Returns the slot from which the training starts; nothing if the worker goes on from its own
// parameters.
absl::StatusOr<absl::Span<const float>> Session::FromOf(const v1::TrainSteps& train) const {
  TrainingStart start;
  RETURN_IF_ERROR(ReadStart(train, &start));
  if (start == TrainingStart::kOwn && has_own_) return absl::Span<const float>();
  if (start == TrainingStart::kOwn) {
    env_.Log(absl::StrCat("version ", train.version(),
                          ": there are no parameters of its own to go on from; it starts from "
                          "theta"));
  }
  if (start != TrainingStart::kGuess) return slots_->theta();
  if (!slots_->guess().empty()) return slots_->guess();
  return absl::FailedPreconditionError(
      "TrainSteps.start is 'guess', and MapMemory named no slot for it");
}

// Makes `train` the training under way, and sets base and parameters to those from which it starts.
absl::Status Session::StartFrom(absl::Span<const float> from, const v1::TrainSteps& train) {
  const bool some_frozen = !train.frozen().empty() || !train_.frozen().empty();
  train_ = train;
  const absl::Span<float> own = learner_.parameters();
  if (own.empty() || (from.empty() && !some_frozen)) return absl::OkStatus();
  const absl::Span<const float> theta = slots_->theta();
  if (!from.empty()) {
    base_.assign(from.begin(), from.end());
    std::copy(base_.begin(), base_.end(), own.begin());
    has_own_ = true;
  }
  if (from.data() != theta.data()) {  // frozen tensors are theta's wherever the others start from
    for (const v1::ValueRange& range : train_.frozen()) {
      absl::c_copy(theta.subspan(range.first(), range.count()),
                   base_.begin() + static_cast<std::ptrdiff_t>(range.first()));
    }
    KeepFrozen();
  }
  return learner_.Moved(base_);
}

// Sets frozen parameters to the base, so that the update is 0 there.
void Session::KeepFrozen() {
  const absl::Span<float> own = learner_.parameters();
  for (const v1::ValueRange& range : train_.frozen()) {
    absl::c_copy(absl::MakeConstSpan(base_).subspan(range.first(), range.count()),
                 own.subspan(range.first()).begin());
  }
}

absl::Status Session::TrainOn() {
  if (!Waits()) {
    const absl::StatusOr<StepsDone> done =
        learner_.TrainOn(LastedUntil(env_.now()), merges_.StepsBefore(steps_));
    RETURN_IF_ERROR(Annotate(
        done.status(),
        absl::StrCat("version ", train_.version(),
                     train_.party() == 0 ? "" : absl::StrCat(", party ", train_.party()))));
    done_ = *done;
    RETURN_IF_ERROR(Settle());
    if (!training_) return absl::OkStatus();
  }
  if (Waits() || env_.now() - last_progress_ >= kProgressEvery) SendProgress();
  return absl::OkStatus();
}

absl::Status Session::TakeMerge(const v1::Merge& merge) {
  RETURN_IF_ERROR(RequireMemory("Merge"));
  merges_.Add(merge);
  return Settle();
}

// Between two steps, or without a training: does the merges that are due, and ends a training that
// has nothing left to do.
absl::Status Session::Settle() {
  for (const v1::Merge& merge : merges_.Take(done_.steps, steps_)) {
    if (!has_own_) continue;  // its next training begins from theta
    RETURN_IF_ERROR(learner_.CatchUp(*slots_));
    RETURN_IF_ERROR(
        MergeInto(merge, slots_->theta(), absl::MakeSpan(base_), learner_.parameters()));
    KeepFrozen();
    RETURN_IF_ERROR(learner_.Moved(base_));
  }
  return training_ && done_.steps >= steps_ && !Waits() ? FinishTraining() : absl::OkStatus();
}

absl::Status Session::FinishTraining() {
  RETURN_IF_ERROR(learner_.CatchUp(*slots_));
  const absl::Duration took = LastedUntil(env_.now());
  if (has_own_) {
    const absl::Span<const float> own = learner_.parameters();
    const absl::Span<float> update = slots_->update();
    for (size_t i = 0; i < update.size(); ++i) update[i] = base_[i] - own[i];
  }
  training_ = false;
  // Before the daemon can have the update committed: then a restart finds what it goes on from.
  learner_.Finish(*slots_);
  v1::WorkerMessage message;
  v1::Boundary& boundary = *message.mutable_boundary();
  boundary.set_version(train_.version());
  boundary.set_steps(done_.steps);
  boundary.set_tokens(done_.tokens);
  boundary.set_loss(done_.loss);
  boundary.set_seconds(absl::ToDoubleSeconds(took));
  boundary.set_first_loss(done_.first_loss);
  boundary.set_samples(done_.samples);
  boundary.set_party(train_.party());
  boundary.set_waited_seconds(absl::ToDoubleSeconds(waited_));
  outbox_.Send(message);
  learner_.AfterBoundary();
  return absl::OkStatus();
}

absl::Status Session::ApplyRebase(const v1::Rebase& rebase) {
  RETURN_IF_ERROR(RequireMemory("Rebase"));
  if (!training_) return absl::OkStatus();  // the boundary was crossed first
  // Without a copy of them, base and parameters move alike, and the update does not change.
  if (!has_own_) return absl::OkStatus();
  RETURN_IF_ERROR(learner_.CatchUp(*slots_));
  if (rebase.keep_parameters()) {
    absl::c_copy(slots_->theta(), base_.begin());
  } else {
    RebaseOnto(slots_->theta(), absl::MakeSpan(base_), learner_.parameters());
  }
  KeepFrozen();
  return learner_.Moved(base_);
}

absl::Status Session::EvaluateOneShare(const v1::EvaluateShare& evaluate) {
  RETURN_IF_ERROR(RequireMemory("EvaluateShare"));
  const absl::Time began = env_.now();
  evaluated_ = 0;
  v1::WorkerMessage message;
  v1::WorkerEvaluated& evaluated = *message.mutable_evaluated();
  const absl::Status status = learner_.Evaluate(evaluate, *slots_, StopOf(evaluate), &evaluated);
  evaluating_ += env_.now() - began;
  if (absl::IsCancelled(status)) return status;
  RETURN_IF_ERROR(Annotate(status, absl::StrCat("version ", evaluate.version())));
  evaluated.set_version(evaluate.version());
  evaluated.set_share(evaluate.share());
  evaluated.set_shares(evaluate.shares());
  evaluated.set_own(evaluate.own());
  evaluated.set_party(evaluate.party());
  outbox_.Send(message);
  return absl::OkStatus();
}

// Returns what an evaluation calls between two batches.
std::function<bool()> Session::StopOf(const v1::EvaluateShare& evaluate) {
  return [this, version = evaluate.version()] {
    if (evaluated_ > 0 && env_.now() - last_progress_ >= kProgressEvery) {
      SendEvaluated(version, evaluated_);
    }
    ++evaluated_;
    return inbox_.Ending();
  };
}

// Returns how long the training under way has lasted without evaluations and waits.
absl::Duration Session::LastedUntil(absl::Time time) const {
  return time - began_ - evaluating_ - waited_;
}

void Session::SendProgress() {
  last_progress_ = env_.now();
  const double seconds = absl::ToDoubleSeconds(LastedUntil(last_progress_));
  const auto tokens = static_cast<double>(done_.tokens);
  v1::WorkerMessage message;
  v1::WorkerProgress& progress = *message.mutable_progress();
  progress.set_version(train_.version());
  progress.set_step(done_.steps);
  progress.set_steps(steps_);
  progress.set_loss(done_.loss);
  progress.set_tokens_per_second(done_.steps == 0 || seconds <= 0 ? 0 : tokens / seconds);
  progress.set_waited_seconds(absl::ToDoubleSeconds(waited_));
  outbox_.Send(message);
}

// Reports that the evaluation progresses, however long it takes.
void Session::SendEvaluated(uint64_t version, uint64_t done) {
  last_progress_ = env_.now();
  v1::WorkerMessage message;
  message.mutable_progress()->set_version(version);
  message.mutable_progress()->set_evaluated(done);
  outbox_.Send(message);
}

}  // namespace atolld

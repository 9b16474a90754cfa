#include "worker/program/session.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "worker/base/file_io.h"
#include "worker/base/schedule.h"
#include "worker/data/sample_order.h"
#include "worker/model/torch_version.h"
#include "worker/training/device.h"
#include "worker/training/gradient_terms.h"

namespace atolld {
namespace {

constexpr uint32_t kProtocol = 2;
constexpr absl::Duration kProgressEvery = absl::Milliseconds(250);  // worker.proto: a few a second
// In boundaries: the most that a crash of the machine can lose of the moments.
constexpr uint64_t kSyncEvery = 10;
// Up to four epochs, repeated data is nearly as good as new data (Muennighoff et al. 2023).
constexpr double kManyEpochs = 4;

// Returns the sample numbers of inner step `step` of a round: the leased ranges, one after another,
// or without a lease the run's own numbering of steps.
absl::StatusOr<std::vector<uint64_t>> SamplesOf(const v1::TrainSteps& train, uint32_t step,
                                                uint32_t batch) {
  uint64_t skip = uint64_t{step} * batch;
  std::vector<uint64_t> samples;
  samples.reserve(batch);
  if (train.samples().empty()) {
    for (uint32_t i = 0; i < batch; ++i) samples.push_back(train.first_step() * batch + skip + i);
    return samples;
  }
  uint64_t leased = 0;
  for (const v1::SampleRange& range : train.samples()) {
    leased += range.count();
    if (skip >= range.count()) {
      skip -= range.count();
      continue;
    }
    for (; skip < range.count() && samples.size() < batch; ++skip) {
      samples.push_back(range.first() + skip);
    }
    skip = 0;
    if (samples.size() == batch) return samples;
  }
  return absl::InvalidArgumentError(absl::StrCat("the lease has ", Counted(leased, "sample"), "; ",
                                                 Counted(train.steps(), "step"), " of ", batch,
                                                 " need ", uint64_t{train.steps()} * batch));
}

}  // namespace

Session::Session(Inbox& inbox, Outbox& outbox, Options options)
    : inbox_(inbox), outbox_(outbox), options_(std::move(options)) {}

void Session::Log(const std::string& line) const {
  if (options_.log) options_.log(line);
}

absl::Status Session::Run() {
  v1::WorkerMessage hello;
  hello.mutable_hello()->set_pid(static_cast<uint32_t>(::getpid()));
  hello.mutable_hello()->set_protocol(kProtocol);
  hello.mutable_hello()->set_software(SoftwareVersion());
  outbox_.Send(hello);

  absl::Status status;
  while (status.ok()) {
    const absl::optional<Event> event = NextEvent();
    if (event.has_value()) {
      const absl::StatusOr<Next> next = Handle(*event);
      if (next.ok() && *next == Next::kEnd) return absl::OkStatus();
      status = next.status();
    } else if (stretched_.has_value() && owed_ <= absl::ZeroDuration()) {
      status = EndStep(*std::exchange(stretched_, absl::nullopt));
    } else if (stretched_.has_value() || Waits()) {
      SendProgress();  // it lives
    } else {
      status = TrainOneStep();
    }
  }
  v1::WorkerMessage failed;
  failed.mutable_failed()->set_what(std::string(status.message()));
  outbox_.Send(failed);
  return status;
}

// An idle worker waits for an event. A training worker only polls, unless its step must last longer
// than it took, or it cannot continue without a merge.
absl::optional<Event> Session::NextEvent() {
  if (!training_) return inbox_.Take();
  if (!stretched_.has_value() && !Waits()) return inbox_.TryTake();
  const absl::Time began = options_.now();
  absl::optional<Event> event =
      inbox_.TakeFor(stretched_.has_value() ? std::min(owed_, kProgressEvery) : kProgressEvery);
  const absl::Duration passed = options_.now() - began;
  if (stretched_.has_value()) {
    owed_ -= passed;
  } else {
    waited_ += passed;
  }
  return event;
}

absl::StatusOr<Session::Next> Session::Handle(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kClosed:
      Log("the daemon closed the stream");
      return Next::kEnd;
    case Event::Kind::kTerminated:
      Log("asked to end");
      return Next::kEnd;
    case Event::Kind::kMessage:
      break;
  }
  return HandleMessage(event.message);
}

absl::StatusOr<Session::Next> Session::HandleMessage(const v1::DaemonMessage& message) {
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
      Warn(keeper_ == nullptr ? absl::OkStatus() : keeper_->Sync());
      return Next::kEnd;
    case v1::DaemonMessage::MESSAGE_NOT_SET:
      break;  // of a newer daemon; it does not depend on an answer
  }
  RETURN_IF_ERROR(status);
  return Next::kGoOn;
}

absl::Status Session::Configure(const v1::Configure& configure) {
  spec_ = configure.spec();
  state_path_ = configure.state_path();
  training_ = has_own_ = false;
  merges_ = MergePoint();
  warned_of_epochs_ = false;
  slots_ = nullptr;
  keeper_ = nullptr;
  trainer_ = nullptr;
  const int threads =
      options_.set_threads ? options_.set_threads(static_cast<int>(configure.threads())) : 1;
  ASSIGN_OR_RETURN(const std::vector<std::string> devices,
                   ResolveDevices(options_.device, ProbeGpus()));
  ASSIGN_OR_RETURN(load_, OpenWorkload(configure, devices));
  for (const std::string& note : load_.notes) Log(absl::StrCat("data: ", note));
  trainer_ = std::move(load_.trainer);
  keeper_ =
      std::make_unique<PartyKeeper>(*trainer_, spec_, state_path_, options_.now, options_.log);
  if (load_.parties == nullptr) RETURN_IF_ERROR(keeper_->Open());
  KeepTokenizer();
  SendConfigured(threads);
  return absl::OkStatus();
}

void Session::SendConfigured(int threads) {
  v1::WorkerMessage message;
  v1::WorkerConfigured& configured = *message.mutable_configured();
  *configured.mutable_manifest() = trainer_->manifest();
  configured.set_data_digest(load_.data_digest);
  configured.set_train_tokens(load_.train_tokens);
  configured.set_validation_tokens(load_.validation_tokens);
  if (const Tokenizer* tokenizer = load_.tokenizer.get()) {
    configured.set_tokenizer(tokenizer->kind());
    configured.set_tokenizer_digest(tokenizer->digest());
    configured.set_vocabulary(tokenizer->vocabulary());
  }
  configured.set_device(load_.device);
  configured.set_math_kernel(options_.math.kernel);
  configured.set_gflops(options_.math.gflops);
  configured.set_parties(load_.parties == nullptr ? 0 : load_.parties->found());
  configured.set_samples(load_.samples);
  configured.set_own_validation_tokens(load_.own_validation_tokens);
  outbox_.Send(message);
  Log(absl::StrFormat("run %s: %s, %s, on %s, %s", spec_.run_id(),
                      Counted(trainer_->manifest().elements(), "parameter"),
                      Counted(load_.train_tokens, "training token"), load_.device,
                      Counted(threads, "thread")));
}

absl::Status Session::Map(const v1::MapMemory& map) {
  if (trainer_ == nullptr) {
    return absl::FailedPreconditionError("MapMemory came before Configure");
  }
  ASSIGN_OR_RETURN(slots_, Slots::Map(map, trainer_->manifest().elements()));
  return absl::OkStatus();
}

absl::Status Session::RequireMemory(absl::string_view message) const {
  if (slots_ != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(message, " came before MapMemory"));
}

absl::Status Session::WriteInitialState() {
  RETURN_IF_ERROR(RequireMemory("WriteInitialState"));
  RETURN_IF_ERROR(trainer_->Initialise());
  has_own_ = false;  // they stand on no base
  const absl::Span<const float> from = trainer_->parameters();
  std::copy(from.begin(), from.end(), slots_->update().begin());
  v1::WorkerMessage message;
  message.mutable_initial_state_written();
  outbox_.Send(message);
  return absl::OkStatus();
}

absl::Status Session::BeginTraining(const v1::TrainSteps& train) {
  RETURN_IF_ERROR(RequireMemory("TrainSteps"));
  TrainingStart start;
  RETURN_IF_ERROR(ReadStart(train, &start));
  if (training_) RETURN_IF_ERROR(GiveUpRound());
  RETURN_IF_ERROR(TakeUpParty(train));
  if (start == TrainingStart::kOwn && !has_own_) {
    start = TrainingStart::kTheta;
    Log(absl::StrCat("version ", train.version(),
                     ": there are no parameters of its own to go on from; it starts from theta"));
  }
  RETURN_IF_ERROR(BeginFrom(start));
  merges_.Begin(train, start == TrainingStart::kOwn);
  RETURN_IF_ERROR(TakeUpControl(train.taken()));
  // Any training that went on is given up: this one supersedes it.
  train_ = train;
  training_ = true;
  steps_done_ = 0;
  samples_done_ = 0;
  tokens_done_ = 0;
  loss_sum_ = first_loss_ = rates_ = 0;
  evaluating_ = waited_ = absl::ZeroDuration();
  stretched_.reset();
  began_ = options_.now();
  PlanRound();
  if (!spec_.data().private_()) CountEpochs(train_);
  SendProgress();
  return Settle();
}

absl::Status Session::BeginFrom(TrainingStart start) {
  if (start == TrainingStart::kOwn) return absl::OkStatus();
  const absl::Span<const float> from =
      start == TrainingStart::kGuess ? slots_->guess() : slots_->theta();
  if (from.empty()) {
    return absl::FailedPreconditionError(
        "TrainSteps.start is 'guess', and MapMemory named no slot for it");
  }
  base_.assign(from.begin(), from.end());
  std::copy(base_.begin(), base_.end(), trainer_->parameters().begin());
  has_own_ = true;
  trainer_->terms().SetBase(base_);
  return trainer_->PushParameters();
}

// When the party is taken up again, its state is that of its last finished training.
absl::Status Session::GiveUpRound() {
  training_ = false;
  return trainer_->FetchParameters();
}

uint32_t Session::NumberOf(uint32_t party) const {
  return load_.parties == nullptr || party == 0 ? 0 : load_.parties->NumberOf(party);
}

// Loads the data and the state of the party whose turn it is.
absl::Status Session::TakeUpParty(const v1::TrainSteps& train) {
  const bool virtual_ones = load_.parties != nullptr;
  if (virtual_ones != (train.party() != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("version ", train.version(), ": TrainSteps is for party ", train.party(),
                     virtual_ones ? ", and this worker has virtual parties, from 1 on"
                                  : ", and this worker is one party"));
  }
  if (!virtual_ones) return keeper_->TakeUp(0, train.version());
  ASSIGN_OR_RETURN(std::shared_ptr<const Corpus> corpus, load_.parties->Open(train.party()));
  const uint64_t samples = corpus->samples();
  RETURN_IF_ERROR(trainer_->Use(std::move(corpus)));
  const uint32_t number = NumberOf(train.party());
  if (!train.fresh()) return keeper_->TakeUp(number, train.version());
  return keeper_->BeginAnew(PassOf(spec_.seed(), number, train.version()) * samples);
}

absl::Status Session::TakeUpControl(bool taken) {
  if (!spec_.inner().control_variates()) return absl::OkStatus();
  if (slots_->control().empty()) {
    return absl::FailedPreconditionError(
        "the run has control variates, and MapMemory named no slot for the common one");
  }
  keeper_->Settle(taken);
  common_.assign(slots_->control().begin(), slots_->control().end());
  trainer_->terms().SetControl(common_, keeper_->control());
  return absl::OkStatus();
}

// Sets how many steps a round has: the number asked for, or as many as go through the party's data
// that often. In the latter case a round ends at the end of a pass, and its last step has the
// samples that are left.
void Session::PlanRound() {
  steps_ = train_.steps();
  const uint64_t batch = spec_.inner().batch(), epochs = spec_.inner().epochs();
  round_samples_ = steps_ * batch;
  if (epochs == 0 || steps_ == 0) return;
  constexpr uint64_t kMostSteps = std::numeric_limits<uint32_t>::max();
  round_samples_ = std::min(epochs * trainer_->corpus().samples(), kMostSteps * batch);
  steps_ = static_cast<uint32_t>((round_samples_ + batch - 1) / batch);
}

absl::StatusOr<std::vector<uint64_t>> Session::NextSamples() const {
  const uint32_t batch = spec_.inner().batch();
  if (!spec_.data().private_()) return SamplesOf(train_, steps_done_, batch);
  std::vector<uint64_t> samples;
  const uint64_t end = std::min(round_samples_, samples_done_ + batch);
  const uint64_t first = keeper_->position() + train_.again() * round_samples_;
  for (uint64_t i = samples_done_; i < end; ++i) samples.push_back(first + i);
  return samples;
}

void Session::CountEpochs(const v1::TrainSteps& train) {
  uint64_t end =
      train.samples().empty() ? (train.first_step() + train.steps()) * spec_.inner().batch() : 0;
  for (const v1::SampleRange& range : train.samples()) {
    end = std::max(end, range.first() + range.count());
  }
  const double epochs = trainer_->Epochs(end);
  if (warned_of_epochs_ || epochs <= kManyEpochs) return;
  warned_of_epochs_ = true;
  Log(absl::StrFormat(
      "warning: the run has read its training data %.1f times; past %.0f epochs repeated text "
      "teaches little: give it more data or fewer rounds",
      epochs, kManyEpochs));
}

absl::Status Session::TrainOneStep() {
  const auto context = [&] {
    return absl::StrCat("version ", train_.version(),
                        train_.party() == 0 ? "" : absl::StrCat(", party ", train_.party()));
  };
  const absl::Time began = options_.now();
  auto samples = NextSamples();
  RETURN_IF_ERROR(Annotate(samples.status(), context()));
  const uint64_t step = StepOfRun(train_.first_step(), steps_done_, steps_, spec_.inner().steps());
  const auto loss = trainer_->Step(step, *samples);
  RETURN_IF_ERROR(Annotate(loss.status(), context()));
  StepDone done;
  done.loss = *loss;
  done.rate = static_cast<double>(static_cast<float>(LearningRate(spec_.inner(), step)));
  done.samples = samples->size();
  for (const uint64_t sample : *samples) done.tokens += trainer_->corpus().TargetsOf(sample);
  if (options_.slower <= 1) return EndStep(done);
  owed_ = (options_.slower - 1) * (options_.now() - began);
  stretched_ = done;
  return absl::OkStatus();
}

absl::Status Session::EndStep(const StepDone& done) {
  if (steps_done_ == 0) first_loss_ = done.loss;
  loss_sum_ += done.loss;
  rates_ += done.rate;
  samples_done_ += done.samples;
  tokens_done_ += done.tokens;
  ++steps_done_;
  RETURN_IF_ERROR(Settle());
  if (!training_) return absl::OkStatus();
  if (Waits() || options_.now() - last_progress_ >= kProgressEvery) SendProgress();
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
  const std::vector<v1::Merge> due = merges_.Take(steps_done_, steps_);
  for (const v1::Merge& merge : due) RETURN_IF_ERROR(Merge(merge));
  return training_ && steps_done_ >= steps_ && !Waits() ? FinishTraining() : absl::OkStatus();
}

absl::Status Session::Merge(const v1::Merge& merge) {
  if (!has_own_) return absl::OkStatus();  // its next training begins from theta
  RETURN_IF_ERROR(trainer_->FetchParameters());
  RETURN_IF_ERROR(MergeInto(merge, slots_->theta(), absl::MakeSpan(base_), trainer_->parameters()));
  trainer_->terms().SetBase(base_);
  return trainer_->PushParameters();
}

absl::Status Session::FinishTraining() {
  RETURN_IF_ERROR(trainer_->FetchParameters());
  const absl::Duration took = options_.now() - began_ - evaluating_ - waited_;
  const absl::Span<const float> parameters = trainer_->parameters();
  const absl::Span<float> update = slots_->update();
  for (size_t i = 0; i < update.size(); ++i) update[i] = base_[i] - parameters[i];
  training_ = false;
  const uint64_t passed = samples_done_ + train_.again() * round_samples_;
  keeper_->Finish(train_.version(), passed, update, common_, rates_);
  // Before the daemon can have the update committed: then a restart finds what it goes on from.
  Warn(keeper_->Save());
  v1::WorkerMessage message;
  v1::Boundary& boundary = *message.mutable_boundary();
  boundary.set_version(train_.version());
  boundary.set_steps(steps_done_);
  boundary.set_tokens(tokens_done_);
  boundary.set_loss(steps_done_ == 0 ? 0 : loss_sum_ / steps_done_);
  boundary.set_seconds(absl::ToDoubleSeconds(took));
  boundary.set_first_loss(first_loss_);
  boundary.set_samples(samples_done_);
  boundary.set_party(train_.party());
  boundary.set_waited_seconds(absl::ToDoubleSeconds(waited_));
  outbox_.Send(message);
  // Now and then, since a sync may take as long as a small party's round.
  if (++boundaries_ % kSyncEvery == 0 && load_.parties == nullptr) Warn(keeper_->Sync());
  return absl::OkStatus();
}

absl::Status Session::ApplyRebase(const v1::Rebase& rebase) {
  RETURN_IF_ERROR(RequireMemory("Rebase"));
  if (!training_) return absl::OkStatus();  // the boundary was crossed first
  if (rebase.keep_parameters()) {
    absl::c_copy(slots_->theta(), base_.begin());
    trainer_->terms().SetBase(base_);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(trainer_->FetchParameters());
  RebaseOnto(slots_->theta(), absl::MakeSpan(base_), trainer_->parameters());
  trainer_->terms().SetBase(base_);
  return trainer_->PushParameters();
}

absl::Status Session::EvaluateOneShare(const v1::EvaluateShare& evaluate) {
  RETURN_IF_ERROR(RequireMemory("EvaluateShare"));
  const absl::Time began = options_.now();
  evaluated_ = 0;
  v1::WorkerMessage message;
  v1::WorkerEvaluated& evaluated = *message.mutable_evaluated();
  const auto sum = evaluate.own() ? EvaluateOwn(evaluate, &evaluated) : EvaluateCommon(evaluate);
  evaluating_ += options_.now() - began;
  if (absl::IsCancelled(sum.status())) return sum.status();
  RETURN_IF_ERROR(Annotate(sum.status(), absl::StrCat("version ", evaluate.version())));
  evaluated.set_version(evaluate.version());
  evaluated.set_share(evaluate.share());
  evaluated.set_shares(evaluate.shares());
  evaluated.set_loss_sum(sum->loss_sum);
  evaluated.set_tokens(sum->tokens);
  evaluated.set_own(evaluate.own());
  evaluated.set_party(evaluate.party());
  outbox_.Send(message);
  return absl::OkStatus();
}

// Returns what an evaluation calls between two batches.
std::function<bool()> Session::StopOf(const v1::EvaluateShare& evaluate) {
  return [this, version = evaluate.version()] {
    if (evaluated_ > 0 && options_.now() - last_progress_ >= kProgressEvery) {
      SendEvaluated(version, evaluated_);
    }
    ++evaluated_;
    return inbox_.Ending();
  };
}

absl::StatusOr<EvaluationSum> Session::EvaluateCommon(const v1::EvaluateShare& evaluate) {
  if (!spec_.data().private_()) {
    return trainer_->Evaluate(slots_->theta(), evaluate.share(), evaluate.shares(),
                              StopOf(evaluate));
  }
  if (load_.common == nullptr) return EvaluationSum();  // nothing is held out for all
  return trainer_->EvaluateOn(*load_.common, slots_->theta(), trainer_->personal(),
                              evaluate.share(), evaluate.shares(), StopOf(evaluate));
}

// Evaluates the one party that is asked for, or all parties of this worker.
absl::StatusOr<EvaluationSum> Session::EvaluateOwn(const v1::EvaluateShare& evaluate,
                                                   v1::WorkerEvaluated* evaluated) {
  uint32_t first = evaluate.party(), last = evaluate.party();
  if (load_.parties != nullptr && first == 0) {
    first = 1;
    last = load_.parties->parties();
  }
  EvaluationSum sum;
  for (uint32_t party = first; party <= last; ++party) {
    ASSIGN_OR_RETURN(const EvaluationSum one, EvaluateParty(evaluate, party));
    sum.loss_sum += one.loss_sum;
    sum.tokens += one.tokens;
    if (one.tokens > 0) {
      evaluated->add_own_losses(one.loss_sum / static_cast<double>(one.tokens));
    }
  }
  return sum;
}

absl::StatusOr<EvaluationSum> Session::EvaluateParty(const v1::EvaluateShare& evaluate,
                                                     uint32_t party) {
  if (load_.parties == nullptr) {
    return trainer_->Evaluate(slots_->theta(), 0, 1, StopOf(evaluate));
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<const Corpus> corpus, load_.parties->Open(party));
  ASSIGN_OR_RETURN(const std::vector<float> personal, keeper_->PersonalOf(NumberOf(party)));
  return trainer_->EvaluateOn(*corpus, slots_->theta(), personal, 0, 1, StopOf(evaluate));
}

void Session::SendProgress() {
  last_progress_ = options_.now();
  const double seconds = absl::ToDoubleSeconds(last_progress_ - began_ - evaluating_ - waited_);
  const auto tokens = static_cast<double>(tokens_done_);
  v1::WorkerMessage message;
  v1::WorkerProgress& progress = *message.mutable_progress();
  progress.set_version(train_.version());
  progress.set_step(steps_done_);
  progress.set_steps(steps_);
  progress.set_loss(steps_done_ == 0 ? 0 : loss_sum_ / steps_done_);
  progress.set_tokens_per_second(steps_done_ == 0 || seconds <= 0 ? 0 : tokens / seconds);
  progress.set_waited_seconds(absl::ToDoubleSeconds(waited_));
  outbox_.Send(message);
}

// Reports that the evaluation progresses, however long it takes.
void Session::SendEvaluated(uint64_t version, uint64_t done) {
  last_progress_ = options_.now();
  v1::WorkerMessage message;
  message.mutable_progress()->set_version(version);
  message.mutable_progress()->set_evaluated(done);
  outbox_.Send(message);
}

void Session::Warn(const absl::Status& status) const {
  if (!status.ok()) Log(absl::StrCat("warning: ", status.message()));
}

// Keeps it beside the optimiser's state, where text generation finds it later.
void Session::KeepTokenizer() {
  const Tokenizer* tokenizer = load_.tokenizer.get();
  if (state_path_.empty() || tokenizer == nullptr || tokenizer->file().empty()) return;
  const std::string& file = tokenizer->file();
  const absl::Status status = WriteFileDurably(
      state_path_ + ".tokenizer", {AsBytes(absl::MakeConstSpan(file.data(), file.size()))});
  Warn(status);
}

std::string TorchVersion() { return kTorchVersion; }

std::string SoftwareVersion() {
  return "atoll-worker " ATOLL_VERSION ", libtorch " + TorchVersion();
}

}  // namespace atolld

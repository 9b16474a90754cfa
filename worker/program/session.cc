#include "worker/program/session.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "worker/base/file_io.h"
#include "worker/base/schedule.h"
#include "worker/data/arrays.h"
#include "worker/data/training_data.h"
#include "worker/model/torch_version.h"
#include "worker/torchscript/torchscript_trainer.h"
#include "worker/training/device.h"
#include "worker/training/inner_optimizer.h"

namespace atolld {
namespace {

absl::StatusOr<Workload> OpenTokens(const v1::Configure& configure,
                                    const std::vector<std::string>& devices) {
  const v1::RunSpec& spec = configure.spec();
  ASSIGN_OR_RETURN(
      std::shared_ptr<const TrainingData> data,
      TrainingData::Open(spec.data(), configure.data_path(), spec.model().vocabulary()));
  Workload load;
  ASSIGN_OR_RETURN(load.trainer, Trainer::Make(spec, *data, devices));
  load.device = absl::StrJoin(devices, ",");
  load.data_digest = data->digest();
  load.train_tokens = data->train_tokens();
  load.validation_tokens = data->validation_tokens();
  load.tokenizer = data->tokenizer();
  load.notes = data->notes();
  load.data = std::move(data);
  return load;
}

absl::StatusOr<Workload> OpenTorchScript(const v1::Configure& configure,
                                         const std::vector<std::string>& devices) {
  const v1::RunSpec& spec = configure.spec();
  // What a script draws comes from libtorch's one generator, in the order of the threads.
  if (devices.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a model of kind 'torchscript' trains on one device, and [worker] device "
                     "names ",
                     devices.size(), " (", absl::StrJoin(devices, ","), "); name one"));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const Arrays> arrays,
                   Arrays::Open(configure.data_path(), spec.data().validation_fraction()));
  const std::string& wanted = spec.data().digest();
  if (!wanted.empty() && wanted != arrays->digest()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data: ", configure.data_path(), " has SHA-256 ", absl::BytesToHexString(arrays->digest()),
        "; the run trains on ", absl::BytesToHexString(wanted)));
  }
  Workload load;
  ASSIGN_OR_RETURN(load.trainer, MakeTorchScriptTrainer(spec, *arrays));
  load.device = "cpu";
  load.data_digest = arrays->digest();
  load.train_tokens = arrays->train_rows();
  load.validation_tokens = arrays->validation_rows();
  load.data = std::move(arrays);
  return load;
}

}  // namespace

absl::StatusOr<Workload> OpenWorkload(const v1::Configure& configure,
                                      const std::vector<std::string>& devices) {
  if (configure.spec().model().kind() == "torchscript") return OpenTorchScript(configure, devices);
  return OpenTokens(configure, devices);
}

namespace {

constexpr uint32_t kProtocol = 1;
constexpr absl::Duration kProgressEvery = absl::Milliseconds(250);  // worker.proto: a few a second
// boundaries; what a crash loses of the moments is that old at most
constexpr uint64_t kSaveEvery = 10;
// Up to four epochs repeated data is nearly as good as new (Muennighoff et al. 2023).
constexpr double kManyEpochs = 4;

// The sample numbers of inner step `step` of a round: the leased ranges, read one after the other.
// Without a lease (private data) the run's own numbering of steps.
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
    // An idle worker waits; a training one only looks.
    const absl::optional<Event> event =
        training_ ? inbox_.TryTake() : absl::make_optional(inbox_.Take());
    if (event.has_value()) {
      const absl::StatusOr<Next> next = Handle(*event);
      if (next.ok() && *next == Next::kEnd) return absl::OkStatus();
      status = next.status();
    } else {
      status = TrainOneStep();
    }
  }
  v1::WorkerMessage failed;
  failed.mutable_failed()->set_what(std::string(status.message()));
  outbox_.Send(failed);
  return status;
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
      if (trainer_ == nullptr) {
        status = absl::FailedPreconditionError("MapMemory came before Configure");
        break;
      }
      {
        auto slots = Slots::Map(message.map_memory(), trainer_->manifest().elements());
        status = slots.status();
        if (slots.ok()) slots_ = *std::move(slots);
      }
      break;
    case v1::DaemonMessage::kWriteInitialState:
      status = WriteInitialState();
      break;
    case v1::DaemonMessage::kTrain:
      status = BeginTraining(message.train());
      break;
    case v1::DaemonMessage::kRebase:
      status = ApplyRebase();
      break;
    case v1::DaemonMessage::kEvaluate:
      status = EvaluateOneShare(message.evaluate());
      if (absl::IsCancelled(status)) status = absl::OkStatus();  // the event that did it comes next
      break;
    case v1::DaemonMessage::kStop:
      SaveOptimizer();
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
  training_ = false;
  warned_of_epochs_ = false;
  slots_ = nullptr;
  trainer_ = nullptr;
  const int threads =
      options_.set_threads ? options_.set_threads(static_cast<int>(configure.threads())) : 1;
  ASSIGN_OR_RETURN(const std::vector<std::string> devices,
                   ResolveDevices(options_.device, ProbeGpus()));
  ASSIGN_OR_RETURN(load_, OpenWorkload(configure, devices));
  for (const std::string& note : load_.notes) Log(absl::StrCat("data: ", note));
  trainer_ = std::move(load_.trainer);
  LoadOptimizer();
  KeepTokenizer();
  v1::WorkerMessage message;
  v1::WorkerConfigured& configured = *message.mutable_configured();
  *configured.mutable_manifest() = trainer_->manifest();
  configured.set_data_digest(load_.data_digest);
  configured.set_train_tokens(load_.train_tokens);
  configured.set_validation_tokens(load_.validation_tokens);
  if (const Tokenizer* tokenizer = load_.tokenizer) {
    configured.set_tokenizer(tokenizer->kind());
    configured.set_tokenizer_digest(tokenizer->digest());
    configured.set_vocabulary(tokenizer->vocabulary());
  }
  configured.set_device(load_.device);
  configured.set_math_kernel(options_.math.kernel);
  configured.set_gflops(options_.math.gflops);
  outbox_.Send(message);
  Log(absl::StrFormat("run %s: %s, %s, on %s, %s", spec_.run_id(),
                      Counted(trainer_->manifest().elements(), "parameter"),
                      Counted(load_.train_tokens, "training token"), load_.device,
                      Counted(threads, "thread")));
  return absl::OkStatus();
}

absl::Status Session::RequireMemory(absl::string_view message) const {
  if (slots_ != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(message, " came before MapMemory"));
}

absl::Status Session::WriteInitialState() {
  RETURN_IF_ERROR(RequireMemory("WriteInitialState"));
  RETURN_IF_ERROR(trainer_->Initialise());
  const absl::Span<const float> from = trainer_->parameters();
  std::copy(from.begin(), from.end(), slots_->update().begin());
  v1::WorkerMessage message;
  message.mutable_initial_state_written();
  outbox_.Send(message);
  return absl::OkStatus();
}

absl::Status Session::BeginTraining(const v1::TrainSteps& train) {
  RETURN_IF_ERROR(RequireMemory("TrainSteps"));
  const absl::Span<const float> theta = slots_->theta();
  base_.assign(theta.begin(), theta.end());
  std::copy(base_.begin(), base_.end(), trainer_->parameters().begin());
  RETURN_IF_ERROR(trainer_->PushParameters());
  // Any training that went on is given up: this one supersedes it.
  train_ = train;
  training_ = true;
  steps_done_ = 0;
  loss_sum_ = 0;
  evaluating_ = absl::ZeroDuration();
  began_ = options_.now();
  CountEpochs(train_);
  SendProgress();
  return train_.steps() == 0 ? FinishTraining() : absl::OkStatus();
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
  const auto context = [&] { return absl::StrCat("version ", train_.version()); };
  auto samples = SamplesOf(train_, steps_done_, spec_.inner().batch());
  RETURN_IF_ERROR(Annotate(samples.status(), context()));
  const uint64_t step =
      StepOfRun(train_.first_step(), steps_done_, train_.steps(), spec_.inner().steps());
  const auto loss = trainer_->Step(step, *samples);
  RETURN_IF_ERROR(Annotate(loss.status(), context()));
  loss_sum_ += *loss;
  ++steps_done_;
  if (steps_done_ >= train_.steps()) return FinishTraining();
  if (options_.now() - last_progress_ >= kProgressEvery) SendProgress();
  return absl::OkStatus();
}

absl::Status Session::FinishTraining() {
  RETURN_IF_ERROR(trainer_->FetchParameters());
  const absl::Duration took = options_.now() - began_ - evaluating_;
  const absl::Span<const float> parameters = trainer_->parameters();
  const absl::Span<float> update = slots_->update();
  for (size_t i = 0; i < update.size(); ++i) update[i] = base_[i] - parameters[i];
  training_ = false;
  v1::WorkerMessage message;
  v1::Boundary& boundary = *message.mutable_boundary();
  boundary.set_version(train_.version());
  boundary.set_steps(steps_done_);
  boundary.set_tokens(uint64_t{steps_done_} * spec_.inner().batch() * spec_.model().context());
  boundary.set_loss(steps_done_ == 0 ? 0 : loss_sum_ / steps_done_);
  boundary.set_seconds(absl::ToDoubleSeconds(took));
  outbox_.Send(message);
  if (++boundaries_ % kSaveEvery == 0) SaveOptimizer();
  return absl::OkStatus();
}

absl::Status Session::ApplyRebase() {
  RETURN_IF_ERROR(RequireMemory("Rebase"));
  if (!training_) return absl::OkStatus();  // the boundary was crossed first
  RETURN_IF_ERROR(trainer_->FetchParameters());
  const absl::Span<float> parameters = trainer_->parameters();
  const absl::Span<const float> theta = slots_->theta();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const float moved = theta[i];  // read once: a commit may be writing it
    parameters[i] += moved - base_[i];
    base_[i] = moved;
  }
  return trainer_->PushParameters();
}

absl::Status Session::EvaluateOneShare(const v1::EvaluateShare& evaluate) {
  RETURN_IF_ERROR(RequireMemory("EvaluateShare"));
  const absl::Time began = options_.now();
  uint64_t done = 0;  // turns of the evaluation
  const auto sum = trainer_->Evaluate(slots_->theta(), evaluate.share(), evaluate.shares(), [&] {
    if (done > 0 && options_.now() - last_progress_ >= kProgressEvery) {
      SendEvaluated(evaluate.version(), done);
    }
    ++done;
    return inbox_.Ending();
  });
  evaluating_ += options_.now() - began;
  if (absl::IsCancelled(sum.status())) return sum.status();
  RETURN_IF_ERROR(Annotate(sum.status(), absl::StrCat("version ", evaluate.version())));
  v1::WorkerMessage message;
  v1::WorkerEvaluated& evaluated = *message.mutable_evaluated();
  evaluated.set_version(evaluate.version());
  evaluated.set_share(evaluate.share());
  evaluated.set_shares(evaluate.shares());
  evaluated.set_loss_sum(sum->loss_sum);
  evaluated.set_tokens(sum->tokens);
  outbox_.Send(message);
  return absl::OkStatus();
}

void Session::SendProgress() {
  last_progress_ = options_.now();
  const double seconds = absl::ToDoubleSeconds(last_progress_ - began_ - evaluating_);
  const double tokens =
      static_cast<double>(steps_done_) * spec_.inner().batch() * spec_.model().context();
  v1::WorkerMessage message;
  v1::WorkerProgress& progress = *message.mutable_progress();
  progress.set_version(train_.version());
  progress.set_step(steps_done_);
  progress.set_steps(train_.steps());
  progress.set_loss(steps_done_ == 0 ? 0 : loss_sum_ / steps_done_);
  progress.set_tokens_per_second(steps_done_ == 0 || seconds <= 0 ? 0 : tokens / seconds);
  outbox_.Send(message);
}

// That the evaluation comes nearer, whatever it takes.
void Session::SendEvaluated(uint64_t version, uint64_t done) {
  last_progress_ = options_.now();
  v1::WorkerMessage message;
  message.mutable_progress()->set_version(version);
  message.mutable_progress()->set_evaluated(done);
  outbox_.Send(message);
}

void Session::SaveOptimizer() {
  if (state_path_.empty() || trainer_ == nullptr) return;
  absl::Status status = trainer_->FetchState();
  if (status.ok()) {
    status = SaveState(state_path_, spec_.run_id(), trainer_->optimizer().state());
  }
  if (!status.ok()) Log(absl::StrCat("warning: ", status.message()));
}

// Beside the optimiser's state, where who generates text later finds it.
void Session::KeepTokenizer() {
  const Tokenizer* tokenizer = load_.tokenizer;
  if (state_path_.empty() || tokenizer == nullptr || tokenizer->file().empty()) return;
  const std::string& file = tokenizer->file();
  const absl::Status status = WriteFileDurably(
      state_path_ + ".tokenizer", {AsBytes(absl::MakeConstSpan(file.data(), file.size()))});
  if (!status.ok()) Log(absl::StrCat("warning: ", status.message()));
}

void Session::LoadOptimizer() {
  if (state_path_.empty()) return;
  const InnerOptimizer::State state = trainer_->optimizer().state();
  absl::Status status = LoadState(state_path_, spec_.run_id(), state);
  if (status.ok()) status = trainer_->PushState();
  if (status.ok()) {
    Log(absl::StrCat("optimiser's state of ", Counted(*state.steps, "step"), " taken from ",
                     state_path_));
  } else if (!absl::IsNotFound(status)) {
    Log(absl::StrCat("warning: optimiser's state not used: ", status.message()));
  }
}

std::string TorchVersion() { return kTorchVersion; }

std::string SoftwareVersion() {
  return "atoll-worker " ATOLL_VERSION ", libtorch " + TorchVersion();
}

}  // namespace atolld

#include "worker/program/model_learner.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "worker/base/file_io.h"
#include "worker/base/schedule.h"
#include "worker/data/sample_order.h"
#include "worker/data/tokenizer_file.h"
#include "worker/kernels/torch_version.h"
#include "worker/training/device.h"
#include "worker/training/gradient_terms.h"

namespace atolld {
namespace {

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

std::string TorchVersion() { return kTorchVersion; }

ModelLearner::ModelLearner(WorkerEnv env, Options options)
    : env_(std::move(env)), options_(std::move(options)) {}

std::string ModelLearner::software() const {
  return "atoll-worker " ATOLL_VERSION ", libtorch " + TorchVersion();
}

absl::StatusOr<v1::WorkerConfigured> ModelLearner::Configure(const v1::Configure& configure) {
  spec_ = configure.spec();
  state_path_ = configure.state_path();
  warned_of_epochs_ = false;
  keeper_ = nullptr;
  trainer_ = nullptr;
  const int threads =
      options_.set_threads ? options_.set_threads(static_cast<int>(configure.threads())) : 1;
  const GpuProbe gpus = ProbeGpus();
  ASSIGN_OR_RETURN(const std::vector<std::string> devices, ResolveDevices(options_.device, gpus));
  if (!gpus.trouble.empty() && devices.front() == "cpu") {
    env_.Log(absl::StrCat("warning: training on the CPU; PyTorch's part for GPUs does not load: ",
                          gpus.trouble));
  }
  ASSIGN_OR_RETURN(load_, OpenWorkload(configure, devices));
  for (const std::string& note : load_.notes) env_.Log(absl::StrCat("data: ", note));
  trainer_ = std::move(load_.trainer);
  keeper_ = std::make_unique<PartyKeeper>(*trainer_, spec_, state_path_, env_.now, env_.log);
  if (load_.parties == nullptr) RETURN_IF_ERROR(keeper_->Open());
  KeepTokenizer();
  env_.Log(absl::StrFormat("run %s: %s, %s, on %s, %s", spec_.run_id(),
                           Counted(trainer_->manifest().elements(), "parameter"),
                           Counted(load_.train_tokens, "training token"), load_.device,
                           Counted(threads, "thread")));
  v1::WorkerConfigured configured;
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
  return configured;
}

absl::Status ModelLearner::Initialise(absl::Span<float> parameters) {
  const v1::ModelSpec& model = spec_.model();
  const Tokenizer* const tokenizer = load_.tokenizer.get();
  if (model.from_file()) {
    RETURN_IF_ERROR(CheckTokenizerBeside("initial", model.initial_path(), tokenizer));
  }
  if (model.lora_rank() > 0) {
    RETURN_IF_ERROR(CheckTokenizerBeside("base", model.base_path(), tokenizer));
  }
  RETURN_IF_ERROR(trainer_->Initialise());
  const absl::Span<const float> from = trainer_->parameters();
  std::copy(from.begin(), from.end(), parameters.begin());
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> ModelLearner::Begin(const v1::TrainSteps& train, const Slots& slots) {
  if (!train.frozen().empty() && spec_.inner().control_variates()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "version ", train.version(), ": TrainSteps.frozen is set in a run with control variates ",
        "(inner.control_variates), which follow the training of every tensor"));
  }
  RETURN_IF_ERROR(TakeUpParty(train));
  RETURN_IF_ERROR(trainer_->Freeze(train));
  RETURN_IF_ERROR(TakeUpControl(train.taken(), slots));
  train_ = train;
  done_ = StepsDone();
  loss_sum_ = rates_ = 0;
  stretched_.reset();
  if (!spec_.data().private_()) WarnOfEpochs();
  return PlanRound();
}

absl::Status ModelLearner::Moved(absl::Span<const float> base) {
  trainer_->terms().SetBase(base);
  return trainer_->PushParameters();
}

uint32_t ModelLearner::NumberOf(uint32_t party) const {
  return load_.parties == nullptr || party == 0 ? 0 : load_.parties->NumberOf(party);
}

// Loads the data and the state of the party whose turn it is. If its training was given up, that is
// the state of its last finished training.
absl::Status ModelLearner::TakeUpParty(const v1::TrainSteps& train) {
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

absl::Status ModelLearner::TakeUpControl(bool taken, const Slots& slots) {
  if (!spec_.inner().control_variates()) return absl::OkStatus();
  if (slots.control().empty()) {
    return absl::FailedPreconditionError(
        "the run has control variates, and MapMemory named no slot for the common one");
  }
  keeper_->Settle(taken);
  common_.assign(slots.control().begin(), slots.control().end());
  trainer_->terms().SetControl(common_, keeper_->control());
  return absl::OkStatus();
}

// Sets and returns how many steps a round has: the number asked for, or as many as go through the
// party's data that often. In the latter case a round ends at the end of a pass, and its last step
// has the samples that are left.
uint32_t ModelLearner::PlanRound() {
  steps_ = train_.steps();
  const uint64_t batch = spec_.inner().batch(), epochs = spec_.inner().epochs();
  round_samples_ = steps_ * batch;
  if (epochs == 0 || steps_ == 0) return steps_;
  constexpr uint64_t kMostSteps = std::numeric_limits<uint32_t>::max();
  round_samples_ = std::min(epochs * trainer_->corpus().samples(), kMostSteps * batch);
  steps_ = static_cast<uint32_t>((round_samples_ + batch - 1) / batch);
  return steps_;
}

absl::StatusOr<std::vector<uint64_t>> ModelLearner::NextSamples() const {
  const uint32_t batch = spec_.inner().batch();
  if (!spec_.data().private_()) return SamplesOf(train_, done_.steps, batch);
  std::vector<uint64_t> samples;
  const uint64_t end = std::min(round_samples_, done_.samples + batch);
  const uint64_t first = keeper_->position() + train_.again() * round_samples_;
  for (uint64_t i = done_.samples; i < end; ++i) samples.push_back(first + i);
  return samples;
}

void ModelLearner::WarnOfEpochs() {
  uint64_t end =
      train_.samples().empty() ? (train_.first_step() + train_.steps()) * spec_.inner().batch() : 0;
  for (const v1::SampleRange& range : train_.samples()) {
    end = std::max(end, range.first() + range.count());
  }
  const double epochs = trainer_->Epochs(end);
  if (warned_of_epochs_ || epochs <= kManyEpochs) return;
  warned_of_epochs_ = true;
  env_.Log(absl::StrFormat(
      "warning: the run has read its training data %.1f times; past %.0f epochs repeated text "
      "teaches little: give it more data or fewer rounds",
      epochs, kManyEpochs));
}

absl::StatusOr<StepsDone> ModelLearner::TrainOn(absl::Duration lasted, uint32_t) {
  if (stretched_.has_value()) {
    if (lasted >= done_.next) Count(*std::exchange(stretched_, absl::nullopt));
    return done_;
  }
  if (options_.slower <= 1) {
    ASSIGN_OR_RETURN(const OneStep step, TakeStep());
    Count(step);
    return done_;
  }
  const absl::Time began = env_.now();
  ASSIGN_OR_RETURN(stretched_, TakeStep());
  done_.next = lasted + options_.slower * (env_.now() - began);
  return done_;
}

absl::StatusOr<ModelLearner::OneStep> ModelLearner::TakeStep() {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> samples, NextSamples());
  const uint64_t number =
      StepOfRun(train_.first_step(), done_.steps, steps_, spec_.inner().steps());
  OneStep step;
  ASSIGN_OR_RETURN(step.loss, trainer_->Step(number, samples));
  step.rate = static_cast<double>(static_cast<float>(LearningRate(spec_.inner(), number)));
  step.samples = samples.size();
  for (const uint64_t sample : samples) step.tokens += trainer_->corpus().TargetsOf(sample);
  return step;
}

void ModelLearner::Count(const OneStep& step) {
  if (done_.steps == 0) done_.first_loss = step.loss;
  loss_sum_ += step.loss;
  rates_ += step.rate;
  done_.samples += step.samples;
  done_.tokens += step.tokens;
  ++done_.steps;
  done_.loss = loss_sum_ / done_.steps;
  done_.next = absl::ZeroDuration();
}

absl::Status ModelLearner::CatchUp(const Slots&) { return trainer_->FetchParameters(); }

void ModelLearner::Finish(const Slots& slots) {
  const uint64_t passed = done_.samples + train_.again() * round_samples_;
  keeper_->Finish(train_.version(), passed, slots.update(), common_, rates_);
  env_.Warn(keeper_->Save());
}

// Now and then, since a sync may take as long as a small party's round.
void ModelLearner::AfterBoundary() {
  if (++boundaries_ % kSyncEvery == 0 && load_.parties == nullptr) env_.Warn(keeper_->Sync());
}

void ModelLearner::Stop() {
  if (keeper_ != nullptr) env_.Warn(keeper_->Sync());
}

absl::Status ModelLearner::Evaluate(const v1::EvaluateShare& evaluate, const Slots& slots,
                                    const std::function<bool()>& stop,
                                    v1::WorkerEvaluated* evaluated) {
  // The one party that is asked for, or all parties of this worker.
  const bool all = evaluate.own() && evaluate.party() == 0 && load_.parties != nullptr;
  const uint32_t first = all ? 1 : evaluate.party();
  const uint32_t last = all ? load_.parties->parties() : first;
  EvaluationSum sum;
  for (uint32_t party = first; party <= last; ++party) {
    ASSIGN_OR_RETURN(const EvaluationSum one, evaluate.own()
                                                  ? EvaluateParty(party, slots.theta(), stop)
                                                  : EvaluateCommon(evaluate, slots.theta(), stop));
    sum.loss_sum += one.loss_sum;
    sum.tokens += one.tokens;
    if (evaluate.own() && one.tokens > 0) {
      evaluated->add_own_losses(one.loss_sum / static_cast<double>(one.tokens));
    }
  }
  evaluated->set_loss_sum(sum.loss_sum);
  evaluated->set_tokens(sum.tokens);
  return absl::OkStatus();
}

absl::StatusOr<EvaluationSum> ModelLearner::EvaluateCommon(const v1::EvaluateShare& evaluate,
                                                           absl::Span<const float> theta,
                                                           const std::function<bool()>& stop) {
  const uint32_t share = evaluate.share(), shares = evaluate.shares();
  if (!spec_.data().private_()) return trainer_->Evaluate(theta, share, shares, stop);
  if (load_.common == nullptr) return EvaluationSum();  // nothing is held out for all
  return trainer_->EvaluateOn(*load_.common, theta, trainer_->personal(), share, shares, stop);
}

absl::StatusOr<EvaluationSum> ModelLearner::EvaluateParty(uint32_t party,
                                                          absl::Span<const float> theta,
                                                          const std::function<bool()>& stop) {
  if (load_.parties == nullptr) return trainer_->Evaluate(theta, 0, 1, stop);
  ASSIGN_OR_RETURN(const std::shared_ptr<const Corpus> corpus, load_.parties->Open(party));
  ASSIGN_OR_RETURN(const std::vector<float> personal, keeper_->PersonalOf(NumberOf(party)));
  return trainer_->EvaluateOn(*corpus, theta, personal, 0, 1, stop);
}

// Keeps it beside the optimiser's state, where text generation finds it later.
void ModelLearner::KeepTokenizer() {
  const Tokenizer* tokenizer = load_.tokenizer.get();
  if (state_path_.empty() || tokenizer == nullptr || tokenizer->file().empty()) return;
  const std::string& file = tokenizer->file();
  env_.Warn(WriteFileDurably(state_path_ + ".tokenizer",
                             {AsBytes(absl::MakeConstSpan(file.data(), file.size()))}));
}

}  // namespace atolld

#include "tests/sim/sim_worker.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "compression/base/check.h"

namespace atolld {
namespace {

// SplitMix64's finaliser as a hash: the noise of one value of one update.
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// The production value; after it a worker that was asked to stop and did not is killed.
constexpr absl::Duration kStopPatience = absl::Seconds(5);

constexpr float kNotZero = 1e-6f;
constexpr absl::Duration kProgressEvery = absl::Seconds(1);

void AddTensor(const std::string& name, uint64_t offset, uint64_t end, v1::Manifest* manifest) {
  v1::Tensor* const tensor = manifest->add_tensors();
  tensor->set_name(name);
  tensor->add_shape(end - offset);
  tensor->set_offset(offset);
}

// Adds two layers of experts, the second one in the opposite order and with two tensors an expert,
// and a shared tensor before, between and after them. A part then has several ranges, of which some
// have several tensors. Slices of adapters are the same without what is shared.
void AddExperts(uint32_t experts, bool slices, uint64_t elements, v1::Manifest* manifest) {
  const std::string part = slices ? "lora.slice" : "expert.";
  std::vector<std::string> names;
  if (!slices) names.push_back("shared.0");
  for (uint32_t i = 0; i < experts; ++i) names.push_back(absl::StrCat(part, i, ".w0"));
  if (!slices) names.push_back("shared.1");
  for (uint32_t i = experts; i > 0; --i) {
    names.push_back(absl::StrCat(part, i - 1, ".w1"));
    names.push_back(absl::StrCat(part, i - 1, ".b1"));
  }
  if (!slices) names.push_back("shared.2");
  const auto share = [](size_t tensor) { return uint64_t{2 + tensor % 3}; };
  uint64_t shares = 0;
  for (size_t i = 0; i < names.size(); ++i) shares += share(i);
  uint64_t offset = 0;
  uint64_t taken = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    taken += share(i);
    const uint64_t end = elements * taken / shares;
    AddTensor(names[i], offset, end, manifest);
    offset = end;
  }
}

float Noise(uint64_t value) {  // [-0.5, 0.5)
  return static_cast<float>(Mix(value) >> 40) / static_cast<float>(1 << 24) - 0.5f;
}

}  // namespace

SimWorker::SimWorker(Env env, SimWorkerSettings settings, SimWorkerProbe probe)
    : env_(env), settings_(settings), probe_(std::move(probe)), step_(settings.step) {}

SimWorker::~SimWorker() { Unmap(); }

void SimWorker::Start(const v1::RunSpec& spec, Events events) {
  spec_ = spec;
  events_ = std::move(events);
  env_.executor.RunAfter(absl::Milliseconds(100), guard_.Wrap([this] { Configure(); }));
}

void SimWorker::Configure() {
  if (paused_ || running_) return;
  running_ = true;
  v1::WorkerConfigured configured;
  v1::Manifest* const manifest = configured.mutable_manifest();
  if (settings_.experts > 0) {
    AddExperts(settings_.experts, settings_.slices, settings_.elements, manifest);
  }
  uint64_t offset = 0;
  for (uint64_t i = 0; settings_.experts == 0 && i < settings_.tensors; ++i) {
    const uint64_t layer = settings_.tensors_a_layer;
    const uint64_t share = layer == 0 ? i + 1 : (i + 1) * (i + 2);
    const uint64_t shares =
        layer == 0 ? settings_.tensors : settings_.tensors * (settings_.tensors + 1);
    const uint64_t end = settings_.elements * share / shares;
    AddTensor(
        layer == 0 ? absl::StrCat("weights", i) : absl::StrCat("layers.", i / layer, ".weights", i),
        offset, end, manifest);
    offset = end;
  }
  manifest->set_elements(settings_.elements);
  configured.set_data_digest(std::string(32, 'd'));
  configured.set_train_tokens(1 << 20);
  configured.set_validation_tokens(1 << 16);
  configured.set_device("stub");
  configured.set_lora_rank(settings_.lora_rank);
  events_.on_configured(configured);
}

bool SimWorker::Hangs(Stage stage) {
  if (hang_at_ != stage) return hangs_;
  if (!hangs_always_) hang_at_ = Stage::kNowhere;
  ++life_;
  return hangs_ = true;
}

void SimWorker::Send(const v1::DaemonMessage& message) {
  if (!running_) return;
  const bool evaluates = message.has_evaluate() && message.evaluate().version() >= hangs_from_;
  const bool hangs = Hangs(message.has_write_initial_state() ? Stage::kInitialState
                           : message.has_train()             ? Stage::kTraining
                           : evaluates                       ? Stage::kEvaluation
                                                             : Stage::kOther);
  if (hangs) return;
  switch (message.message_case()) {
    case v1::DaemonMessage::kMapMemory:
      return Map(message.map_memory());
    case v1::DaemonMessage::kWriteInitialState: {
      for (uint64_t i = 0; i < settings_.elements; ++i) {
        update_[i] = Noise(i ^ Mix(settings_.initial) ^ Mix(0));
      }
      if (probe_.on_initial) probe_.on_initial({update_, settings_.elements});
      v1::WorkerMessage answer;
      answer.mutable_initial_state_written();
      env_.executor.Post(guard_.Wrap([this, answer] { events_.on_message(answer); }));
      return;
    }
    case v1::DaemonMessage::kTrain:
      return Train(message.train());
    case v1::DaemonMessage::kRebase:
      return Rebase(message.rebase());
    case v1::DaemonMessage::kMerge:
      return OnMerge(message.merge());
    case v1::DaemonMessage::kEvaluate:
      return Evaluate(message.evaluate());
    default:
      return;
  }
}

void SimWorker::Map(const v1::MapMemory& map) {
  Unmap();
  const int file = open(map.path().c_str(), O_RDWR | O_CLOEXEC);
  CHECK(file >= 0);
  mapped_bytes_ =
      std::max(map.update_offset(), map.guess_offset()) + map.elements() * sizeof(float);
  mapping_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  CHECK(mapping_ != MAP_FAILED);
  theta_ = reinterpret_cast<const float*>(static_cast<char*>(mapping_) + map.theta_offset());
  guess_ = map.guess_offset() == 0
               ? nullptr
               : reinterpret_cast<const float*>(static_cast<char*>(mapping_) + map.guess_offset());
  update_ = reinterpret_cast<float*>(static_cast<char*>(mapping_) + map.update_offset());
}

void SimWorker::Unmap() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_bytes_);
  mapping_ = nullptr;
}

float SimWorker::Target(uint64_t i) const { return Noise(i ^ 0x5555555555555555) * 4; }

void SimWorker::Train(const v1::TrainSteps& train) {
  waiting_.reset();
  MergePending();
  const bool keeps_own = train.start() == "own";
  const bool anew = !keeps_own || own_.empty();
  const float* const start = train.start() == "guess" ? guess_ : theta_;
  CHECK(start != nullptr);
  if (anew) base_.assign(start, start + settings_.elements);
  // It forgets what it had. In mode "streaming" it has parameters of its own from now on.
  const bool has_own = keeps_own || !own_.empty() || spec_.mode().kind() == "streaming";
  if (anew && has_own) own_ = base_;
  const std::vector<float>& from = keeps_own ? own_ : base_;
  uint64_t samples = 0;
  for (const v1::SampleRange& range : train.samples()) samples += range.first() + range.count();
  if (spec_.data().private_()) samples = own_samples_ += train.steps();
  // As a worker that keeps its place: the same training done again gives the same update.
  if (spec_.privacy().masked()) samples = (train.version() << 16) + train.again();
  const uint64_t noise_seed = Mix(settings_.seed + samples);
  learned_.resize(settings_.elements);
  for (uint64_t i = 0; i < settings_.elements; ++i) {
    learned_[i] = 0.3f * (from[i] - Target(i)) + 0.01f * Noise(noise_seed + i);
  }
  frozen_.assign(train.frozen().begin(), train.frozen().end());
  ClearFrozen(learned_.data());
  for (uint64_t i = 0; i < own_.size(); ++i) own_[i] = own_[i] - learned_[i];
  start_ = base_;
  keeps_parameters_ = false;
  if (probe_.on_train) probe_.on_train(train, base_);
  const absl::Duration took = step_ * train.steps();
  awaited_ = merged_ >= train.merge_version() ? 0 : train.merge_version();
  merge_at_ = env_.executor.Now() + step_ * std::min(train.merge_after(), train.steps());
  trains_ = true;
  ++life_;
  ShowProgress(train, env_.executor.Now());
  env_.executor.RunAfter(took, guard_.Wrap([this, train, took, life = life_] {
    if (life == life_) FinishTraining(train, took);
  }));
}

// Reports progress as long as the training takes, so that a slow or held worker is not taken for
// one that hangs.
void SimWorker::ShowProgress(const v1::TrainSteps& train, absl::Time began) {
  env_.executor.RunAfter(kProgressEvery, guard_.Wrap([this, train, began, life = life_] {
    if (life != life_ || !trains_) return;
    v1::WorkerMessage message;
    v1::WorkerProgress* const progress = message.mutable_progress();
    progress->set_version(train.version());
    const auto steps = static_cast<uint32_t>((env_.executor.Now() - began) / step_);
    progress->set_step(std::min(train.steps(), steps));
    progress->set_steps(train.steps());
    events_.on_message(message);
    ShowProgress(train, began);
  }));
}

void SimWorker::Rebase(const v1::Rebase& rebase) {
  if (base_.empty()) return;
  base_.assign(theta_, theta_ + settings_.elements);
  keeps_parameters_ = keeps_parameters_ || rebase.keep_parameters();
}

void SimWorker::OnMerge(const v1::Merge& merge) {
  if (own_.empty() && !trains_) return;  // it begins from theta
  const absl::Time now = env_.executor.Now();
  const bool early = awaited_ != 0 && merge.version() >= awaited_ && now < merge_at_;
  if (pending_.empty() && !early) return MergeNow(merge);
  pending_.push_back(merge);
  env_.executor.RunAfter(merge_at_ - now, guard_.Wrap([this, life = life_] {
    if (life == life_) MergePending();
  }));
}

void SimWorker::MergePending() {
  for (const v1::Merge& merge : std::exchange(pending_, {})) MergeNow(merge);
}

void SimWorker::MergeValues(const v1::Merge& merge, uint64_t first, uint64_t count) {
  CHECK(first <= own_.size() && count <= own_.size() - first);
  const float share = absl::bit_cast<float>(merge.own_share_bits());
  for (uint64_t i = first; i < first + count; ++i) {
    const float theta = theta_[i];
    if (merge.rebase()) {
      own_[i] = own_[i] + (theta - base_[i]);
    } else {
      own_[i] = share * own_[i] + (1 - share) * theta;
    }
    base_[i] = theta;
  }
}

// Only what the entry covers, whatever theta is elsewhere by now.
void SimWorker::MergeNow(const v1::Merge& merge) {
  if (own_.empty()) {
    CHECK(absl::bit_cast<float>(merge.own_share_bits()) == 1 && !merge.rebase());
    base_.assign(theta_, theta_ + settings_.elements);
    keeps_parameters_ = true;
  }
  for (const v1::ValueRange& range : merge.ranges()) {
    MergeValues(merge, range.first(), range.count());
  }
  if (merge.ranges().empty() && !own_.empty()) MergeValues(merge, 0, own_.size());
  merged_ = std::max(merged_, merge.version());
  if (merged_ >= awaited_) awaited_ = 0;
  if (awaited_ != 0 || !waiting_) return;
  // A worker takes in all that it has been told before it hands anything over.
  env_.executor.Post(guard_.Wrap([this, life = life_] {
    if (life != life_ || !waiting_) return;
    const Waiting done = *std::exchange(waiting_, std::nullopt);
    waited_ = env_.executor.Now() - done.since;
    FinishTraining(done.train, done.took);
  }));
}

void SimWorker::ForgetParameters() {
  base_.clear();
  own_.clear();
  pending_.clear();
  waiting_.reset();
  awaited_ = merged_ = 0;
}

void SimWorker::SpoilUpdate() {
  const Spoil spoil = std::exchange(spoil_, Spoil::kNone);
  if (spoil == Spoil::kNone) return;
  uint64_t at = settings_.elements / 2;
  for (const v1::ValueRange& range : frozen_) {
    if (range.first() <= at && at < range.first() + range.count()) {
      at = range.first() + range.count();
    }
  }
  float& value = update_[at % settings_.elements];
  if (spoil == Spoil::kNaN) value = std::numeric_limits<float>::quiet_NaN();
  if (spoil == Spoil::kInfinity) value = -std::numeric_limits<float>::infinity();
  if (spoil == Spoil::kHuge) value = 1e30f;
}

void SimWorker::ClearFrozen(float* values) const {
  for (const v1::ValueRange& range : frozen_) {
    CHECK(range.first() <= settings_.elements &&
          range.count() <= settings_.elements - range.first());
    std::fill_n(values + range.first(), range.count(), 0.0f);
  }
}

void SimWorker::LieByHabit() {
  const absl::Span<float> update(update_, settings_.elements);
  switch (settings_.habit) {
    case Habit::kNone:
      return;
    case Habit::kZeros:
      return std::fill(update.begin(), update.end(), 0.0f);
    case Habit::kReplay:
      if (first_.empty()) first_.assign(update.begin(), update.end());
      std::copy(first_.begin(), first_.end(), update.begin());
      return;
    case Habit::kFlip:
      for (float& value : update) value = value * -10;
      return;
    case Habit::kHuge:
      return std::fill(update.begin(), update.end(), 1e30f);
  }
}

void SimWorker::FinishTraining(const v1::TrainSteps& train, absl::Duration took) {
  if (held_) {
    env_.executor.RunAfter(step_, guard_.Wrap([this, train, took, life = life_] {
      if (life == life_) FinishTraining(train, took + step_);
    }));
    return;
  }
  MergePending();
  if (awaited_ != 0) {
    waiting_ = Waiting{train, took, env_.executor.Now()};
    return;
  }
  trains_ = false;
  std::copy(learned_.begin(), learned_.end(), update_);
  for (uint64_t i = 0; keeps_parameters_ && i < learned_.size(); ++i) {
    update_[i] = base_[i] - (start_[i] - learned_[i]);
  }
  for (uint64_t i = 0; i < own_.size(); ++i) update_[i] = base_[i] - own_[i];
  for (uint64_t i = 0; i < settings_.elements; ++i) {
    // The noise of private runs vanishes beside every value but this one.
    if (update_[i] == 0) update_[i] = kNotZero;
  }
  LieByHabit();
  SpoilUpdate();
  // A rebase sets the parameters of frozen ranges to theta, so nothing moves there in any case.
  ClearFrozen(update_);
  if (probe_.on_update) probe_.on_update({update_, settings_.elements}, base_);
  v1::WorkerMessage answer;
  v1::Boundary* boundary = answer.mutable_boundary();
  boundary->set_version(train.version());
  boundary->set_steps(train.steps());
  boundary->set_tokens(uint64_t{64} * train.steps());
  boundary->set_loss(1);
  if (spec_.data().private_()) {
    boundary->set_samples(uint64_t{train.steps()} * spec_.inner().batch());
    boundary->set_first_loss(1);
  }
  boundary->set_seconds(absl::ToDoubleSeconds(took));
  boundary->set_waited_seconds(absl::ToDoubleSeconds(std::exchange(waited_, absl::ZeroDuration())));
  events_.on_message(answer);
}

void SimWorker::Evaluate(const v1::EvaluateShare& evaluate) {
  double sum = 0;
  for (uint64_t i = 0; i < settings_.elements; ++i) {
    const double distance = static_cast<double>(theta_[i] - Target(i));
    sum += distance * distance;
  }
  v1::WorkerMessage answer;
  v1::WorkerEvaluated* evaluated = answer.mutable_evaluated();
  evaluated->set_version(evaluate.version());
  evaluated->set_share(evaluate.share());
  evaluated->set_shares(evaluate.shares());
  evaluated->set_loss_sum(sum);
  evaluated->set_tokens(settings_.elements);
  evaluated->set_own(evaluate.own());
  if (evaluate.own()) evaluated->add_own_losses(sum / static_cast<double>(settings_.elements));
  env_.executor.RunAfter(step_, guard_.Wrap([this, answer] {
    if (running_ && !hangs_) events_.on_message(answer);
  }));
}

void SimWorker::Kill(absl::Duration pause) {
  Die(absl::UnavailableError("killed by the test"), pause);
}

void SimWorker::Restart(const absl::Status& why) { Die(why, absl::Milliseconds(200)); }

void SimWorker::Die(const absl::Status& why, absl::Duration pause) {
  ++life_;
  running_ = hangs_ = false;
  ForgetParameters();
  Unmap();
  env_.executor.Post(guard_.Wrap([this, why] { events_.on_lost(why); }));
  env_.executor.RunAfter(pause, guard_.Wrap([this] { Configure(); }));
}

void SimWorker::Pause() {
  if (std::exchange(paused_, true)) return;
  ++life_;
  running_ = hangs_ = trains_ = false;
  ForgetParameters();
  Unmap();
}

void SimWorker::Resume() {
  if (!std::exchange(paused_, false)) return;
  env_.executor.RunAfter(absl::Milliseconds(100), guard_.Wrap([this] { Configure(); }));
}

void SimWorker::FlipThetaBit(uint64_t value, int bit) {
  CHECK(mapping_ != nullptr && value < settings_.elements);
  char* byte = static_cast<char*>(mapping_) +
               (reinterpret_cast<const char*>(theta_ + value) - static_cast<const char*>(mapping_));
  *byte = static_cast<char>(*byte ^ (1 << bit));
}

void SimWorker::Stop(Task done) {
  const bool hangs = Hangs(Stage::kEnd);
  running_ = false;
  ++life_;
  if (hangs) return (void)env_.executor.RunAfter(kStopPatience, std::move(done));
  env_.executor.Post(std::move(done));
}

}  // namespace atolld

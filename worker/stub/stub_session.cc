#include "worker/stub/stub_session.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"

namespace atolld {
namespace {

// The values of a block: its indices fit in 32 bits whatever the vector's size, and its sums stay
// exact enough in fp32 lanes.
constexpr size_t kBlock = 4096;

// The share of the way to the target that one update moves the parameters.
constexpr float kStubRate = 0.3f;

constexpr uint32_t kTargetKey = 0x55555555;
constexpr uint64_t kPartyKey = 0x33333333;
constexpr uint64_t kAgainKey = 0x5555555555;

// Spreads the key of a noise over all bits, so that neighbouring keys differ everywhere.
uint32_t Spread(uint64_t key) {
  key *= 0x9e3779b97f4a7c15;
  return static_cast<uint32_t>(key >> 32) | 1;
}

// Maps a hash to a float in [-1, 1). It is cheap rather than a good random number, because it is
// drawn for every parameter in every round. The product with the index becomes a sum in a loop, and
// every vector unit has shifts.
inline float Draw(uint32_t index, uint32_t key) {
  uint32_t x = index * 0x9e3779b1u + key;
  x ^= x >> 15;
  x += x << 7;
  x ^= x >> 11;
  x += x << 10;
  return static_cast<float>(static_cast<int32_t>(x)) * 0x1p-31f;
}

inline float Target(uint32_t index) { return 2 * Draw(index, kTargetKey); }

}  // namespace

float StubPartyShift(uint32_t party) {
  return party == 0 ? 0 : 0.1f * Draw(party, Spread(kPartyKey));
}

uint64_t StubPartySamples(uint32_t party) { return 16 + 16 * (party % 4); }

float StubTarget(uint64_t i) { return Target(static_cast<uint32_t>(i)); }

void FillStubParameters(uint64_t seed, absl::Span<float> parameters) {
  const uint32_t key = Spread(seed);
  for (size_t begin = 0; begin < parameters.size(); begin += kBlock) {
    const size_t size = std::min(kBlock, parameters.size() - begin);
    const auto base = static_cast<uint32_t>(begin);
    float* const out = parameters.data() + begin;
    for (uint32_t j = 0; j < size; ++j) out[j] = 0.5f * Draw(base + j, key);
  }
}

void FillStubUpdate(absl::Span<const float> theta, uint64_t data, absl::Span<float> update) {
  const uint32_t key = Spread(data);
  for (size_t begin = 0; begin < update.size(); begin += kBlock) {
    const size_t size = std::min(kBlock, update.size() - begin);
    const auto base = static_cast<uint32_t>(begin);
    const float* const in = theta.data() + begin;
    float* const out = update.data() + begin;
    for (uint32_t j = 0; j < size; ++j) {
      out[j] = kStubRate * (in[j] - Target(base + j)) + 0.005f * Draw(base + j, key);
    }
  }
}

double StubSquaredDistance(absl::Span<const float> theta, uint64_t first) {
  constexpr size_t kLanes = 8;  // sums of their own, so that the compiler may keep them in vectors
  double sum = 0;
  for (size_t begin = 0; begin < theta.size(); begin += kBlock) {
    const size_t size = std::min(kBlock, theta.size() - begin);
    const auto base = static_cast<uint32_t>(first + begin);
    const float* const in = theta.data() + begin;
    float lanes[kLanes] = {};
    size_t j = 0;
    for (; j + kLanes <= size; j += kLanes) {
      for (uint32_t k = 0; k < kLanes; ++k) {
        const float distance = in[j + k] - Target(base + static_cast<uint32_t>(j) + k);
        lanes[k] += distance * distance;
      }
    }
    for (; j < size; ++j) {
      const float distance = in[j] - Target(base + static_cast<uint32_t>(j));
      lanes[0] += distance * distance;
    }
    for (const float lane : lanes) sum += static_cast<double>(lane);
  }
  return sum;
}

namespace {

constexpr uint32_t kProtocol = 2;
constexpr absl::Duration kProgressEvery = absl::Milliseconds(250);  // worker.proto: a few a second

// There is no corpus, so its digest is a fixed value and its size is reported as 0.
constexpr size_t kDigestBytes = 32;

// The loss that a training reports covers only the first values: it shows where the run is, and
// costs little compared with the update.
constexpr size_t kLossValues = 65536;

// The number of tokens that a party claims to hold out.
constexpr uint64_t kOwnTokens = 64;

constexpr uint64_t kMostParameters = uint64_t{1} << 34;  // run.proto

// Returns the mean squared distance of the first values from a target shifted by `shift` from the
// common one.
double LossAt(absl::Span<const float> first, float shift) {
  double sum = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    const double distance = first[i] - StubTarget(i) - shift;
    sum += distance * distance;
  }
  return sum / static_cast<double>(first.size());
}

}  // namespace

StubSession::StubSession(Outbox& outbox, Options options)
    : outbox_(outbox), options_(std::move(options)) {}

absl::Status StubSession::Run() {
  v1::WorkerMessage hello;
  hello.mutable_hello()->set_pid(static_cast<uint32_t>(::getpid()));
  hello.mutable_hello()->set_protocol(kProtocol);
  hello.mutable_hello()->set_software("atoll-stub-worker " ATOLL_VERSION);
  outbox_.Send(hello);
  absl::Status status;
  while (status.ok()) {
    const bool waits = Waits();
    const absl::Time before = options_.now();
    const absl::optional<Event> event = options_.take(UntilNext());
    if (waits) waited_ += options_.now() - before;
    if (event.has_value()) {
      if (event->kind != Event::Kind::kMessage) return absl::OkStatus();
      const absl::StatusOr<Next> next = HandleMessage(event->message);
      if (next.ok() && *next == Next::kEnd) return absl::OkStatus();
      status = next.status();
    }
    if (status.ok() && training_) status = Advance();
  }
  v1::WorkerMessage failed;
  failed.mutable_failed()->set_what(std::string(status.message()));
  outbox_.Send(failed);
  return status;
}

absl::StatusOr<StubSession::Next> StubSession::HandleMessage(const v1::DaemonMessage& message) {
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
    case v1::DaemonMessage::kEvaluate:
      status = Evaluate(message.evaluate());
      break;
    case v1::DaemonMessage::kStop:
      return Next::kEnd;
    case v1::DaemonMessage::kRebase:
      Rebase();
      break;
    case v1::DaemonMessage::kMerge:
      status = TakeMerge(message.merge());
      break;
    case v1::DaemonMessage::MESSAGE_NOT_SET:
      break;
  }
  RETURN_IF_ERROR(status);
  return Next::kGoOn;
}

absl::Status StubSession::Configure(const v1::Configure& configure) {
  const v1::RunSpec& spec = configure.spec();
  training_ = false;
  slots_ = nullptr;
  spec_.reset();
  parties_ = 0;
  merges_ = MergePoint();
  base_.clear();
  own_.clear();
  if (spec.model().kind() != "stub") {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.kind \"", spec.model().kind(), "\" needs atoll-worker; this one only takes time"));
  }
  const uint64_t elements = spec.model().parameters();
  if (elements == 0 || elements > kMostParameters) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.parameters is ", elements, "; it must be 1 to 2^34"));
  }
  spec_ = spec;
  keeps_own_ = spec.mode().kind() == "streaming";
  step_ =
      options_.slower * absl::Microseconds(static_cast<int64_t>(spec.inner().step_microseconds()));
  v1::WorkerMessage message;
  v1::WorkerConfigured& configured = *message.mutable_configured();
  v1::Tensor& tensor = *configured.mutable_manifest()->add_tensors();
  tensor.set_name("stub");
  tensor.add_shape(elements);
  configured.mutable_manifest()->set_elements(elements);
  if (spec.data().private_()) {
    RETURN_IF_ERROR(ConfigureParties(configure, &configured));
  } else {
    configured.set_data_digest(std::string(kDigestBytes, '\0'));
  }
  configured.set_device("stub");
  configured.set_math_kernel("none");
  outbox_.Send(message);
  if (options_.log) {
    options_.log(absl::StrCat("run ", spec.run_id(), ": ", Counted(elements, "parameter"),
                              ", a step takes ", absl::FormatDuration(step_)));
  }
  return absl::OkStatus();
}

// A folder, if there is one, determines how many parties there are; otherwise there are as many as
// asked for.
absl::Status StubSession::ConfigureParties(const v1::Configure& configure,
                                           v1::WorkerConfigured* configured) {
  parties_ = configure.parties();
  first_party_ = std::max(1u, configure.first_party());
  const uint64_t last = uint64_t{first_party_} + parties_ - 1;
  uint64_t found = last;
  std::error_code error;
  if (parties_ > 0 && std::filesystem::is_directory(configure.data_path(), error)) {
    found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(configure.data_path(), error)) {
      if (entry.path().filename().string()[0] != '.') ++found;
    }
  }
  if (found < last) {
    return absl::InvalidArgumentError(absl::StrCat("data: ", configure.data_path(), " holds ",
                                                   Counted(found, "party", "parties"),
                                                   "; this peer is to have ", parties_, " from ",
                                                   first_party_, " on, so there must be ", last));
  }
  if (parties_ > 0) configured->set_parties(static_cast<uint32_t>(found));
  uint64_t samples = 0;
  for (uint32_t party = 1; party <= parties_; ++party) samples += StubPartySamples(NumberOf(party));
  configured->set_samples(parties_ == 0 ? StubPartySamples(0) : samples);
  configured->set_own_validation_tokens(kOwnTokens * std::max(1u, parties_));
  if (!configure.validation_path().empty()) {
    configured->set_validation_tokens(spec_->model().parameters());
  }
  return absl::OkStatus();
}

uint32_t StubSession::NumberOf(uint32_t party) const {
  return parties_ == 0 || party == 0 ? 0 : first_party_ + party - 1;
}

absl::Status StubSession::Map(const v1::MapMemory& map) {
  if (!spec_.has_value()) {
    return absl::FailedPreconditionError("MapMemory came before Configure");
  }
  ASSIGN_OR_RETURN(slots_, Slots::Map(map, spec_->model().parameters()));
  return absl::OkStatus();
}

absl::Status StubSession::RequireMemory(absl::string_view message) const {
  if (slots_ != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(message, " came before MapMemory"));
}

absl::Status StubSession::WriteInitialState() {
  RETURN_IF_ERROR(RequireMemory("WriteInitialState"));
  FillStubParameters(spec_->seed(), slots_->update());
  v1::WorkerMessage message;
  message.mutable_initial_state_written();
  outbox_.Send(message);
  return absl::OkStatus();
}

absl::Status StubSession::BeginTraining(const v1::TrainSteps& train) {
  RETURN_IF_ERROR(RequireMemory("TrainSteps"));
  if (train.party() > parties_) {
    return absl::InvalidArgumentError(absl::StrCat("party ", train.party(), " is not here; this ",
                                                   "worker has ",
                                                   Counted(parties_, "virtual one")));
  }
  TrainingStart start;
  RETURN_IF_ERROR(ReadStart(train, &start));
  if (!keeps_own_ && (start == TrainingStart::kOwn || train.merge_version() != 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "version ", train.version(), ": TrainSteps asks for parameters of the ",
        "worker's own, and the run's mode is '", spec_->mode().kind(), "', not 'streaming'"));
  }
  if (training_ && keeps_own_) Learn(StepsDone());
  if (own_.empty() && start == TrainingStart::kOwn) start = TrainingStart::kTheta;
  train_ = train;  // any training that went on is given up
  training_ = true;
  began_ = options_.now();
  waited_ = absl::ZeroDuration();
  steps_ = train.steps();
  learnt_ = 0;
  const uint32_t number = NumberOf(train.party());
  if (const uint32_t epochs = spec_->inner().epochs(); epochs > 0 && steps_ > 0) {
    const uint64_t batch = std::max(1u, spec_->inner().batch());
    steps_ = static_cast<uint32_t>((epochs * StubPartySamples(number) + batch - 1) / batch);
  }
  data_ = train.first_step() + number * kPartyKey + train.again() * kAgainKey;
  for (const v1::SampleRange& range : train.samples()) data_ = data_ * 31 + range.first();
  shift_ = options_.shift + StubPartyShift(number);
  RETURN_IF_ERROR(BeginFrom(start));
  merges_.Begin(train, start == TrainingStart::kOwn);
  SendProgress();
  return absl::OkStatus();
}

absl::Status StubSession::BeginFrom(TrainingStart start) {
  absl::Span<const float> from = start == TrainingStart::kGuess ? slots_->guess() : slots_->theta();
  if (from.empty()) {
    return absl::FailedPreconditionError(
        "TrainSteps.start is 'guess', and MapMemory named no slot for it");
  }
  if (start == TrainingStart::kOwn) {
    from = own_;
  } else if (keeps_own_) {
    base_.assign(from.begin(), from.end());
    own_ = base_;
  }
  if (!keeps_own_) FillUpdate(from);
  const absl::Span<const float> first = from.subspan(0, kLossValues);
  loss_ = shift_ != 0 ? LossAt(first, shift_)
                      : StubSquaredDistance(first, 0) / static_cast<double>(first.size());
  return absl::OkStatus();
}

// Fills in the update that these samples give from there.
void StubSession::FillUpdate(absl::Span<const float> from) {
  FillStubUpdate(from, data_, slots_->update());
  if (shift_ == 0) return;
  for (float& value : slots_->update()) value -= kStubRate * shift_;
}

// Moves the own parameters by the share of the update that the steps up to this one are; uses the
// update slot, which is the worker's, as scratch.
void StubSession::Learn(uint32_t done) {
  if (done <= learnt_) return;
  const float part = static_cast<float>(done - learnt_) / static_cast<float>(steps_);
  learnt_ = done;
  FillUpdate(own_);
  const absl::Span<const float> update = slots_->update();
  for (size_t i = 0; i < own_.size(); ++i) own_[i] -= part * update[i];
}

// Without a copy of them, base and parameters move alike, and the update does not change.
void StubSession::Rebase() {
  if (!training_ || !keeps_own_) return;
  Learn(StepsDone());
  RebaseOnto(slots_->theta(), absl::MakeSpan(base_), absl::MakeSpan(own_));
}

absl::Status StubSession::TakeMerge(const v1::Merge& merge) {
  RETURN_IF_ERROR(RequireMemory("Merge"));
  if (!keeps_own_) {
    return absl::InvalidArgumentError(absl::StrCat("Merge of version ", merge.version(),
                                                   ": the run's mode is '", spec_->mode().kind(),
                                                   "', not 'streaming'"));
  }
  merges_.Add(merge);
  return training_ ? absl::OkStatus() : Settle();  // else Advance does
}

// Does the merges that are due.
absl::Status StubSession::Settle() {
  const uint32_t done = training_ ? StepsDone() : 0;
  const std::vector<v1::Merge> due = merges_.Take(done, steps_);
  if (due.empty() || own_.empty()) return absl::OkStatus();
  if (training_) Learn(done);
  for (const v1::Merge& merge : due) {
    RETURN_IF_ERROR(MergeInto(merge, slots_->theta(), absl::MakeSpan(base_), absl::MakeSpan(own_)));
  }
  return absl::OkStatus();
}

// Returns how long until the loop must wake: for the end of the training, its merge, or its next
// progress.
absl::Duration StubSession::UntilNext() const {
  if (!training_) return absl::InfiniteDuration();
  absl::Time next = last_progress_ + kProgressEvery;
  if (!Waits()) next = std::min(next, began_ + waited_ + step_ * merges_.StepsBefore(steps_));
  return std::max(next - options_.now(), absl::ZeroDuration());
}

// Never beyond the point of the merge, which comes first however late this is called.
uint32_t StubSession::StepsDone() const {
  const uint32_t most = merges_.StepsBefore(steps_);
  const absl::Duration passed = options_.now() - began_ - waited_;
  if (passed >= step_ * most) return most;
  return static_cast<uint32_t>(passed / step_);
}

// The last step of a round of whole passes has the samples that are left.
uint64_t StubSession::SamplesDone(uint32_t steps) const {
  const uint64_t samples = uint64_t{steps} * spec_->inner().batch();
  const uint32_t epochs = spec_->inner().epochs();
  if (epochs == 0) return samples;
  return std::min(samples, epochs * StubPartySamples(NumberOf(train_.party())));
}

absl::Status StubSession::Advance() {
  RETURN_IF_ERROR(Settle());
  if (StepsDone() >= steps_ && !Waits()) {
    Finish();
  } else if (options_.now() - last_progress_ >= kProgressEvery) {
    SendProgress();
  }
  return absl::OkStatus();
}

void StubSession::Finish() {
  if (keeps_own_) {
    Learn(steps_);
    const absl::Span<float> update = slots_->update();
    for (size_t i = 0; i < update.size(); ++i) update[i] = base_[i] - own_[i];
  }
  training_ = false;
  v1::WorkerMessage message;
  v1::Boundary& boundary = *message.mutable_boundary();
  boundary.set_version(train_.version());
  boundary.set_steps(steps_);
  boundary.set_samples(SamplesDone(steps_));
  boundary.set_tokens(boundary.samples() * spec_->model().context());
  boundary.set_loss(loss_);
  boundary.set_first_loss(loss_);
  boundary.set_party(train_.party());
  boundary.set_seconds(absl::ToDoubleSeconds(options_.now() - began_ - waited_));
  boundary.set_waited_seconds(absl::ToDoubleSeconds(waited_));
  outbox_.Send(message);
}

void StubSession::SendProgress() {
  last_progress_ = options_.now();
  const uint32_t steps = StepsDone();
  const double seconds = absl::ToDoubleSeconds(last_progress_ - began_ - waited_);
  v1::WorkerMessage message;
  v1::WorkerProgress& progress = *message.mutable_progress();
  progress.set_version(train_.version());
  progress.set_step(steps);
  progress.set_steps(steps_);
  progress.set_loss(loss_);
  const auto tokens = static_cast<double>(SamplesDone(steps) * spec_->model().context());
  progress.set_tokens_per_second(seconds <= 0 ? 0 : tokens / seconds);
  progress.set_waited_seconds(absl::ToDoubleSeconds(waited_));
  outbox_.Send(message);
}

// Evaluates the mean squared distance to the target as a model's loss: reports the sum and the
// number of values.
absl::Status StubSession::Evaluate(const v1::EvaluateShare& evaluate) {
  RETURN_IF_ERROR(RequireMemory("EvaluateShare"));
  if (evaluate.own()) return EvaluateOwn(evaluate);
  if (evaluate.share() >= evaluate.shares()) {
    return absl::InvalidArgumentError(
        absl::StrCat("share ", evaluate.share(), " of ", evaluate.shares()));
  }
  const absl::Span<const float> theta = slots_->theta();
  // Parts of equal size; the first ones are larger by one where they do not divide.
  const uint64_t size = theta.size() / evaluate.shares();
  const uint64_t larger = theta.size() % evaluate.shares();
  const uint64_t first = evaluate.share() * size + std::min<uint64_t>(evaluate.share(), larger);
  const absl::Span<const float> part =
      theta.subspan(first, size + (evaluate.share() < larger ? 1 : 0));
  v1::WorkerMessage message;
  v1::WorkerEvaluated& evaluated = *message.mutable_evaluated();
  evaluated.set_version(evaluate.version());
  evaluated.set_share(evaluate.share());
  evaluated.set_shares(evaluate.shares());
  evaluated.set_loss_sum(StubSquaredDistance(part, first));
  evaluated.set_tokens(part.size());
  outbox_.Send(message);
  return absl::OkStatus();
}

// Evaluates the one party that is asked for, or all parties of this worker, each by its own target.
absl::Status StubSession::EvaluateOwn(const v1::EvaluateShare& evaluate) {
  const absl::Span<const float> first = slots_->theta().subspan(0, kLossValues);
  const bool all = parties_ > 0 && evaluate.party() == 0;
  const uint32_t begin = all ? 1 : evaluate.party(), end = all ? parties_ : begin;
  v1::WorkerMessage message;
  v1::WorkerEvaluated& evaluated = *message.mutable_evaluated();
  double sum = 0;
  for (uint32_t party = begin; party <= end; ++party) {
    const double loss = LossAt(first, options_.shift + StubPartyShift(NumberOf(party)));
    evaluated.add_own_losses(loss);
    sum += loss * kOwnTokens;
  }
  evaluated.set_version(evaluate.version());
  evaluated.set_share(evaluate.share());
  evaluated.set_shares(evaluate.shares());
  evaluated.set_loss_sum(sum);
  evaluated.set_tokens(kOwnTokens * static_cast<uint64_t>(evaluated.own_losses_size()));
  evaluated.set_own(true);
  evaluated.set_party(evaluate.party());
  outbox_.Send(message);
  return absl::OkStatus();
}

}  // namespace atolld

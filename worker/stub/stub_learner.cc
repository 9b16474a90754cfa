#include "worker/stub/stub_learner.h"

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

// There is no corpus, so its digest is a fixed value and its size is reported as 0.
constexpr size_t kDigestBytes = 32;

// The loss that a training reports covers only the first values: it shows where the run is, and
// costs little compared with the update.
constexpr size_t kLossValues = 65536;

// The number of tokens that a party claims to hold out.
constexpr uint64_t kOwnTokens = 64;

constexpr uint64_t kMostParameters = uint64_t{1} << 34;  // run.proto

constexpr uint64_t kStubExperts = 4;

void AddTensor(std::string name, uint64_t elements, v1::Manifest* manifest) {
  v1::Tensor& tensor = *manifest->add_tensors();
  tensor.set_name(std::move(name));
  tensor.add_shape(elements);
  tensor.set_offset(manifest->elements());
  manifest->set_elements(manifest->elements() + elements);
}

absl::StatusOr<v1::Manifest> StubManifest(const v1::RunSpec& spec) {
  const uint64_t elements = spec.model().parameters();
  v1::Manifest manifest;
  if (spec.experts().tensors().empty()) {
    AddTensor("stub", elements, &manifest);
    return manifest;
  }
  const uint64_t expert = elements / 2 / kStubExperts;
  if (expert == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.parameters is ", elements, "; with experts it must be at least ", 2 * kStubExperts));
  }
  AddTensor("stub", elements - kStubExperts * expert, &manifest);
  for (uint64_t i = 0; i < kStubExperts; ++i) {
    AddTensor(absl::StrCat("experts.", i), expert, &manifest);
  }
  return manifest;
}

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

StubLearner::StubLearner(WorkerEnv env, double slower, float shift)
    : env_(std::move(env)), slower_(slower), own_shift_(shift) {}

std::string StubLearner::software() const { return "atoll-stub-worker " ATOLL_VERSION; }

absl::StatusOr<v1::WorkerConfigured> StubLearner::Configure(const v1::Configure& configure) {
  spec_ = configure.spec();
  parties_ = 0;
  own_.clear();
  if (spec_.model().kind() != "stub") {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.kind \"", spec_.model().kind(), "\" needs atoll-worker; this one only takes time"));
  }
  const uint64_t elements = spec_.model().parameters();
  if (elements == 0 || elements > kMostParameters) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.parameters is ", elements, "; it must be 1 to 2^34"));
  }
  if (spec_.mode().kind() == "streaming") own_.resize(elements);
  step_ = slower_ * absl::Microseconds(static_cast<int64_t>(spec_.inner().step_microseconds()));
  v1::WorkerConfigured configured;
  ASSIGN_OR_RETURN(*configured.mutable_manifest(), StubManifest(spec_));
  if (spec_.data().private_()) {
    RETURN_IF_ERROR(ConfigureParties(configure, &configured));
  } else {
    configured.set_data_digest(std::string(kDigestBytes, '\0'));
  }
  configured.set_device("stub");
  configured.set_math_kernel("none");
  env_.Log(absl::StrCat("run ", spec_.run_id(), ": ", Counted(elements, "parameter"),
                        ", a step takes ", absl::FormatDuration(step_)));
  return configured;
}

// A folder, if there is one, determines how many parties there are; otherwise there are as many as
// asked for.
absl::Status StubLearner::ConfigureParties(const v1::Configure& configure,
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
    configured->set_validation_tokens(spec_.model().parameters());
  }
  return absl::OkStatus();
}

uint32_t StubLearner::NumberOf(uint32_t party) const {
  return parties_ == 0 || party == 0 ? 0 : first_party_ + party - 1;
}

absl::Status StubLearner::Initialise(absl::Span<float> parameters) {
  FillStubParameters(spec_.seed(), parameters);
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> StubLearner::Begin(const v1::TrainSteps& train, const Slots&) {
  if (train.party() > parties_) {
    return absl::InvalidArgumentError(absl::StrCat("party ", train.party(), " is not here; this ",
                                                   "worker has ",
                                                   Counted(parties_, "virtual one")));
  }
  if (own_.empty() && train.start() == "own") {
    return absl::InvalidArgumentError(absl::StrCat(
        "version ", train.version(), ": TrainSteps asks for parameters of the ",
        "worker's own, and the run's mode is '", spec_.mode().kind(), "', not 'streaming'"));
  }
  frozen_.assign(train.frozen().begin(), train.frozen().end());
  steps_ = train.steps();
  done_ = learnt_ = 0;
  number_ = NumberOf(train.party());
  if (const uint32_t epochs = spec_.inner().epochs(); epochs > 0 && steps_ > 0) {
    const uint64_t batch = std::max(1u, spec_.inner().batch());
    steps_ = static_cast<uint32_t>((epochs * StubPartySamples(number_) + batch - 1) / batch);
  }
  data_ = train.first_step() + number_ * kPartyKey + train.again() * kAgainKey;
  for (const v1::SampleRange& range : train.samples()) data_ = data_ * 31 + range.first();
  shift_ = own_shift_ + StubPartyShift(number_);
  return steps_;
}

absl::Status StubLearner::Start(absl::Span<const float> from, const Slots& slots) {
  if (own_.empty()) FillUpdate(from, slots.update());
  const absl::Span<const float> first =
      (from.empty() ? absl::MakeConstSpan(own_) : from).subspan(0, kLossValues);
  loss_ = shift_ != 0 ? LossAt(first, shift_)
                      : StubSquaredDistance(first, 0) / static_cast<double>(first.size());
  return absl::OkStatus();
}

// Fills in the update that the samples of the training give from there.
void StubLearner::FillUpdate(absl::Span<const float> from, absl::Span<float> update) const {
  FillStubUpdate(from, data_, update);
  if (shift_ != 0) {
    for (float& value : update) value -= kStubRate * shift_;
  }
  for (const v1::ValueRange& range : frozen_) {
    const absl::Span<float> values = update.subspan(range.first(), range.count());
    std::fill(values.begin(), values.end(), 0.0f);
  }
}

// The steps pass by themselves, but never beyond the point of a merge, which comes first however
// late this is called.
absl::StatusOr<StepsDone> StubLearner::TrainOn(absl::Duration lasted, uint32_t most) {
  StepsDone done;
  done.next = step_ * most;
  lasted = std::max(lasted, absl::ZeroDuration());  // the clock may go back
  done_ = lasted >= done.next ? most : static_cast<uint32_t>(lasted / step_);
  done.steps = done_;
  done.samples = SamplesIn(done_);
  done.tokens = done.samples * spec_.model().context();
  done.loss = done.first_loss = loss_;
  return done;
}

// The last step of a round of whole passes has the samples that are left.
uint64_t StubLearner::SamplesIn(uint32_t steps) const {
  const uint64_t samples = uint64_t{steps} * spec_.inner().batch();
  const uint32_t epochs = spec_.inner().epochs();
  return epochs == 0 ? samples : std::min(samples, epochs * StubPartySamples(number_));
}

// Moves the own parameters by the share of the update that the steps since the last call are; uses
// the update slot, which is the worker's, as scratch.
absl::Status StubLearner::CatchUp(const Slots& slots) {
  if (own_.empty() || done_ <= learnt_) return absl::OkStatus();
  const float part = static_cast<float>(done_ - learnt_) / static_cast<float>(steps_);
  learnt_ = done_;
  const absl::Span<float> update = slots.update();
  FillUpdate(own_, update);
  for (size_t i = 0; i < own_.size(); ++i) own_[i] -= part * update[i];
  return absl::OkStatus();
}

// Evaluates the mean squared distance to the target as a model's loss: reports the sum and the
// number of values.
absl::Status StubLearner::Evaluate(const v1::EvaluateShare& evaluate, const Slots& slots,
                                   const std::function<bool()>&, v1::WorkerEvaluated* evaluated) {
  const absl::Span<const float> theta = slots.theta();
  if (evaluate.own()) {
    EvaluateOwn(evaluate, theta, evaluated);
    return absl::OkStatus();
  }
  if (evaluate.share() >= evaluate.shares()) {
    return absl::InvalidArgumentError(
        absl::StrCat("share ", evaluate.share(), " of ", evaluate.shares()));
  }
  // Parts of equal size; the first ones are larger by one where they do not divide.
  const uint64_t size = theta.size() / evaluate.shares();
  const uint64_t larger = theta.size() % evaluate.shares();
  const uint64_t first = evaluate.share() * size + std::min<uint64_t>(evaluate.share(), larger);
  const absl::Span<const float> part =
      theta.subspan(first, size + (evaluate.share() < larger ? 1 : 0));
  evaluated->set_loss_sum(StubSquaredDistance(part, first));
  evaluated->set_tokens(part.size());
  return absl::OkStatus();
}

// Evaluates the one party that is asked for, or all parties of this worker, each by its own target.
void StubLearner::EvaluateOwn(const v1::EvaluateShare& evaluate, absl::Span<const float> theta,
                              v1::WorkerEvaluated* evaluated) const {
  const absl::Span<const float> first = theta.subspan(0, kLossValues);
  const bool all = parties_ > 0 && evaluate.party() == 0;
  const uint32_t begin = all ? 1 : evaluate.party(), end = all ? parties_ : begin;
  double sum = 0;
  for (uint32_t party = begin; party <= end; ++party) {
    const double loss = LossAt(first, own_shift_ + StubPartyShift(NumberOf(party)));
    evaluated->add_own_losses(loss);
    sum += loss * kOwnTokens;
  }
  evaluated->set_loss_sum(sum);
  evaluated->set_tokens(kOwnTokens * static_cast<uint64_t>(evaluated->own_losses_size()));
}

}  // namespace atolld

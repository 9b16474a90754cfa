// A learner for measuring the system without training. Its "training" only moves the parameters
// towards a fixed target vector.
//
//   update = 0.3 x (theta - target) + noise,     |noise| <= 0.005
//
// If the run has private data, every party has its own target, which differs slightly from the
// common target, and its own number of samples. An evaluation on the party's held-out data measures
// the distance to the party's target.
//
// Target, noise and initial parameters are not stored: they are computed when they are needed, with
// a few integer operations per value, in loops that a compiler can vectorise. The functions are
// pure and may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/worker.pb.h"
#include "worker/base/learner.h"
#include "worker/base/link.h"

namespace atolld {

// Returns value number `i` of the target, which is in [-2, 2).
float StubTarget(uint64_t i);

// Sets `parameters` to the initial parameters of a run with this seed, which are in [-0.5, 0.5).
void FillStubParameters(uint64_t seed, absl::Span<float> parameters);

// Sets `update` to the pseudo-gradient of one training that began at `theta`. `data` is a number
// that represents the samples used: each number gives a different noise. The spans have the same
// size.
void FillStubUpdate(absl::Span<const float> theta, uint64_t data, absl::Span<float> update);

// Returns the sum of (theta_i - target_i)^2; `theta` is the part of the parameter vector that
// begins at value number `first`.
double StubSquaredDistance(absl::Span<const float> theta, uint64_t first);

// StubPartyShift returns the difference, in [-0.1, 0.1), between each value of a party's target and
// of the common target. StubPartySamples returns the number of samples that the party has. The
// parties of the run are numbered from 1. Number 0 means a peer without virtual parties, whose
// target is the common target.
float StubPartyShift(uint32_t party);
uint64_t StubPartySamples(uint32_t party);

// A learner whose steps only take time.
//
// The parameters are one tensor, "stub". If peers own experts in the run (RunSpec.experts), "stub"
// is about half of them, and the rest is divided equally among "experts.0" to "experts.3". The
// update of frozen tensors is 0.
//
// The update is computed when a training starts, from theta or the guess, and is written directly
// to the update slot. No copy of it is needed, because the slot belongs to the worker from
// TrainSteps to Boundary. A rebase does not change the update, because the stub has no parameters
// that a new base would change. Only in a run of mode "streaming" does the learner have parameters,
// which it keeps from round to round; as steps pass, it moves them by their share of the update.
// Used by one thread.
class StubLearner final : public Learner {
 public:
  // Each step is made longer by the factor `slower`, to simulate a slower machine. `shift` is the
  // difference between this peer's target and the common target, to simulate different data.
  StubLearner(WorkerEnv env, double slower, float shift);

  std::string software() const override;
  // Fails with INVALID_ARGUMENT if the model's kind is not "stub", its size is not 1 to 2^34 (at
  // least 8 with experts), or there are fewer parties than Configure asks for.
  absl::StatusOr<v1::WorkerConfigured> Configure(const v1::Configure& configure) override;
  absl::Status Initialise(absl::Span<float> parameters) override;
  // Fails with INVALID_ARGUMENT if the party is not one of this worker's, or if the training needs
  // parameters of the worker's own and the run's mode is not "streaming".
  absl::StatusOr<uint32_t> Begin(const v1::TrainSteps& train, const Slots& slots) override;
  absl::Span<float> parameters() override { return absl::MakeSpan(own_); }
  absl::Status Start(absl::Span<const float> from, const Slots& slots) override;
  absl::StatusOr<StepsDone> TrainOn(absl::Duration lasted, uint32_t most) override;
  absl::Status CatchUp(const Slots& slots) override;
  absl::Status Evaluate(const v1::EvaluateShare& evaluate, const Slots& slots,
                        const std::function<bool()>& stop, v1::WorkerEvaluated* evaluated) override;

 private:
  absl::Status ConfigureParties(const v1::Configure& configure, v1::WorkerConfigured* configured);
  void EvaluateOwn(const v1::EvaluateShare& evaluate, absl::Span<const float> theta,
                   v1::WorkerEvaluated* evaluated) const;
  uint32_t NumberOf(uint32_t party) const;
  uint64_t SamplesIn(uint32_t steps) const;
  void FillUpdate(absl::Span<const float> from, absl::Span<float> update) const;

  // Constant after construction.
  const WorkerEnv env_;
  const double slower_;
  const float own_shift_;

  // Set by Configure.
  v1::RunSpec spec_;
  absl::Duration step_;
  uint32_t parties_ = 0, first_party_ = 1;  // The number of virtual parties; 0 if there are none.
  std::vector<float> own_;                  // Empty if the run's mode is not "streaming".

  // The training under way.
  std::vector<v1::ValueRange> frozen_;
  uint32_t number_ = 0;  // The number of its party.
  uint32_t steps_ = 0;   // The number of steps of this round.
  uint32_t done_ = 0;    // The number of steps that have passed.
  uint32_t learnt_ = 0;  // The number of steps whose share of the update has been applied to own_.
  uint64_t data_ = 0;    // The number that represents the samples; see FillStubUpdate.
  float shift_ = 0;  // The difference between the target of this training and the common target.
  double loss_ = 0;
};

}  // namespace atolld

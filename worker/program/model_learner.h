// The learner of a real model: a trainer, the data of the worker's parties, and what they keep from
// round to round.
//
// A learner that simulates a slower machine says when the step that it has computed would be over;
// until then the step is part of the training, and is not counted. Used by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "atoll/v1/worker.pb.h"
#include "worker/base/learner.h"
#include "worker/base/link.h"
#include "worker/program/party_keeper.h"
#include "worker/program/workload.h"
#include "worker/training/math_library.h"
#include "worker/training/trainer.h"

namespace atolld {

// Returns the version of libtorch, for example "1.13.1".
std::string TorchVersion();

class ModelLearner final : public Learner {
 public:
  struct Options {
    // The speed of this machine's matrix products, which is reported to the daemon.
    MathProbe math;
    // Sets the number of threads to Configure.threads, and returns the number that was set.
    std::function<int(int)> set_threads;
    std::string device = "auto";  // The devices to train on, in the form that ResolveDevices takes.
    // The factor, at least 1, by which each step is made longer to simulate a slower machine.
    double slower = 1;
  };

  ModelLearner(WorkerEnv env, Options options);

  std::string software() const override;
  absl::StatusOr<v1::WorkerConfigured> Configure(const v1::Configure& configure) override;
  absl::Status Initialise(absl::Span<float> parameters) override;
  absl::StatusOr<uint32_t> Begin(const v1::TrainSteps& train, const Slots& slots) override;
  absl::Span<float> parameters() override { return trainer_->parameters(); }
  absl::Status Moved(absl::Span<const float> base) override;
  absl::StatusOr<StepsDone> TrainOn(absl::Duration lasted, uint32_t most) override;
  absl::Status CatchUp(const Slots& slots) override;
  void Finish(const Slots& slots) override;
  void AfterBoundary() override;
  void Stop() override;
  absl::Status Evaluate(const v1::EvaluateShare& evaluate, const Slots& slots,
                        const std::function<bool()>& stop, v1::WorkerEvaluated* evaluated) override;

 private:
  // The result of one inner step.
  struct OneStep {
    double loss = 0, rate = 0;
    uint64_t samples = 0, tokens = 0;
  };

  absl::Status TakeUpParty(const v1::TrainSteps& train);
  absl::Status TakeUpControl(bool taken, const Slots& slots);
  uint32_t PlanRound();
  uint32_t NumberOf(uint32_t party) const;
  absl::StatusOr<std::vector<uint64_t>> NextSamples() const;
  absl::StatusOr<OneStep> TakeStep();
  void Count(const OneStep& step);
  void WarnOfEpochs();
  absl::StatusOr<EvaluationSum> EvaluateCommon(const v1::EvaluateShare& evaluate,
                                               absl::Span<const float> theta,
                                               const std::function<bool()>& stop);
  absl::StatusOr<EvaluationSum> EvaluateParty(uint32_t party, absl::Span<const float> theta,
                                              const std::function<bool()>& stop);
  void KeepTokenizer();

  // Constant after construction.
  const WorkerEnv env_;
  const Options options_;

  // Set by Configure.
  v1::RunSpec spec_;
  std::string state_path_;
  Workload load_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<PartyKeeper> keeper_;
  uint64_t boundaries_ = 0;
  bool warned_of_epochs_ = false;

  std::vector<float> common_;  // The control variate at the start of the round.

  // The training under way.
  v1::TrainSteps train_;
  uint32_t steps_ = 0;          // The number of steps of the round.
  uint64_t round_samples_ = 0;  // The number of samples of the round; only for private data.
  StepsDone done_;
  double loss_sum_ = 0;
  double rates_ = 0;  // The sum of the learning rates of the steps done.
  // A step that has been computed, and that the simulated machine finishes only at done_.next.
  absl::optional<OneStep> stretched_;
};

}  // namespace atolld

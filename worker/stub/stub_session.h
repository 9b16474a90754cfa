// A worker for measuring the system without training. It speaks the worker's side of worker.proto,
// but its "training" only moves the parameters towards a fixed target vector.
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
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "atoll/v1/worker.pb.h"
#include "worker/base/link.h"
#include "worker/base/merge_point.h"

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

// The worker's side of worker.proto without any training.
//
// A step only takes time. The update is computed when a training begins, from theta or the guess,
// and is written directly to the update slot. No copy of it is needed, because the slot belongs to
// the worker from TrainSteps to Boundary, and a rebase, which moves base and parameters by the same
// amount, does not change the update. Only in a run of mode "streaming" does the worker have its
// own base and parameters, which it keeps from round to round; as steps pass, it moves the
// parameters by their share of the update. The class has more than twenty members because it keeps
// the configuration, the parameters between two trainings, and the progress of the training under
// way. Used by one thread; input arrives only through `take`.
class StubSession {
 public:
  struct Options {
    std::function<absl::Time()> now;
    // Returns the next event, or nullopt if none arrives within `limit`, which may be
    // InfiniteDuration.
    std::function<absl::optional<Event>(absl::Duration limit)> take;
    // Logs one line, which has no newline. May be an empty function.
    std::function<void(const std::string&)> log;
    // The factor by which each step is made longer, to simulate a slower machine.
    double slower = 1;
    // The difference between this peer's target and the common target, to simulate different data.
    float shift = 0;
  };

  // `outbox` must outlive the session.
  StubSession(Outbox& outbox, Options options);

  // Sends the hello, then serves the daemon. Returns OK after Stop, the end of the stream or
  // SIGTERM. If something fails, sends the error to the daemon as WorkerFailed and returns it.
  absl::Status Run();

 private:
  enum class Next { kGoOn, kEnd };

  absl::StatusOr<Next> HandleMessage(const v1::DaemonMessage& message);
  absl::Status Configure(const v1::Configure& configure);
  absl::Status Map(const v1::MapMemory& map);
  absl::Status RequireMemory(absl::string_view message) const;
  absl::Status WriteInitialState();
  absl::Status BeginTraining(const v1::TrainSteps& train);
  absl::Status BeginFrom(TrainingStart start);
  absl::Status Evaluate(const v1::EvaluateShare& evaluate);
  absl::Duration UntilNext() const;
  absl::Status ConfigureParties(const v1::Configure& configure, v1::WorkerConfigured* configured);
  absl::Status EvaluateOwn(const v1::EvaluateShare& evaluate);
  uint32_t NumberOf(uint32_t party) const;
  uint64_t SamplesDone(uint32_t steps) const;
  void FillUpdate(absl::Span<const float> from);
  void Learn(uint32_t done);
  void Rebase();
  absl::Status TakeMerge(const v1::Merge& merge);
  absl::Status Settle();
  absl::Status Advance();
  void Finish();
  void SendProgress();
  uint32_t StepsDone() const;
  bool Waits() const { return training_ && merges_.Waits(StepsDone(), steps_); }

  // Constant after construction.
  Outbox& outbox_;
  const Options options_;

  // Set by Configure.
  absl::optional<v1::RunSpec> spec_;
  absl::Duration step_;
  uint32_t parties_ = 0, first_party_ = 1;  // The number of virtual parties; 0 if there are none.
  std::unique_ptr<Slots> slots_;
  bool keeps_own_ = false;         // True if the run's mode is "streaming".
  std::vector<float> base_, own_;  // Empty before the first training.
  MergePoint merges_;

  // The training under way; there is none if `training_` is false.
  bool training_ = false;
  v1::TrainSteps train_;
  uint32_t steps_ = 0;  // The number of steps of this round.
  uint64_t data_ = 0;   // The number that represents the samples; see FillStubUpdate.
  float shift_ = 0;     // The difference between the target of this training and the common target.
  uint32_t learnt_ = 0;  // The number of steps whose share of the update has been applied to own_.
  double loss_ = 0;
  absl::Time began_, last_progress_;
  absl::Duration waited_;  // The time spent waiting for a merge.
};

}  // namespace atolld

// A worker that only measures the system: everything that a worker says and does (worker.proto),
// with a fixed vector for a model, which every update moves the parameters towards.
//
//   update = 0.3 x (theta - target) + noise,     |noise| <= 0.005
//
// With private data every party learns a target of its own, which is a little off the common one,
// and has a number of samples of its own; what it would hold out is that target too.
//
// Target, noise and initial parameters are not kept: they are computed where they are needed, a few
// integer operations a value, in loops that a compiler can vectorise. Pure functions, any thread.
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

// What is to be learned: value `i` of the target, in [-2, 2).
float StubTarget(uint64_t i);

// The initial parameters of a run with this seed, in [-0.5, 0.5).
void FillStubParameters(uint64_t seed, absl::Span<float> parameters);

// The pseudo-gradient of one training that began at `theta`. `data` stands for the samples that it
// was done on: other data, other noise. Spans of one size.
void FillStubUpdate(absl::Span<const float> theta, uint64_t data, absl::Span<float> update);

// Sum of (theta_i - target_i)^2; `theta` is the part of the vector that begins at value `first`.
double StubSquaredDistance(absl::Span<const float> theta, uint64_t first);

// How far a party's target is from the common one, in [-0.1, 0.1), and how many samples it has.
// Parties count from 1, among all of the run; 0: a peer that is one party itself, whose target is
// the common one.
float StubPartyShift(uint32_t party);
uint64_t StubPartySamples(uint32_t party);

// The worker's side of worker.proto, but no training.
//
// A step is time that passes. The update is computed when a training begins, from theta (or the
// guess) straight into the update slot: that slot is the worker's from TrainSteps to Boundary, base
// and parameters of a rebase move alike, and so no copy of the vector is made. Only in a run of
// mode "streaming" the worker has base and parameters of its own, which stay from round to round:
// they take an update's part of the way with each part of the steps. Runs on one thread; the inbox
// is the only way in.
class StubSession {
 public:
  struct Options {
    std::function<absl::Time()> now;
    // The next event, or nothing after `limit`. InfiniteDuration: until there is one.
    std::function<absl::optional<Event>(absl::Duration limit)> take;
    std::function<void(const std::string&)> log;  // one line, without a newline; may be empty
    double slower = 1;  // a step takes so many times what the run says: a machine unlike the others
    float shift = 0;    // it learns a target that is so far from the others': data unlike theirs
  };

  // The outbox must outlive the session.
  StubSession(Outbox& outbox, Options options);

  // Says hello, then serves until Stop, the end of the stream or SIGTERM: OK. Otherwise the error
  // that was also sent as WorkerFailed.
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

  // Since Configure.
  absl::optional<v1::RunSpec> spec_;
  absl::Duration step_;
  uint32_t parties_ = 0, first_party_ = 1;  // virtual ones; 0: none
  std::unique_ptr<Slots> slots_;
  bool keeps_own_ = false;         // the run's mode is "streaming"
  std::vector<float> base_, own_;  // empty: none yet
  MergePoint merges_;

  // The training that goes on; `training_` false: none.
  bool training_ = false;
  v1::TrainSteps train_;
  uint32_t steps_ = 0;   // of this round
  uint64_t data_ = 0;    // stands for the samples
  float shift_ = 0;      // how far their target is from the common one
  uint32_t learnt_ = 0;  // steps whose part of the way own_ has gone
  double loss_ = 0;
  absl::Time began_, last_progress_;
  absl::Duration waited_;  // for a merge
};

}  // namespace atolld

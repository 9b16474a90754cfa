// The worker's side of worker.proto: does what the daemon asks, in the order of the messages.
//
// It reads the inbox between two inner steps, so a rebase, a stop or newer work never waits longer
// than one step. A worker that simulates a slower machine sleeps after each step, and still reads
// the inbox while it sleeps; in its reports the sleep is part of the step. The worker touches a
// slot of the shared memory only between a message that gives it the slot and its answer to that
// message. The class Session has more than twenty members because it keeps the configuration, the
// parameters between two trainings, and the progress of the training under way. Used by one thread;
// input arrives only through the inbox.
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
#include "atoll/v1/worker.pb.h"
#include "worker/base/link.h"
#include "worker/base/merge_point.h"
#include "worker/program/party_keeper.h"
#include "worker/program/workload.h"
#include "worker/training/math_library.h"
#include "worker/training/trainer.h"

namespace atolld {

// Return the versions of libtorch and of this program as the worker reports them.
std::string TorchVersion();     // Returns for example "1.13.1".
std::string SoftwareVersion();  // Returns for example "atoll-worker 0.1.0, libtorch 1.13.1".

class Session {
 public:
  struct Options {
    // The speed of this machine's matrix products, which is reported to the daemon.
    MathProbe math;
    std::function<absl::Time()> now = absl::Now;
    std::function<void(const std::string&)> log;  // Logs one line, which has no newline.
    // Sets the number of threads to Configure.threads, and returns the number that was set.
    std::function<int(int)> set_threads;
    std::string device = "auto";  // The devices to train on, in the form that ResolveDevices takes.
    // The factor, at least 1, by which each step is made longer to simulate a slower machine.
    double slower = 1;
  };

  // `inbox` and `outbox` must outlive the session.
  Session(Inbox& inbox, Outbox& outbox, Options options);

  // Sends the hello, then serves the daemon. Returns OK after Stop, the end of the stream or
  // SIGTERM. If something fails, sends the error to the daemon as WorkerFailed and returns it.
  absl::Status Run();

 private:
  enum class Next { kGoOn, kEnd };

  // The result of one inner step.
  struct StepDone {
    double loss = 0, rate = 0;
    uint64_t samples = 0, tokens = 0;
  };

  absl::optional<Event> NextEvent();
  absl::StatusOr<Next> Handle(const Event& event);
  absl::StatusOr<Next> HandleMessage(const v1::DaemonMessage& message);
  absl::Status Configure(const v1::Configure& configure);
  absl::Status RequireMemory(absl::string_view message) const;
  absl::Status WriteInitialState();
  absl::Status Map(const v1::MapMemory& map);
  absl::Status BeginTraining(const v1::TrainSteps& train);
  absl::Status BeginFrom(TrainingStart start);
  absl::Status TrainOneStep();
  absl::Status EndStep(const StepDone& done);
  absl::Status TakeMerge(const v1::Merge& merge);
  absl::Status Settle();
  absl::Status Merge(const v1::Merge& merge);
  bool Waits() const { return training_ && merges_.Waits(steps_done_, steps_); }
  absl::Status FinishTraining();
  absl::Status ApplyRebase(const v1::Rebase& rebase);
  absl::Status EvaluateOneShare(const v1::EvaluateShare& evaluate);
  absl::StatusOr<EvaluationSum> EvaluateCommon(const v1::EvaluateShare& evaluate);
  absl::StatusOr<EvaluationSum> EvaluateOwn(const v1::EvaluateShare& evaluate,
                                            v1::WorkerEvaluated* evaluated);
  absl::StatusOr<EvaluationSum> EvaluateParty(const v1::EvaluateShare& evaluate, uint32_t party);
  std::function<bool()> StopOf(const v1::EvaluateShare& evaluate);
  absl::Status GiveUpRound();
  absl::Status TakeUpParty(const v1::TrainSteps& train);
  absl::Status TakeUpControl(bool taken);
  void PlanRound();
  uint32_t NumberOf(uint32_t party) const;
  absl::StatusOr<std::vector<uint64_t>> NextSamples() const;
  void CountEpochs(const v1::TrainSteps& train);
  void SendProgress();
  void SendConfigured(int threads);
  void SendEvaluated(uint64_t version, uint64_t done);
  void KeepTokenizer();
  void Log(const std::string& line) const;
  void Warn(const absl::Status& status) const;

  // Constant after construction.
  Inbox& inbox_;
  Outbox& outbox_;
  const Options options_;

  // Set by Configure.
  v1::RunSpec spec_;
  std::string state_path_;
  Workload load_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<PartyKeeper> keeper_;
  std::unique_ptr<Slots> slots_;
  uint64_t boundaries_ = 0;
  bool warned_of_epochs_ = false;
  std::vector<float> base_;  // The theta, or the daemon's guess of it, that the worker took last.
  // True if the trainer's parameters are the result of a training that started at base_.
  bool has_own_ = false;
  MergePoint merges_;
  std::vector<float> common_;  // The control variate at the start of the round.

  // The training under way; there is none if `training_` is false.
  bool training_ = false;
  v1::TrainSteps train_;
  uint32_t steps_ = 0;          // The number of steps of the round.
  uint64_t round_samples_ = 0;  // The number of samples of the round; only for private data.
  uint32_t steps_done_ = 0;
  uint64_t samples_done_ = 0;
  uint64_t tokens_done_ = 0;  // The number of targets in these samples that count.
  double loss_sum_ = 0, first_loss_ = 0;
  double rates_ = 0;        // The sum of the learning rates of the steps done.
  uint64_t evaluated_ = 0;  // The number of batches done in the evaluation under way.
  absl::Time began_, last_progress_;
  // The time that this training has lost to evaluations; it does not count as training time.
  absl::Duration evaluating_;
  // The time that this training has spent waiting for a merge; it does not count either.
  absl::Duration waited_;
  // A step that has been computed, and that the simulated machine finishes only after owed_.
  absl::optional<StepDone> stretched_;
  absl::Duration owed_;
};

}  // namespace atolld

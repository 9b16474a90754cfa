// The worker's side of worker.proto: does what the daemon asks, in the order of the messages.
//
// Between two inner steps it looks at the inbox, so a rebase, a stop or newer work never waits
// longer than a step. One that plays a slower machine sleeps after each step: to everybody else
// that is a part of the step, and it hears of what comes meanwhile. A slot of the shared memory is
// touched only while a message about it is the worker's to answer. Runs on one thread; the inbox is
// the only way in.
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

// What this program and the libtorch under it call themselves.
std::string TorchVersion();     // "1.13.1"
std::string SoftwareVersion();  // "atoll-worker 0.1.0, libtorch 1.13.1"

class Session {
 public:
  struct Options {
    MathProbe math;  // reported to the daemon
    std::function<absl::Time()> now = absl::Now;
    std::function<void(const std::string&)> log;  // one line, without a newline
    std::function<int(int)> set_threads;          // takes Configure.threads; returns what was set
    std::string device = "auto";                  // as ResolveDevices takes it
    double slower = 1;  // a step lasts so many times what it takes, from 1: a slower machine
  };

  // Inbox and outbox must outlive the session.
  Session(Inbox& inbox, Outbox& outbox, Options options);

  // Says hello, then serves until Stop, the end of the stream or SIGTERM: OK. Otherwise the error
  // that was also sent as WorkerFailed.
  absl::Status Run();

 private:
  enum class Next { kGoOn, kEnd };

  // What a step has come to.
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
  absl::Status ApplyRebase();
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
  void KeepRound();
  void CountEpochs(const v1::TrainSteps& train);
  void SendProgress();
  void SendConfigured(int threads);
  void SendEvaluated(uint64_t version, uint64_t done);
  void SaveOptimizer();
  void LoadOptimizer();
  void KeepTokenizer();
  void Log(const std::string& line) const;

  // Constant after construction.
  Inbox& inbox_;
  Outbox& outbox_;
  const Options options_;

  // Since Configure.
  v1::RunSpec spec_;
  std::string state_path_;
  Workload load_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<PartyKeeper> keeper_;  // null: the run keeps the optimiser's state alone
  std::unique_ptr<Slots> slots_;
  uint64_t boundaries_ = 0;
  bool warned_of_epochs_ = false;
  std::vector<float> base_;  // theta as the worker last took it, or a guess of it
  bool has_own_ = false;     // the trainer's parameters are those of a training, on that base
  MergePoint merges_;
  std::vector<float> common_;  // the control variate as it was when the round began

  // The training that goes on; `training_` false: none.
  bool training_ = false;
  v1::TrainSteps train_;
  uint32_t steps_ = 0;          // of the round
  uint64_t round_samples_ = 0;  // of it, with private data
  uint32_t steps_done_ = 0;
  uint64_t samples_done_ = 0;
  uint64_t tokens_done_ = 0;  // targets of these that count
  double loss_sum_ = 0, first_loss_ = 0;
  double rates_ = 0;        // the sum of the learning rates of the steps that are done
  uint64_t evaluated_ = 0;  // turns of the evaluation under way
  absl::Time began_, last_progress_;
  absl::Duration evaluating_;           // inside this training, not counted as its time
  absl::Duration waited_;               // likewise, for a merge
  absl::optional<StepDone> stretched_;  // computed, and not over yet: for owed_ longer
  absl::Duration owed_;
};

}  // namespace atolld

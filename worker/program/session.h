// The worker's side of worker.proto: does what the daemon asks, in the order of the messages.
//
// Between two inner steps it looks at the inbox, so a rebase, a stop or newer work never waits
// longer than a step. A slot of the shared memory is touched only while a message about it is the
// worker's to answer. Runs on one thread; the inbox is the only way in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "atoll/v1/worker.pb.h"
#include "worker/base/link.h"
#include "worker/data/tokenizer.h"
#include "worker/training/math_library.h"
#include "worker/training/trainer.h"

namespace atolld {

// What a run's kind of model and data comes to: a trainer, and what it reads.
struct Workload {
  std::shared_ptr<const void> data;  // outlives the trainer, which reads it
  std::unique_ptr<Trainer> trainer;
  std::string device;       // that the trainer computes on; of several, with commas between
  std::string data_digest;  // 32 bytes
  uint64_t train_tokens = 0;
  uint64_t validation_tokens = 0;
  const Tokenizer* tokenizer = nullptr;  // of `data`; null: it has none
  std::vector<std::string> notes;        // what the data's owner should know
};

// What Configure asks for, of text on `devices`. INVALID_ARGUMENT: a kind that is not known, or one
// that cannot train on several. FAILED_PRECONDITION: the data here is not the run's. Otherwise what
// the data's and the trainer's own Open and Make say.
absl::StatusOr<Workload> OpenWorkload(const v1::Configure& configure,
                                      const std::vector<std::string>& devices);

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
  };

  // Inbox and outbox must outlive the session.
  Session(Inbox& inbox, Outbox& outbox, Options options);

  // Says hello, then serves until Stop, the end of the stream or SIGTERM: OK. Otherwise the error
  // that was also sent as WorkerFailed.
  absl::Status Run();

 private:
  enum class Next { kGoOn, kEnd };

  absl::StatusOr<Next> Handle(const Event& event);
  absl::StatusOr<Next> HandleMessage(const v1::DaemonMessage& message);
  absl::Status Configure(const v1::Configure& configure);
  absl::Status RequireMemory(absl::string_view message) const;
  absl::Status WriteInitialState();
  absl::Status BeginTraining(const v1::TrainSteps& train);
  absl::Status TrainOneStep();
  absl::Status FinishTraining();
  absl::Status ApplyRebase();
  absl::Status EvaluateOneShare(const v1::EvaluateShare& evaluate);
  void CountEpochs(const v1::TrainSteps& train);
  void SendProgress();
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
  std::unique_ptr<Slots> slots_;
  uint64_t boundaries_ = 0;
  bool warned_of_epochs_ = false;
  std::vector<float> base_;  // theta as the worker last took it

  // The training that goes on; `training_` false: none.
  bool training_ = false;
  v1::TrainSteps train_;
  uint32_t steps_done_ = 0;
  double loss_sum_ = 0;
  absl::Time began_, last_progress_;
  absl::Duration evaluating_;  // inside this training, not counted as its time
};

}  // namespace atolld

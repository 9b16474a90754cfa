// The worker's side of worker.proto: does what the daemon asks, in the order of the messages.
//
// A Learner does the training itself. The session reads the inbox between two inner steps, so a
// rebase, a stop or newer work never waits longer than one step. The worker touches a slot of the
// shared memory only between a message that gives it the slot and its answer to that message. Used
// by one thread; input arrives only through the inbox.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "atoll/v1/worker.pb.h"
#include "worker/base/learner.h"
#include "worker/base/link.h"
#include "worker/base/merge_point.h"

namespace atolld {

class Session {
 public:
  // `inbox`, `outbox` and `learner` must outlive the session.
  Session(Inbox& inbox, Outbox& outbox, Learner& learner, WorkerEnv env);

  // Sends the hello, then serves the daemon. Returns OK after Stop, the end of the stream or
  // SIGTERM. If something fails, sends the error to the daemon as WorkerFailed and returns it.
  absl::Status Run();

 private:
  enum class Next { kGoOn, kEnd };

  absl::optional<Event> NextEvent();
  absl::StatusOr<Next> Handle(const Event& event);
  absl::Status Configure(const v1::Configure& configure);
  absl::Status RequireMemory(absl::string_view message) const;
  absl::Status WriteInitialState();
  absl::Status Map(const v1::MapMemory& map);
  absl::Status BeginTraining(const v1::TrainSteps& train);
  absl::StatusOr<absl::Span<const float>> FromOf(const v1::TrainSteps& train) const;
  absl::Status StartFrom(absl::Span<const float> from, const v1::TrainSteps& train);
  void KeepFrozen();
  absl::Status TrainOn();
  absl::Status TakeMerge(const v1::Merge& merge);
  absl::Status Settle();
  bool Waits() const { return training_ && merges_.Waits(done_.steps, steps_); }
  absl::Status FinishTraining();
  absl::Status ApplyRebase(const v1::Rebase& rebase);
  absl::Status EvaluateOneShare(const v1::EvaluateShare& evaluate);
  std::function<bool()> StopOf(const v1::EvaluateShare& evaluate);
  absl::Duration LastedUntil(absl::Time time) const;
  void SendProgress();
  void SendEvaluated(uint64_t version, uint64_t done);

  // Constant after construction.
  Inbox& inbox_;
  Outbox& outbox_;
  Learner& learner_;
  const WorkerEnv env_;

  v1::Manifest manifest_;  // Has no elements before Configure.
  std::unique_ptr<Slots> slots_;
  std::vector<float> base_;  // The theta, or the daemon's guess of it, that the worker took last.
  // True if the learner's parameters are the result of a training that started at base_. In frozen
  // tensors (TrainSteps.frozen) both have the same values.
  bool has_own_ = false;
  MergePoint merges_;

  // The training under way; there is none if `training_` is false.
  bool training_ = false;
  v1::TrainSteps train_;
  uint32_t steps_ = 0;  // The number of steps of the round.
  StepsDone done_;
  uint64_t evaluated_ = 0;  // The number of batches done in the evaluation under way.
  absl::Time began_, last_progress_;
  // The time that this training has lost to evaluations; it does not count as training time.
  absl::Duration evaluating_;
  // The time that this training has spent waiting for a merge; it does not count either.
  absl::Duration waited_;
};

}  // namespace atolld

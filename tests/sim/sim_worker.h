// SimWorker: a Worker in simulated time that "learns" a fixed target vector, so that a test can
// follow a run's mathematics.
//
// Like a real worker it takes theta, or a guess of it, when its training begins; it rebases when a
// commit passes, or continues from its own parameters and merges ranges; it leaves frozen ranges as
// they are; and it writes base - parameters into the shared memory. Its steps take virtual time. A
// test can make it slow, kill it, make it hang, or make it hand over nonsense, and can observe what
// it takes and gives. Deterministic.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "daemon/env/env.h"
#include "daemon/peer/worker.h"

namespace atolld {

// The update that a lying trainer hands over each time instead of the one that it learned.
enum class StubHabit {
  kNone,
  kZeros,
  kReplay,  // its first update
  kFlip,    // the negative of ten times what it learned
  kHuge,    // 1e30 in every value
};

// The pattern of the names of the tensors of experts that a SimWorker has.
inline constexpr char kSimExperts[] = "expert.#.*";

struct SimWorkerSettings {
  uint64_t elements = 10000;
  uint64_t tensors = 1;  // The number of tensors into which the elements are divided.
  // The tensors form layers of this many, each tensor larger than the previous one; 0 means equal
  // tensors and no layers.
  uint64_t tensors_a_layer = 0;
  // If above 0, `tensors` has no effect: there are three shared tensors, and three of each of these
  // experts, of unequal sizes and in turn.
  uint32_t experts = 0;
  // True if these are slices of adapters, with nothing that is shared, of which this machine trains
  // the first `lora_rank`; 0 means all.
  bool slices = false;
  uint32_t lora_rank = 0;
  uint64_t seed = 1;     // The seed of this peer's noise.
  uint64_t initial = 0;  // The seed of the initial parameters that it makes.
  absl::Duration step = absl::Milliseconds(50);
  StubHabit habit = StubHabit::kNone;
};

// Functions that observe the worker; each may be empty.
struct SimWorkerProbe {
  std::function<void(absl::Span<const float> initial)> on_initial;
  // Called when the worker has taken theta for these steps, or the guess if they start from one.
  std::function<void(const v1::TrainSteps& train, absl::Span<const float> theta)> on_train;
  // Called when the worker hands over an update. `base` is theta as the worker last read it; the
  // update is relative to it.
  std::function<void(absl::Span<const float> update, absl::Span<const float> base)> on_update;
};

class SimWorker final : public Worker {
 public:
  SimWorker(Env env, SimWorkerSettings settings, SimWorkerProbe probe = {});
  ~SimWorker() override;

  void Start(const v1::RunSpec& spec, Events events) override;
  void Renew(const v1::RunSpec&, const std::string&) override {}  // It reads no data.
  void Send(const v1::DaemonMessage& message) override;
  void Restart(const absl::Status& why) override;
  void Pause() override;
  void Resume() override;
  void Stop(Task done) override;

  bool started() const { return events_.on_lost != nullptr; }

  // Kills a started worker as SIGKILL does. It comes back after `pause` and has forgotten
  // everything.
  void Kill(absl::Duration pause);

  // FlipThetaBit simulates a memory fault: it flips one bit of the replica's theta, which the peer
  // shares with this worker. mapped() must be true.
  bool mapped() const { return mapping_ != nullptr; }
  void FlipThetaBit(uint64_t value, int bit);

  // Sets the duration of one step, for trainings that begin from now on.
  void SetStep(absl::Duration step) { step_ = step; }

  // A held worker does not finish: its last step lasts until the test releases it.
  void SetHeld(bool held) { held_ = held; }

  // Stops the worker, as SIGSTOP does, when it next gets an order of this stage. It takes the order
  // and then does nothing until it is killed. With `always` every later worker does the same.
  // Evaluations of versions before `from` are still carried out.
  enum class Stage { kNowhere, kInitialState, kTraining, kEvaluation, kEnd, kOther };
  void HangAt(Stage stage, bool always, uint64_t from = 0) {
    hang_at_ = stage;
    hangs_always_ = always;
    hangs_from_ = from;
  }
  bool hangs() const { return hangs_; }

  using Habit = StubHabit;

  // Makes the next update differ from what was learned.
  enum class Spoil { kNone, kNaN, kInfinity, kHuge };
  void SpoilNext(Spoil spoil) { spoil_ = spoil; }
  bool spoiled() const { return spoil_ == Spoil::kNone; }  // true once SpoilNext has taken effect

 private:
  bool Hangs(Stage stage);
  void Die(const absl::Status& why, absl::Duration pause);
  void Configure();
  void Map(const v1::MapMemory& map);
  void Unmap();
  void Train(const v1::TrainSteps& train);
  void ShowProgress(const v1::TrainSteps& train, absl::Time began);
  void Rebase(const v1::Rebase& rebase);
  void OnMerge(const v1::Merge& merge);
  void MergePending();
  void MergeNow(const v1::Merge& merge);
  void MergeValues(const v1::Merge& merge, uint64_t first, uint64_t count);
  void ForgetParameters();
  void FinishTraining(const v1::TrainSteps& train, absl::Duration took);
  void SpoilUpdate();
  void LieByHabit();
  void ClearFrozen(float* values) const;
  void Evaluate(const v1::EvaluateShare& evaluate);
  float Target(uint64_t i) const;

  const Env env_;
  const SimWorkerSettings settings_;
  const SimWorkerProbe probe_;

  v1::RunSpec spec_;
  // For private data: the number of samples that were trained on since the process began.
  uint64_t own_samples_ = 0;
  Events events_;
  absl::Duration step_;
  Spoil spoil_ = Spoil::kNone;
  bool held_ = false;
  bool running_ = false;
  bool paused_ = false;
  Stage hang_at_ = Stage::kNowhere;
  bool hangs_always_ = false;
  uint64_t hangs_from_ = 0;  // a version
  bool hangs_ = false;       // true while it hangs
  bool trains_ = false;
  uint64_t life_ = 0;  // grows at each death and each Train; answers of a former life are dropped
  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
  const float* theta_ = nullptr;
  const float* guess_ = nullptr;  // null unless the run's mode is "eager"
  float* update_ = nullptr;
  std::vector<float> base_;   // theta as this trainer last read it, or the guess.
  std::vector<float> first_;  // The first update, if the worker replays it.
  // The effect of the worker's own steps, which is start minus parameters. After a rebase that
  // moves the parameters along with the base, the worker hands over exactly this.
  std::vector<float> learned_;
  std::vector<float> start_;
  std::vector<v1::ValueRange> frozen_;  // what the present training does not move, ascending
  bool keeps_parameters_ = false;  // true if a rebase of this training has left the parameters as
                                   // they are
  // The worker's own parameters, as they will be after the steps under way; empty unless the run's
  // mode is "streaming".
  std::vector<float> own_;
  // The merge that must happen before the training can end; 0 if there is none.
  uint64_t awaited_ = 0;
  uint64_t merged_ = 0;             // the newest merge that has happened
  absl::Time merge_at_;             // the earliest time of the pending merge
  std::vector<v1::Merge> pending_;  // the merges that wait for merge_at_
  struct Waiting {
    v1::TrainSteps train;
    absl::Duration took;
    absl::Time since;
  };
  std::optional<Waiting> waiting_;  // set if its steps are done but the merge has not arrived
  absl::Duration waited_;           // for the merge of the training that is being finished
  CallbackGuard guard_;
};

}  // namespace atolld

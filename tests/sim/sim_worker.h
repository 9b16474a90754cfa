// SimWorker: a Worker on simulated time that "learns" a fixed target vector, so that a run's
// mathematics can be followed.
//
// Like a real worker it takes theta, or a guess of it, when its training begins, rebases when a
// commit passes, or goes on from its own parameters and merges ranges, and writes base - parameters
// into the shared memory. Its steps take virtual time; it can be made slow, killed, made to hang,
// or made to hand over nonsense. What it takes and gives can be listened to. Deterministic.
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

// What a trainer that lies hands over instead of what it learned, each time.
enum class StubHabit {
  kNone,
  kZeros,
  kReplay,  // its first update
  kFlip,    // ten times what it learned, backwards
  kHuge,    // 1e30 everywhere
};

struct SimWorkerSettings {
  uint64_t elements = 10000;
  uint64_t tensors = 1;  // that the elements are divided into
  // In layers of so many, each tensor larger than the one before; 0: equal ones, and no layers.
  uint64_t tensors_a_layer = 0;
  uint64_t seed = 1;     // of this peer's noise
  uint64_t initial = 0;  // seed of the initial parameters that it makes
  absl::Duration step = absl::Milliseconds(50);
  StubHabit habit = StubHabit::kNone;
};

// What a test may hear of a trainer; each may be empty.
struct SimWorkerProbe {
  std::function<void(absl::Span<const float> initial)> on_initial;
  // It has taken theta for these steps, or, where they are to start from it, the guess.
  std::function<void(const v1::TrainSteps& train, absl::Span<const float> theta)> on_train;
  // It hands over an update, formed on `base`: theta as it last read it.
  std::function<void(absl::Span<const float> update, absl::Span<const float> base)> on_update;
};

class SimWorker final : public Worker {
 public:
  SimWorker(Env env, SimWorkerSettings settings, SimWorkerProbe probe = {});
  ~SimWorker() override;

  void Start(const v1::RunSpec& spec, Events events) override;
  void Renew(const v1::RunSpec&, const std::string&) override {}  // it reads no data
  void Send(const v1::DaemonMessage& message) override;
  void Restart(const absl::Status& why) override;
  void Pause() override;
  void Resume() override;
  void Stop(Task done) override;

  bool started() const { return events_.on_lost != nullptr; }

  // As SIGKILL to a worker that was started: it is back, without memory, after `pause`.
  void Kill(absl::Duration pause);

  // A fault of the machine's memory: one bit of the replica's theta, which it shares with this.
  bool mapped() const { return mapping_ != nullptr; }
  void FlipThetaBit(uint64_t value, int bit);

  // Of the steps that begin from now on.
  void SetStep(absl::Duration step) { step_ = step; }

  // While held it does not finish: its last step takes as long as the test likes.
  void SetHeld(bool held) { held_ = held; }

  // As SIGSTOP to it when it is next asked for this: it takes the order, and does nothing more
  // until it is killed. `always`: so does each worker after it. `from`: evaluations of older
  // versions are done.
  enum class Stage { kNowhere, kInitialState, kTraining, kEvaluation, kEnd, kOther };
  void HangAt(Stage stage, bool always, uint64_t from = 0) {
    hang_at_ = stage;
    hangs_always_ = always;
    hangs_from_ = from;
  }
  bool hangs() const { return hangs_; }

  using Habit = StubHabit;

  // The next update is not what was learned.
  enum class Spoil { kNone, kNaN, kInfinity, kHuge };
  void SpoilNext(Spoil spoil) { spoil_ = spoil; }
  bool spoiled() const { return spoil_ == Spoil::kNone; }  // SpoilNext has had its effect

 private:
  bool Hangs(Stage stage);
  void Die(const absl::Status& why, absl::Duration pause);
  void Configure();
  void Map(const v1::MapMemory& map);
  void Unmap();
  void Train(const v1::TrainSteps& train);
  void ShowProgress(const v1::TrainSteps& train, absl::Time began);
  void Rebase();
  void OnMerge(const v1::Merge& merge);
  void MergePending();
  void MergeNow(const v1::Merge& merge);
  void MergeValues(const v1::Merge& merge, uint64_t first, uint64_t count);
  void ForgetParameters();
  void FinishTraining(const v1::TrainSteps& train, absl::Duration took);
  void SpoilUpdate();
  void LieByHabit();
  void Evaluate(const v1::EvaluateShare& evaluate);
  float Target(uint64_t i) const;

  const Env env_;
  const SimWorkerSettings settings_;
  const SimWorkerProbe probe_;

  v1::RunSpec spec_;
  uint64_t own_samples_ = 0;  // of private data: so many were trained on since the process began
  Events events_;
  absl::Duration step_;
  Spoil spoil_ = Spoil::kNone;
  bool held_ = false;
  bool running_ = false;
  bool paused_ = false;
  Stage hang_at_ = Stage::kNowhere;
  bool hangs_always_ = false;
  uint64_t hangs_from_ = 0;  // version
  bool hangs_ = false;       // now
  bool trains_ = false;
  uint64_t life_ = 0;  // grows at each death and each Train: answers of a former one are dropped
  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
  const float* theta_ = nullptr;
  const float* guess_ = nullptr;  // of a run in mode "eager"
  float* update_ = nullptr;
  std::vector<float> base_;     // theta as this trainer last read it, or the guess
  std::vector<float> first_;    // update, of one that replays it
  std::vector<float> learned_;  // what it will hand over: a rebase leaves it as it is
  // Of a run in mode "streaming" (else empty): parameters of its own, as after the steps under way.
  std::vector<float> own_;
  uint64_t awaited_ = 0;            // the merge without which the training does not end; 0: none
  uint64_t merged_ = 0;             // the newest
  absl::Time merge_at_;             // not before
  std::vector<v1::Merge> pending_;  // until then
  struct Waiting {
    v1::TrainSteps train;
    absl::Duration took;
  };
  std::optional<Waiting> waiting_;  // its steps are done, and the merge is not here
  CallbackGuard guard_;
};

}  // namespace atolld

// StubTrainer: a Trainer on simulated time that "learns" a fixed target vector, so that a run's
// mathematics can be followed.
//
// Like a real worker it takes theta when its training begins, rebases when a commit passes, and
// writes base - parameters into the shared memory. Its steps take virtual time; it can be made slow
// or killed. Deterministic.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "daemon/env.h"
#include "daemon/peer/trainer.h"

namespace atolld {

struct StubTrainerSettings {
  uint64_t elements = 10000;
  uint64_t seed = 1;  // of this peer's noise
  absl::Duration step = absl::Milliseconds(50);
};

class StubTrainer final : public Trainer {
 public:
  StubTrainer(Env env, StubTrainerSettings settings);
  ~StubTrainer() override;

  void Start(const v1::RunSpec& spec, Events events) override;
  void Send(const v1::DaemonMessage& message) override;
  void Stop(Task done) override;

  // As SIGKILL to a worker: it is back, without memory, after `pause`.
  void Kill(absl::Duration pause);

  // A fault of the machine's memory: one bit of the replica's theta, which it shares with this.
  void FlipThetaBit(uint64_t value, int bit);

 private:
  void Configure();
  void Map(const v1::MapMemory& map);
  void Unmap();
  void Train(const v1::TrainSteps& train);
  void FinishTraining(const v1::TrainSteps& train);
  void Evaluate(const v1::EvaluateShare& evaluate);
  float Target(uint64_t i) const;

  const Env env_;
  const StubTrainerSettings settings_;

  Events events_;
  bool running_ = false;
  uint64_t life_ = 0;  // grows at each death and each Train: answers of a former one are dropped
  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
  const float* theta_ = nullptr;
  float* update_ = nullptr;
  std::vector<float> base_;
  CallbackGuard guard_;
};

}  // namespace atolld

// The section [inner] of a config: what each peer does between two exchanges.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace atolld {

struct InnerConfig {
  std::string optimizer = "adamw";
  uint32_t steps = 25;
  // "fixed": `steps` for everybody; "time": as many as fit `time`; "auto": by each peer's speed,
  // so that all are ready together, and `steps` at the median speed
  std::string pace = "fixed";
  absl::Duration time = absl::ZeroDuration();
  uint32_t batch = 12;
  double learning_rate = 1e-3;
  double min_learning_rate = 1e-4;
  uint64_t warmup_steps = 100;
  uint64_t decay_steps = 0;  // where the schedule ends; 0: rounds x steps
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0.1;
  double gradient_clip = 1.0;
  absl::Duration step_time = absl::ZeroDuration();  // a stub's: what one step takes
  // Of the learning rate, after the warm-up: "cosine"; "wsd", the peak until the last
  // `cooldown_steps` before decay_steps; "constant"
  std::string schedule = "cosine";
  uint64_t cooldown_steps = 0;     // of wsd; 0: a fifth of the decay_steps
  std::string precision = "fp32";  // of the matrix products: "bf16" too
  uint32_t accumulation = 1;       // parts that a step's batch is computed in, one after the other
  bool checkpointing = false;      // compute activations twice instead of keeping them
  double muon_momentum = 0.95;
};

}  // namespace atolld

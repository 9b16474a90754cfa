// The inner learning rate at a step of the run.
//
// Steps are the run's, not what one peer did: a joiner trains at the rate of those it joins, and
// neither the number of peers nor their pace changes the schedule.
#pragma once

#include <cstdint>

#include "atoll/v1/run.pb.h"

namespace atolld {

// Linear from near 0 over `warmup_steps` to `learning_rate`, then as `schedule` says:
//   cosine (also where it is empty): half a cosine to `min_learning_rate`, which is reached at
//   `decay_steps` and kept; nanoGPT's get_lr
//   wsd: the peak until `cooldown_steps` before `decay_steps`, over those down by 1 - sqrt(share
//   done) (Haegele et al., arXiv:2405.18392); what was trained before them can go on to a later end
//   constant: the peak
// decay_steps 0: constant after the warm-up. `step` counts from 0.
double LearningRate(const v1::InnerSpec& inner, uint64_t step);

// The step of the run at which a peer is that has done `done` of the `assigned` steps of a round
// that begins at `first_step` and has `nominal` ones for everybody else: a faster peer takes more,
// smaller paces through the same stretch of the schedule.
uint64_t StepOfRun(uint64_t first_step, uint32_t done, uint32_t assigned, uint32_t nominal);

}  // namespace atolld

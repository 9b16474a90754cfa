// Computes the inner learning rate at a step of the run.
//
// Steps are counted for the run and not for each peer: a peer that joins later trains at the same
// rate as the others, and neither the number of peers nor their speed changes the schedule.
#pragma once

#include <cstdint>

#include "atoll/v1/run.pb.h"

namespace atolld {

// Returns a rate that grows linearly from near 0 over `warmup_steps` to `learning_rate`, and then
// follows `schedule`:
//
//   cosine     (or empty) falls by half a cosine to `min_learning_rate`, which is reached at
//              `decay_steps` and kept, as in nanoGPT's get_lr
//   wsd        stays at the peak until `cooldown_steps` before `decay_steps`, then falls by
//              1 - sqrt(share done) (Haegele et al., arXiv:2405.18392); a training can also be
//              continued to a later end from a state before the cool-down
//   constant   stays at the peak
//
// If decay_steps is 0 the rate is constant after the warm-up. `step` counts from 0.
double LearningRate(const v1::InnerSpec& inner, uint64_t step);

// Returns the step of the run that a peer has reached when it has done `done` of its `assigned`
// steps in a round. The round begins at step `first_step` of the run and covers `nominal` steps of
// the schedule. A faster peer is assigned more steps, each of which covers a smaller part of the
// schedule.
uint64_t StepOfRun(uint64_t first_step, uint32_t done, uint32_t assigned, uint32_t nominal);

}  // namespace atolld

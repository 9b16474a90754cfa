// The inner learning rate at a step of the run: nanoGPT's get_lr.
#pragma once

#include <cstdint>

#include "atoll/v1/run.pb.h"

namespace atolld {

// Linear from near 0 over `warmup_steps`, then half a cosine from `learning_rate` to
// `min_learning_rate`, which is reached at `decay_steps` and kept. decay_steps 0: constant after
// the warm-up. `step` counts from 0, over the run and not over what one peer did, so that a joiner
// trains at the rate of those it joins.
double LearningRate(const v1::InnerSpec& inner, uint64_t step);

}  // namespace atolld

// What the architectures share: initial values.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "worker/model/model.h"

namespace atolld {

// GPT-2's way: matrices N(0, 0.02), those that lead back into the residual stream (named c_proj,
// o_proj or down_proj) N(0, 0.02 / sqrt(2 layers)); norms 1, biases 0. One draw a value, in the
// manifest's order.
void InitialiseLayers(const v1::Manifest& manifest, uint32_t layers,
                      const ModelParameters& parameters, uint64_t seed);

}  // namespace atolld

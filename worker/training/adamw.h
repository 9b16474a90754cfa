// AdamW over ranges of the flat parameter vector (Loshchilov and Hutter's, as torch.optim.AdamW:
// epsilon 1e-8, bias-corrected).
//
// On a CPU one fused pass over four arrays, which is what a step of AdamW costs; elsewhere
// libtorch's operations. One thread at a time; a pass spreads over libtorch's threads. May throw
// libtorch's exceptions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "atoll/v1/run.pb.h"

namespace at {
class Tensor;
}

namespace atolld {

// What a step multiplies by, the same for every value of a range.
struct AdamWStep {
  // `steps` counts the present one. `clip` scales the gradient.
  AdamWStep(const v1::InnerSpec& inner, double learning_rate, uint64_t steps, float clip,
            bool decayed);
  float clip, beta1, beta2, one_minus_beta1, one_minus_beta2, step_size, root_correction, keep;
};

// The four are flat fp32 vectors on one device; values [begin, end) of all but the gradient change.
void UpdateRange(const AdamWStep& step, int64_t begin, int64_t end, const at::Tensor& parameters,
                 const at::Tensor& gradient, const at::Tensor& first, const at::Tensor& second);

// The same by libtorch's operations, on any device.
void UpdateRangeByTensors(const AdamWStep& step, int64_t begin, int64_t end,
                          const at::Tensor& parameters, const at::Tensor& gradient,
                          const at::Tensor& first, const at::Tensor& second);

}  // namespace atolld

// AdamW over ranges of the flat parameter vector (Loshchilov and Hutter, arXiv:1711.05101). As in
// torch.optim.AdamW, epsilon is 1e-8 and the moments are bias-corrected.
//
// On a CPU a step is one fused pass over four arrays, bound by their memory traffic; on other
// devices it uses libtorch's operations. Used by one thread at a time; a pass is spread over
// libtorch's threads. May throw libtorch's exceptions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "atoll/v1/run.pb.h"

namespace at {
class Tensor;
}

namespace atolld {

// The factors of one step, the same for every value of a range.
struct AdamWStep {
  // `steps` is the number of the optimiser's steps, including this one. `clip` is a factor by which
  // the gradient is multiplied. `decayed` is true if weight decay applies to the range.
  AdamWStep(const v1::InnerSpec& inner, double learning_rate, uint64_t steps, float clip,
            bool decayed);
  float clip, beta1, beta2, one_minus_beta1, one_minus_beta2, step_size, root_correction, keep;
};

// Updates the values [begin, end) of `parameters` and of the moments `first` and `second`. All four
// tensors are flat fp32 vectors on one device.
void UpdateRange(const AdamWStep& step, int64_t begin, int64_t end, const at::Tensor& parameters,
                 const at::Tensor& gradient, const at::Tensor& first, const at::Tensor& second);

// Does the same as UpdateRange with libtorch's operations, on any device.
void UpdateRangeByTensors(const AdamWStep& step, int64_t begin, int64_t end,
                          const at::Tensor& parameters, const at::Tensor& gradient,
                          const at::Tensor& first, const at::Tensor& second);

}  // namespace atolld

// Dropout from a generator of the caller's choice.
#pragma once

#include <torch/torch.h>

namespace atolld {

// `x` with a share of its values zeroed and the others scaled up; `x` itself while evaluating (0).
// An undefined `generator` is libtorch's own of x's device. A defined one is of a CPU; the values
// are those that at::dropout draws there from libtorch's own in the same state.
at::Tensor Drop(const at::Tensor& x, double dropout, const at::Generator& generator);

}  // namespace atolld

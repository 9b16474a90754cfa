// Activation checkpointing: a part of the model whose activations are not kept for the backward
// pass but computed again there (Chen et al., "Training deep nets with sublinear memory cost").
#pragma once

#include <torch/torch.h>

#include <functional>

namespace atolld {

// part(x), and in the backward pass part(x) once more, with the same random numbers and under the
// same autocast, so that gradients are those of part(x) itself. `part` must be a function of x and
// of leaf tensors alone, and own what it refers to; it draws from `generator` or, where that is
// undefined, from libtorch's own of x's device. While no gradient is recorded: just part(x).
at::Tensor Checkpointed(std::function<at::Tensor(const at::Tensor&)> part, const at::Tensor& x,
                        const at::Generator& generator = {});

}  // namespace atolld

// What the architectures share: initial values, dropout, causal attention, and activation
// checkpointing. What libtorch throws passes through.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "atoll/v1/run.pb.h"

namespace atolld {

// The tensors of a manifest, in its order, each a view into the flat vector that it was bound to.
using ModelParameters = std::vector<at::Tensor>;

// GPT-2's way: matrices N(0, 0.02), those that lead back into the residual stream (named c_proj,
// o_proj or down_proj) N(0, 0.02 / sqrt(2 layers)); norms 1, biases 0. One draw a value, in the
// manifest's order. `norm`: what norms begin with instead of 1.
void InitialiseLayers(const v1::Manifest& manifest, uint32_t layers,
                      const ModelParameters& parameters, uint64_t seed, double norm = 1);

// `x` with a share of its values zeroed and the others scaled up; `x` itself while evaluating (0).
// An undefined `generator` is libtorch's own of x's device. A defined one is of a CPU; the values
// are those that at::dropout draws there from libtorch's own in the same state.
at::Tensor Drop(const at::Tensor& x, double dropout, const at::Generator& generator);

// Whether worker/kernels/fused.h has operations for `x` as it is and as libtorch would compute:
// fp32 on a CPU, and not in bf16 under autocast.
bool UsesKernels(const at::Tensor& x);

// What an attention has beside causality.
struct AttentionRule {
  int64_t window = 0;  // tokens that a position sees, itself among them; 0: all before it
  double scale = 0;    // of the products of queries and keys; 0: 1 / sqrt(head width)
  double cap = 0;      // scores s become cap tanh(s / cap); 0: they stay
};

// Causal self-attention over q, k, v of shape [batch, heads, tokens, head width]; returns that
// shape. `dropout` is the probability of dropping an attention weight, 0 while evaluating, drawn
// from `generator` as Drop does.
at::Tensor CausalAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           double dropout, const at::Generator& generator,
                           const AttentionRule& rule = {});

// Activation checkpointing (Chen et al., "Training deep nets with sublinear memory cost"): a part
// of the model whose activations are not kept for the backward pass but computed again there.
//
// part(x), and in the backward pass part(x) once more, with the same random numbers and under the
// same autocast, so that gradients are those of part(x) itself. `part` must be a function of x and
// of leaf tensors alone, and own what it refers to; it draws from `generator` or, where that is
// undefined, from libtorch's own of x's device. While no gradient is recorded: just part(x).
at::Tensor Checkpointed(std::function<at::Tensor(const at::Tensor&)> part, const at::Tensor& x,
                        const at::Generator& generator = {});

}  // namespace atolld

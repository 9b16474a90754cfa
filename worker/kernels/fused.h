// The operations of a model with gradients of their own, each one node of the autograd graph where
// libtorch's operations would be several: fp32 on a CPU.
//
// The law: a parameter that is a leaf with a gradient already (as Model::BindTrainable makes them)
// gets its part added there at once, without a tensor between; one without, or one that is itself
// computed, gets it through the graph. No result depends on the number of threads. What libtorch
// throws passes through. Any thread; work spreads over libtorch's.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "worker/kernels/row_kernels.h"

namespace atolld {

// Whether a tensor is one that the functions below take.
inline bool IsPlainFloat(const at::Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && x.layout() == at::kStrided;
}

// x weight^T + bias + residual of [rows, in] and [out, in]; the last two may be undefined.
at::Tensor FusedLinear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {},
                       const at::Tensor& residual = {});

// LayerNorm (centred) or RMSNorm over the last dimension; `bias` may be undefined, `shift` is added
// to the weights.
struct NormKind {
  double epsilon;
  bool centred;
  double shift = 0;
};
at::Tensor FusedNorm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                     const NormKind& kind);

at::Tensor FusedActivation(Activation activation, const at::Tensor& x);

// activation(gate) up.
at::Tensor FusedGate(Activation activation, const at::Tensor& gate, const at::Tensor& up);

// Rotary positions of `x` [batch tokens, heads x head]; cos and sin are [tokens, head / 2], and no
// gradient flows to them.
at::Tensor FusedRotation(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                         int64_t heads);

struct AttentionLayout {
  int64_t batch, heads, groups, head;  // key heads; the width of one
  int64_t window;                      // tokens that a position sees, itself too; 0: all before it
  double scale;                        // of the products of queries and keys
};

// Causal self-attention; [batch tokens, heads x head]. Queries have that shape, keys and values
// [batch tokens, groups x head], and each serves heads / groups queries that follow each other.
at::Tensor FusedAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const AttentionLayout& layout);

// The same of one matrix of all three side by side.
at::Tensor FusedAttention(const at::Tensor& qkv, const AttentionLayout& layout);

// Rows of `weight` by int64 `tokens` [batch, tokens], plus those of `positions` from the first on
// unless it is undefined; [batch tokens, width]. Throws where a token is no row.
at::Tensor FusedEmbedding(const at::Tensor& weight, const at::Tensor& tokens,
                          const at::Tensor& positions = {});

// The mean over targets that are not `ignored` of logits [rows, classes]. Throws where another
// target is no class.
at::Tensor FusedCrossEntropy(const at::Tensor& logits, const at::Tensor& targets, int64_t ignored);

}  // namespace atolld

// Operations of a model with hand-written gradients: each is one node of the autograd graph, where
// libtorch's own operations would be several nodes. They are for fp32 on a CPU.
//
// The law: if a parameter is a leaf that already has a gradient (as Model::BindTrainable makes
// them), the new gradient is added to the existing gradient directly, without a temporary tensor.
// Other tensors get their gradients through the graph. No result depends on the number of threads.
// May throw libtorch's exceptions. The functions may be called from any thread; the work is spread
// over libtorch's threads.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "worker/kernels/row_kernels.h"

namespace atolld {

// Returns true if the functions below accept the tensor.
inline bool IsPlainFloat(const at::Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && x.layout() == at::kStrided;
}

// Returns x weight^T + bias + residual, where `x` is [rows, in] and `weight` is [out, in]; `bias`
// and `residual` may be undefined.
at::Tensor FusedLinear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {},
                       const at::Tensor& residual = {});

// The kind of a norm over the last dimension: LayerNorm if `centred` is true, otherwise RMSNorm.
// `shift` is added to the weights.
struct NormKind {
  double epsilon;
  bool centred;
  double shift = 0;
};
at::Tensor FusedNorm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                     const NormKind& kind);

at::Tensor FusedActivation(Activation activation, const at::Tensor& x);

// Returns activation(gate) * up.
at::Tensor FusedGate(Activation activation, const at::Tensor& gate, const at::Tensor& up);

// Applies rotary positions to `x` [batch tokens, heads x head]. `cos` and `sin` are [tokens, head /
// 2], and get no gradient.
at::Tensor FusedRotation(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                         int64_t heads);

struct AttentionLayout {
  // `groups` is the number of key heads, `head` the width of one head.
  int64_t batch, heads, groups, head;
  int64_t window;  // The number of tokens that a position sees, including itself; 0 means no limit.
  double scale;    // The factor by which the products of queries and keys are multiplied.
};

// Computes causal self-attention. Queries and the result are [batch tokens, heads x head], keys and
// values [batch tokens, groups x head]; each key head serves heads / groups consecutive query
// heads.
at::Tensor FusedAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const AttentionLayout& layout);

// Does the same for one matrix that has queries, keys and values side by side.
at::Tensor FusedAttention(const at::Tensor& qkv, const AttentionLayout& layout);

// Returns the rows of `weight` for int64 `tokens` [batch, tokens], as [batch tokens, width]. If
// `positions` is defined, its row number t is added for token t of each sequence. Throws if a token
// is not the index of a row.
at::Tensor FusedEmbedding(const at::Tensor& weight, const at::Tensor& tokens,
                          const at::Tensor& positions = {});

// Returns the mean loss of logits [rows, classes] over the targets that differ from `ignored`.
// Throws if another target is not the index of a class.
at::Tensor FusedCrossEntropy(const at::Tensor& logits, const at::Tensor& targets, int64_t ignored);

}  // namespace atolld

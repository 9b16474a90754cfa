// The parts that all architectures share: initial values, linear layers, dropout, causal attention
// and activation checkpointing. May throw libtorch's exceptions.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "atoll/v1/run.pb.h"
#include "compression/base/decoder.h"
#include "worker/kernels/row_kernels.h"

namespace atolld {

// The tensors of a manifest, in its order. Each is a view into the flat vector of parameters.
using ModelParameters = std::vector<at::Tensor>;

// Sets initial values as GPT-2 does. Matrices are drawn from N(0, 0.02), except that matrices whose
// result is added to the residual stream (named c_proj, o_proj or down_proj) are drawn from N(0,
// 0.02 / sqrt(2 layers)); so is w2 of an expert. The weights of norms are set to `norm` and biases
// to 0. Each value uses one random number, in the manifest's order.
void InitialiseLayers(const v1::Manifest& manifest, uint32_t layers,
                      const ModelParameters& parameters, uint64_t seed, double norm = 1);

// Returns `x` with a random share `dropout` of its values set to zero and the others scaled up.
// Returns `x` itself if `dropout` is 0, as in evaluation. If `generator` is undefined, libtorch's
// default generator of the device of `x` is used. Otherwise it must be a CPU generator, and the
// result is the same as that of at::dropout with the default generator in the same state.
at::Tensor Drop(const at::Tensor& x, double dropout, const at::Generator& generator);

// Returns true if the operations of worker/kernels/fused.h can be used for `x` in place of
// libtorch's: `x` is fp32 on a CPU, and autocast to bf16 is off.
bool UsesKernels(const at::Tensor& x);

// Weight and bias of a norm or a matrix; the bias is undefined if the kind has no biases.
struct Linear {
  at::Tensor weight, bias;

  // Returns x weight^T + bias; `x` is [rows, in].
  at::Tensor operator()(const at::Tensor& x) const;
};

// Returns `in` plus linear(x), in one pass if there is no dropout.
at::Tensor AddTo(const at::Tensor& in, const Linear& linear, const at::Tensor& x, double dropout,
                 const at::Generator& generator);

// A gated feed-forward network: x becomes down(activation(gate(x)) * up(x)).
struct GatedNetwork {
  Linear gate, up, down;

  // Returns activation(gate(x)) * up(x). `activation` is kSilu or kGeluTanh.
  at::Tensor Hidden(Activation activation, const at::Tensor& x) const;
};

// The options of an attention, which is always causal.
struct AttentionRule {
  // The number of tokens that a position sees, including itself; 0 means no limit.
  int64_t window = 0;
  // The factor by which the products of queries and keys are multiplied; 0 means 1 / sqrt(head
  // width).
  double scale = 0;
  // A score s is replaced by cap tanh(s / cap); 0 means that scores are not changed.
  double cap = 0;
};

// Computes causal self-attention. q, k, v and the result have the shape [batch, heads, tokens, head
// width]. `dropout` is the probability with which an attention weight is dropped; it is 0 in
// evaluation. `generator` is used as in Drop.
at::Tensor CausalAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           double dropout, const at::Generator& generator,
                           const AttentionRule& rule = {});

// Activation checkpointing (Chen et al., "Training deep nets with sublinear memory cost"): the
// activations of a part of the model are not kept for the backward pass, but computed again in it.
//
// Returns part(x). The backward pass computes part(x) again, with the same random numbers and the
// same autocast, so that gradients are the same as without checkpointing. `part` must depend only
// on x and on leaf tensors, and must own everything to which it refers. Its random numbers come
// from `generator`, or from libtorch's default generator of the device of x if that is undefined.
// If no gradient is recorded, this only calls part(x).
at::Tensor Checkpointed(std::function<at::Tensor(const at::Tensor&)> part, const at::Tensor& x,
                        const at::Generator& generator = {});

// -----------------------------------------------------------------------------------------------

// Rotary positions (Su et al., arXiv:2104.09864) of models whose context has been extended:
// computes the factors by which the rotation of each pair of a head's values is slowed down.
//
// The functions do not use libtorch. Pure. May be called from any thread.

// Returns the factors of the frequencies theta^(-2i / width) for i below width / 2; empty if all
// factors are 1. With "linear" scaling (kaiokendev 2023) each factor is 1 / rope_factor. "llama3"
// is computed as in Llama 3.1. "yarn" follows Peng et al., arXiv:2309.00071, section 3.2, with the
// bounds rounded outwards as in transformers.
std::vector<double> RotaryFactors(const DecoderShape& shape, double theta, uint64_t width);

// Returns the factor by which cos and sin are multiplied. With "yarn" it is rope_attention, or the
// value that the paper recommends if rope_attention is not set; otherwise it is 1.
double RotaryScale(const DecoderShape& shape);

}  // namespace atolld

// The GPT that Atoll trains: nanoGPT's, without biases, its parameters views into one flat fp32
// tensor.
//
// Learned positions, pre-norm, exact GELU, the token embedding doubling as the output head. Since
// the tensors are views, taking parameters in or handing them out is one memcpy, and a model can be
// bound to memory that it does not own (a mapped slot). A Gpt holds no parameters itself: the same
// one serves the worker's own and the replica's. One thread at a time.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "atoll/v1/run.pb.h"

namespace atolld {

// The tensors of a GPT, each a view into the flat vector that they were bound to.
struct GptParameters {
  struct Block {
    at::Tensor attention_norm, attention_in, attention_out, mlp_norm, mlp_in, mlp_out;
  };
  at::Tensor token_embedding, position_embedding, final_norm;
  std::vector<Block> blocks;
};

class Gpt {
 public:
  // `manifest` must be MakeManifest(model). With `checkpointing` the blocks' activations are
  // computed again in the backward pass instead of kept.
  Gpt(const v1::ModelSpec& model, const v1::Manifest& manifest, bool checkpointing = false);

  // Views into `flat` (fp32, manifest.elements() values), for Loss and Logits.
  GptParameters Bind(const at::Tensor& flat) const;

  // As Bind, but each view collects its gradient into the same place of `gradient`, a flat tensor
  // of equal size. Backward passes add to it; the caller zeroes it.
  GptParameters BindTrainable(const at::Tensor& flat, const at::Tensor& gradient) const;

  // Fills `flat`: N(0, 0.02); the projections back into the residual stream N(0, 0.02 / sqrt(2
  // layers)); norms 1.
  void Initialise(const at::Tensor& flat, uint64_t seed) const;

  // Logits [batch * tokens, vocabulary] of int64 `tokens` [batch, tokens], tokens <= context.
  at::Tensor Logits(const GptParameters& parameters, const at::Tensor& tokens,
                    double dropout) const;

  // Mean cross-entropy in nats over batch x tokens; `targets` as `tokens`.
  at::Tensor Loss(const GptParameters& parameters, const at::Tensor& tokens,
                  const at::Tensor& targets, double dropout) const;

 private:
  at::Tensor RunBlock(const GptParameters::Block& block, const at::Tensor& x, int64_t batch,
                      double dropout) const;
  at::Tensor Attention(const GptParameters::Block& block, const at::Tensor& x, int64_t batch,
                       double dropout) const;

  const v1::ModelSpec model_;
  const v1::Manifest manifest_;
  const bool checkpointing_;
};

}  // namespace atolld

// The GPT that Atoll trains: nanoGPT's, without biases.
//
// Learned positions, pre-norm, exact GELU, the token embedding doubling as the output head.
#pragma once

#include "worker/model/model.h"

namespace atolld {

class Gpt final : public Model {
 public:
  // `manifest` must be MakeManifest(model).
  Gpt(const v1::ModelSpec& model, v1::Manifest manifest);

  // N(0, 0.02); the projections back into the residual stream N(0, 0.02 / sqrt(2 layers)); norms 1.
  void Initialise(const at::Tensor& flat, uint64_t seed) const override;

  at::Tensor Logits(const ModelParameters& parameters, const at::Tensor& tokens,
                    double dropout) const override;

 private:
  struct Block;

  at::Tensor Attention(const Block& block, const at::Tensor& x, int64_t batch,
                       double dropout) const;

  const v1::ModelSpec model_;
};

}  // namespace atolld

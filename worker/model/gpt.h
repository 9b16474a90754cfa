// The GPTs: learned positions, pre-norm.
//
// Kind "gpt" is nanoGPT's without biases: exact GELU, the token embedding doubling as the output
// head. Kind "gpt2" is GPT-2: biases everywhere, GELU by its tanh approximation, a head of its own
// where the spec says so.
#pragma once

#include <memory>

#include "worker/model/model.h"

namespace atolld {

class Gpt final : public Model {
 public:
  // `manifest` must be that of the model.
  Gpt(const v1::ModelSpec& model, v1::Manifest manifest);

  void Initialise(const at::Tensor& flat, uint64_t seed) const override;
  std::unique_ptr<Model> CopyTo(const at::Device& device,
                                const at::Generator& generator) const override;
  at::Tensor Logits(const ModelParameters& parameters, const at::Tensor& tokens,
                    double dropout) const override;

 private:
  struct Linear;
  struct Block;

  Linear Take(ModelParameters::const_iterator& next) const;
  at::Tensor Norm(const Linear& norm, const at::Tensor& x) const;
  at::Tensor RunBlock(const Block& block, const at::Tensor& in, int64_t batch,
                      double dropout) const;
  at::Tensor Attention(const Block& block, const at::Tensor& x, int64_t batch,
                       double dropout) const;

  const v1::ModelSpec model_;
  const bool biased_;
};

}  // namespace atolld

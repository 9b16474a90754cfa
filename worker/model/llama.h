// Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU, no biases.
//
// Rotations pair value i of a head with value i + half, as Hugging Face's weights are laid out.
#pragma once

#include <memory>

#include "worker/model/model.h"

namespace atolld {

class Llama final : public Model {
 public:
  // `manifest` must be that of the model.
  Llama(const v1::ModelSpec& model, v1::Manifest manifest);

  void Initialise(const at::Tensor& flat, uint64_t seed) const override;
  std::unique_ptr<Model> CopyTo(const at::Device& device,
                                const at::Generator& generator) const override;
  at::Tensor Logits(const ModelParameters& parameters, const at::Tensor& tokens,
                    double dropout) const override;

 private:
  struct Block;
  struct Rotation;

  at::Tensor Norm(const at::Tensor& x, const at::Tensor& weight) const;
  Rotation RotationOf(int64_t tokens, const at::Tensor& like) const;
  at::Tensor RunBlock(const Block& block, const at::Tensor& in, int64_t batch,
                      const Rotation& rotation, double dropout) const;
  at::Tensor Attention(const Block& block, const at::Tensor& x, int64_t batch,
                       const Rotation& rotation, double dropout) const;

  const v1::ModelSpec model_;
};

}  // namespace atolld

// AdamW over all tensors of a model, and the base of optimisers that step some of them otherwise.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "worker/training/flat_buffer.h"
#include "worker/training/inner_optimizer.h"

namespace atolld {

class AdamW : public InnerOptimizer {
 public:
  AdamW(const v1::InnerSpec& inner, const v1::Manifest& manifest, const at::Device& device);

  double Step(double learning_rate, const at::Tensor& parameters,
              const at::Tensor& gradient) override;
  State state() override { return {&steps_, {first_.values(), second_.values()}}; }
  void FetchState() override;
  void PushState() override;

 protected:
  // One tensor's part of a step: its values stand at the same place in each of the flat vectors.
  struct Part {
    const v1::Tensor& tensor;
    double learning_rate;
    float clip;  // scales the gradient
    at::Tensor parameters, gradient, first, second;
  };
  virtual void StepPart(const Part& part);

  const v1::InnerSpec inner_;

 private:
  const v1::Manifest manifest_;
  FlatBuffer first_, second_;  // moments
  uint64_t steps_ = 0;
};

}  // namespace atolld

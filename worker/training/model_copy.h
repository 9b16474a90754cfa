// One copy of the model in training, on one device: it computes the gradient of those of a step's
// sequences that are given to it.
//
// The law: the parameters are those of the trainer, taken at the start of each step, so a copy has
// no state of its own that could drift. What libtorch throws passes through. One thread at a time.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "worker/model/model.h"

namespace atolld {

class ModelCopy {
 public:
  // A copy of `model` on `device`, number `index` of `copies`. The first computes with `parameters`
  // (flat fp32, the trainer's, on its device) where they lie, the others have memory of their own.
  // `spec` must outlive it.
  ModelCopy(const v1::RunSpec& spec, const Model& model, const at::Device& device,
            const at::Tensor& parameters, size_t index, size_t copies);

  const Model& model() const { return *model_; }
  const at::Device& device() const { return device_; }

  // Flat fp32 on the device, in the manifest's order. Train sets it.
  const at::Tensor& gradient() const { return gradient_; }

  // The part that `rows` (int64 [some of the batch, context + 1]) have in the loss of a batch of
  // `batch` rows, in nats a token, and in gradient(): those of all parts sum to the batch's mean.
  // Computed in `inner.accumulation` pieces. Dropout draws from `seed`.
  double Train(const at::Tensor& rows, int64_t batch, uint64_t seed);

  // `theta` (flat fp32, in the manifest's order) for Evaluate: on a CPU where it lies, and there it
  // must stay; elsewhere copied to the device, once.
  ModelParameters Bind(absl::Span<const float> theta) const;

  // Mean loss of `rows` at `theta`, in nats a token, without dropout, in fp32.
  double Evaluate(const ModelParameters& theta, const at::Tensor& rows) const;

 private:
  void Seed(uint64_t seed) const;

  const v1::RunSpec& spec_;
  const at::Device device_;
  const at::Generator generator_;  // undefined: libtorch's own of the device
  const std::unique_ptr<Model> model_;
  const at::Tensor source_;      // the trainer's parameters
  const at::Tensor parameters_;  // source_ itself, or where it is copied to
  const at::Tensor gradient_;
  const ModelParameters bound_;
};

}  // namespace atolld

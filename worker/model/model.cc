#include "worker/model/model.h"

#include <utility>
#include <vector>

#include "worker/base/manifest.h"
#include "worker/kernels/fused.h"

namespace atolld {
namespace {

at::Tensor View(const v1::Tensor& tensor, const at::Tensor& flat, uint64_t first) {
  const std::vector<int64_t> shape(tensor.shape().begin(), tensor.shape().end());
  return flat.narrow(0, static_cast<int64_t>(first), static_cast<int64_t>(TensorElements(tensor)))
      .view(shape);
}

}  // namespace

at::Tensor Model::Run(const std::function<at::Tensor(const at::Tensor&)>& block,
                      const at::Tensor& x) const {
  return checkpointing_ ? Checkpointed(block, x, generator_) : block(x);
}

ModelParameters Model::Bind(const at::Tensor& flat) const {
  ModelParameters bound;
  for (const v1::Tensor& tensor : manifest_.tensors()) {
    bound.push_back(View(tensor, flat, tensor.offset()));
  }
  return bound;
}

ModelParameters Model::BindTrainable(const at::Tensor& flat, const at::Tensor& gradient) const {
  return BindTrainable(flat, gradient, TrainedTensors(manifest_));
}

ModelParameters Model::BindTrainable(const at::Tensor& flat, const at::Tensor& gradient,
                                     const TrainedTensors& trained) const {
  ModelParameters bound;
  for (int i = 0; i < manifest_.tensors_size(); ++i) {
    const v1::Tensor& tensor = manifest_.tensors(i);
    const auto number = static_cast<size_t>(i);
    at::Tensor leaf = View(tensor, flat, tensor.offset()).detach();
    if (trained.trains(number)) {
      leaf.requires_grad_(true);
      leaf.mutable_grad() = View(tensor, gradient, trained.place(number));
    }
    bound.push_back(std::move(leaf));
  }
  return bound;
}

at::Tensor Model::Loss(const ModelParameters& parameters, const at::Tensor& tokens,
                       const at::Tensor& targets, double dropout) const {
  return CrossEntropy(Logits(parameters, tokens, dropout), targets);
}

at::Tensor Model::CrossEntropy(const at::Tensor& logits, const at::Tensor& targets) {
  if (UsesKernels(logits)) {
    return FusedCrossEntropy(logits, targets.reshape({-1}), kIgnoredTarget);
  }
  // Under autocast the last product is bf16, which is too coarse for a sum of exponentials.
  return at::cross_entropy_loss(logits.to(at::kFloat), targets.reshape({-1}));
}

}  // namespace atolld

#include "worker/model/model.h"

#include <utility>
#include <vector>

#include "worker/base/manifest.h"
#include "worker/kernels/fused.h"

namespace atolld {
namespace {

at::Tensor View(const v1::Tensor& tensor, const at::Tensor& flat) {
  const std::vector<int64_t> shape(tensor.shape().begin(), tensor.shape().end());
  return flat
      .narrow(0, static_cast<int64_t>(tensor.offset()),
              static_cast<int64_t>(TensorElements(tensor)))
      .view(shape);
}

}  // namespace

at::Tensor Model::Run(const std::function<at::Tensor(const at::Tensor&)>& block,
                      const at::Tensor& x) const {
  return checkpointing_ ? Checkpointed(block, x, generator_) : block(x);
}

ModelParameters Model::Bind(const at::Tensor& flat) const {
  ModelParameters bound;
  for (const v1::Tensor& tensor : manifest_.tensors()) bound.push_back(View(tensor, flat));
  return bound;
}

ModelParameters Model::BindTrainable(const at::Tensor& flat, const at::Tensor& gradient) const {
  ModelParameters bound;
  for (const v1::Tensor& tensor : manifest_.tensors()) {
    at::Tensor leaf = View(tensor, flat).detach();
    leaf.requires_grad_(true);
    leaf.mutable_grad() = View(tensor, gradient);
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

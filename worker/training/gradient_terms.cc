#include "worker/training/gradient_terms.h"

#include <ATen/core/grad_mode.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/training/inner_optimizer.h"

namespace atolld {
namespace {

// from_blob takes a plain pointer; nothing writes through it.
at::Tensor ViewOf(absl::Span<const float> values) {
  return at::from_blob(const_cast<float*>(values.data()), {static_cast<int64_t>(values.size())},
                       at::kFloat);
}

}  // namespace

absl::Status GradientTerms::Check(const v1::InnerSpec& inner) {
  if (!(inner.proximal() >= 0 && std::isfinite(inner.proximal()))) {
    return absl::InvalidArgumentError(absl::StrCat("inner.proximal is ", inner.proximal(),
                                                   "; it must be finite and not negative"));
  }
  if (inner.control_variates() && inner.optimizer() != "sgd") {
    return absl::InvalidArgumentError(
        absl::StrCat("inner.control_variates needs inner.optimizer \"sgd\", whose step is the "
                     "rate times the gradient; it is \"",
                     inner.optimizer(), "\""));
  }
  return absl::OkStatus();
}

GradientTerms::GradientTerms(const v1::InnerSpec& inner, uint64_t shared, const at::Device& device)
    : mu_(inner.proximal()),
      clip_(inner.gradient_clip()),
      controlled_(inner.control_variates()),
      shared_(static_cast<int64_t>(shared)) {
  const auto zeros = [&] { return at::zeros({shared_}, at::device(device).dtype(at::kFloat)); };
  if (mu_ > 0) base_ = zeros();
  if (mu_ > 0) away_ = zeros();
  if (controlled_) control_ = zeros();
}

void GradientTerms::SetBase(absl::Span<const float> base) {
  const at::NoGradGuard no_grad;
  if (base_.defined()) base_.copy_(ViewOf(base));
}

void GradientTerms::SetControl(absl::Span<const float> common, absl::Span<const float> own) {
  if (!control_.defined()) return;
  const at::NoGradGuard no_grad;
  if (common.empty()) {
    control_.zero_();
    return;
  }
  control_.copy_(ViewOf(common));
  control_.sub_(ViewOf(own).to(control_.device()));
}

void GradientTerms::Add(const at::Tensor& parameters, const at::Tensor& gradient) const {
  const at::NoGradGuard no_grad;
  const at::Tensor shared = gradient.narrow(0, 0, shared_);
  if (base_.defined()) {
    at::Tensor away = away_;
    at::sub_out(away, parameters.narrow(0, 0, shared_), base_);
    shared.add_(away, mu_);
  }
  if (!control_.defined()) return;
  if (clip_ > 0) {
    const double norm = GlobalNorm(gradient);
    if (!std::isfinite(norm)) return;  // the optimiser says so
    const float factor = ClipFactor(norm, clip_);
    if (factor < 1) gradient.mul_(factor);
  }
  shared.add_(control_);
}

v1::InnerSpec ForOptimizer(const v1::InnerSpec& inner) {
  v1::InnerSpec left = inner;
  if (inner.control_variates()) left.set_gradient_clip(0);
  return left;
}

void UpdateControl(absl::Span<const float> common, absl::Span<const float> update, double rates,
                   absl::Span<float> own) {
  if (!(rates > 0)) return;
  const auto inverse = static_cast<float>(1 / rates);
  for (size_t i = 0; i < own.size(); ++i) own[i] += update[i] * inverse - common[i];
}

}  // namespace atolld

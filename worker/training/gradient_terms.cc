#include "worker/training/gradient_terms.h"

#include <ATen/core/grad_mode.h>

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/training/inner_optimizer.h"

namespace atolld {
namespace {

// from_blob takes a plain pointer; nothing writes through it.
at::Tensor ViewOf(absl::Span<const float> values) {
  return at::from_blob(const_cast<float*>(values.data()), {static_cast<int64_t>(values.size())},
                       at::kFloat);
}

// The piece's values in a vector of the trained values.
at::Tensor Place(const at::Tensor& trained, const TrainedTensors::Piece& piece) {
  return trained.narrow(0, static_cast<int64_t>(piece.place), static_cast<int64_t>(piece.count));
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
      shared_(shared),
      device_(device) {
  Allocate({{0, 0, shared_}});
}

void GradientTerms::Train(const TrainedTensors& trained) { Allocate(trained.Pieces(shared_)); }

void GradientTerms::Allocate(std::vector<TrainedTensors::Piece> pieces) {
  pieces_ = std::move(pieces);
  int64_t values = 0;
  for (const TrainedTensors::Piece& piece : pieces_) values += static_cast<int64_t>(piece.count);
  const auto zeros = [&] { return at::zeros({values}, at::device(device_).dtype(at::kFloat)); };
  if (mu_ > 0) base_ = zeros();
  if (mu_ > 0) away_ = zeros();
  if (controlled_) control_ = zeros();
}

void GradientTerms::SetBase(absl::Span<const float> base) {
  const at::NoGradGuard no_grad;
  if (!base_.defined()) return;
  for (const TrainedTensors::Piece& piece : pieces_) {
    Place(base_, piece).copy_(ViewOf(base.subspan(piece.first, piece.count)));
  }
}

void GradientTerms::SetControl(absl::Span<const float> common, absl::Span<const float> own) {
  if (!control_.defined()) return;
  const at::NoGradGuard no_grad;
  if (common.empty()) {
    control_.zero_();
    return;
  }
  for (const TrainedTensors::Piece& piece : pieces_) {
    const at::Tensor control = Place(control_, piece);
    control.copy_(ViewOf(common.subspan(piece.first, piece.count)));
    control.sub_(ViewOf(own.subspan(piece.first, piece.count)).to(device_));
  }
}

void GradientTerms::Add(const at::Tensor& parameters, const at::Tensor& gradient) const {
  const at::NoGradGuard no_grad;
  if (base_.defined()) {
    for (const TrainedTensors::Piece& piece : pieces_) {
      at::Tensor away = Place(away_, piece);
      at::sub_out(away,
                  parameters.narrow(0, static_cast<int64_t>(piece.first),
                                    static_cast<int64_t>(piece.count)),
                  Place(base_, piece));
      Place(gradient, piece).add_(away, mu_);
    }
  }
  if (!control_.defined()) return;
  if (clip_ > 0) {
    const double norm = GlobalNorm(gradient);
    if (!std::isfinite(norm)) return;  // the optimiser says so
    const float factor = ClipFactor(norm, clip_);
    if (factor < 1) gradient.mul_(factor);
  }
  gradient.narrow(0, 0, control_.numel()).add_(control_);
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

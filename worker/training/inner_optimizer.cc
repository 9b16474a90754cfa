#include "worker/training/inner_optimizer.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/training/adamw_optimizer.h"
#include "worker/training/muon.h"

namespace atolld {
namespace {

constexpr double kClipEpsilon = 1e-6;  // torch.nn.utils.clip_grad_norm_'s

class Sgd final : public InnerOptimizer {
 public:
  explicit Sgd(double clip) : clip_(clip) {}

  double Step(double learning_rate, const at::Tensor& parameters,
              const at::Tensor& gradient) override {
    const at::NoGradGuard no_grad;
    const double norm = GlobalNorm(gradient);
    if (!std::isfinite(norm)) return norm;
    const float rate = static_cast<float>(learning_rate) * ClipFactor(norm, clip_);
    ++steps_;
    if (!parameters.is_cpu()) {
      parameters.sub_(gradient, rate);
      return norm;
    }
    float* const p = parameters.data_ptr<float>();
    const float* const g = gradient.data_ptr<float>();
    for (int64_t i = 0; i < parameters.numel(); ++i) p[i] -= rate * g[i];
    return norm;
  }

  State state() override { return {&steps_, {}}; }

 private:
  const double clip_;
  uint64_t steps_ = 0;
};

// The CPU's, in one pass.
double NormOf(absl::Span<const float> values) {
  // Lanes, since the compiler may not reorder one sum into several.
  constexpr size_t kLanes = 16;
  std::array<double, kLanes> sums = {};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double value = static_cast<double>(values[i + lane]);
      sums[lane] += value * value;
    }
  }
  double sum = 0;
  for (; i < values.size(); ++i) {
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  for (const double lane : sums) sum += lane;
  return std::sqrt(sum);
}

absl::Status CheckInnerSpec(const v1::InnerSpec& inner) {
  const auto wrong = [](absl::string_view name, double value, absl::string_view right) {
    return absl::InvalidArgumentError(
        absl::StrCat("inner.", name, " is ", value, "; it must be ", right));
  };
  if (inner.batch() < 1) return wrong("batch", inner.batch(), "1 or more");
  if (!(inner.learning_rate() >= 0 && std::isfinite(inner.learning_rate()))) {
    return wrong("learning_rate", inner.learning_rate(), "finite and not negative");
  }
  if (!(inner.min_learning_rate() >= 0 && std::isfinite(inner.min_learning_rate()))) {
    return wrong("min_learning_rate", inner.min_learning_rate(), "finite and not negative");
  }
  if (!(inner.gradient_clip() >= 0)) {
    return wrong("gradient_clip", inner.gradient_clip(), "0 or more");
  }
  if (inner.optimizer() == "sgd") return absl::OkStatus();
  if (!(inner.beta1() >= 0 && inner.beta1() < 1)) return wrong("beta1", inner.beta1(), "in [0, 1)");
  if (!(inner.beta2() >= 0 && inner.beta2() < 1)) return wrong("beta2", inner.beta2(), "in [0, 1)");
  if (!(inner.weight_decay() >= 0 && std::isfinite(inner.weight_decay()))) {
    return wrong("weight_decay", inner.weight_decay(), "finite and not negative");
  }
  if (!(inner.muon_momentum() >= 0 && inner.muon_momentum() < 1)) {
    return wrong("muon_momentum", inner.muon_momentum(), "in [0, 1)");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<InnerOptimizer>> InnerOptimizer::Make(const v1::InnerSpec& inner,
                                                                     const v1::Manifest& manifest,
                                                                     const std::string& device) {
  const absl::Status status = CheckInnerSpec(inner);
  if (!status.ok()) return status;
  if (inner.optimizer() == "adamw")
    return std::make_unique<AdamW>(inner, manifest, at::Device(device));
  if (inner.optimizer() == "sgd") return std::make_unique<Sgd>(inner.gradient_clip());
  if (inner.optimizer() == "muon") return MakeMuon(inner, manifest, device);
  return absl::InvalidArgumentError(absl::StrCat("inner.optimizer \"", inner.optimizer(),
                                                 "\" is not known; known: adamw, muon, sgd"));
}

double GlobalNorm(const at::Tensor& values) {
  if (!values.is_cpu()) return at::norm(values, 2.0, at::kDouble).item<double>();
  return NormOf(absl::MakeConstSpan(values.data_ptr<float>(), static_cast<size_t>(values.numel())));
}

float ClipFactor(double norm, double limit) {
  return limit > 0 ? static_cast<float>(std::min(1.0, limit / (norm + kClipEpsilon))) : 1.0f;
}

}  // namespace atolld

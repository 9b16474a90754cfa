#include "worker/inner_optimizer.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/model/manifest.h"

namespace atolld {
namespace {

constexpr double kEpsilon = 1e-8;      // torch.optim.AdamW's
constexpr double kClipEpsilon = 1e-6;  // torch.nn.utils.clip_grad_norm_'s
constexpr int64_t kGrain = 1 << 16;    // below this a second thread costs more than it gains

float ClipFactor(double norm, double limit) {
  return limit > 0 ? static_cast<float>(std::min(1.0, limit / (norm + kClipEpsilon))) : 1.0f;
}

class Sgd final : public InnerOptimizer {
 public:
  explicit Sgd(double clip) : clip_(clip) {}

  double Step(double learning_rate, absl::Span<float> parameters,
              absl::Span<const float> gradient) override {
    const double norm = GlobalNorm(gradient);
    if (!std::isfinite(norm)) return norm;
    const float rate = static_cast<float>(learning_rate) * ClipFactor(norm, clip_);
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i] -= rate * gradient[i];
    ++steps_;
    return norm;
  }

  State state() override { return {&steps_, {}}; }

 private:
  const double clip_;
  uint64_t steps_ = 0;
};

class AdamW final : public InnerOptimizer {
 public:
  AdamW(const v1::InnerSpec& inner, const v1::Manifest& manifest)
      : inner_(inner),
        manifest_(manifest),
        first_(manifest.elements(), 0.0f),
        second_(manifest.elements(), 0.0f) {}

  double Step(double learning_rate, absl::Span<float> parameters,
              absl::Span<const float> gradient) override {
    const double norm = GlobalNorm(gradient);
    if (!std::isfinite(norm)) return norm;
    ++steps_;
    const double steps = static_cast<double>(steps_);
    Coefficients c;
    c.clip = ClipFactor(norm, inner_.gradient_clip());
    c.beta1 = static_cast<float>(inner_.beta1());
    c.beta2 = static_cast<float>(inner_.beta2());
    c.one_minus_beta1 = static_cast<float>(1.0 - inner_.beta1());
    c.one_minus_beta2 = static_cast<float>(1.0 - inner_.beta2());
    c.step_size = static_cast<float>(learning_rate / (1.0 - std::pow(inner_.beta1(), steps)));
    c.root_correction = static_cast<float>(std::sqrt(1.0 - std::pow(inner_.beta2(), steps)));
    for (const v1::Tensor& tensor : manifest_.tensors()) {
      c.keep = tensor.shape_size() >= 2
                   ? static_cast<float>(1.0 - learning_rate * inner_.weight_decay())
                   : 1.0f;
      const auto begin = static_cast<int64_t>(tensor.offset());
      const auto end = begin + static_cast<int64_t>(TensorElements(tensor));
      at::parallel_for(begin, end, kGrain, [&](int64_t from, int64_t to) {
        Update(c, static_cast<size_t>(to - from), parameters.data() + from, gradient.data() + from,
               first_.data() + from, second_.data() + from);
      });
    }
    return norm;
  }

  State state() override { return {&steps_, {absl::MakeSpan(first_), absl::MakeSpan(second_)}}; }

 private:
  struct Coefficients {
    float clip, beta1, beta2, one_minus_beta1, one_minus_beta2, step_size, root_correction, keep;
  };

  // One pass over four arrays, which is what a step of AdamW costs.
  static void Update(const Coefficients& c, size_t count, float* __restrict parameters,
                     const float* __restrict gradient, float* __restrict first,
                     float* __restrict second) {
    const float epsilon = static_cast<float>(kEpsilon);
    for (size_t i = 0; i < count; ++i) {
      const float g = gradient[i] * c.clip;
      const float m = c.beta1 * first[i] + c.one_minus_beta1 * g;
      const float v = c.beta2 * second[i] + c.one_minus_beta2 * (g * g);
      first[i] = m;
      second[i] = v;
      const float denominator = std::sqrt(v) / c.root_correction + epsilon;
      parameters[i] = parameters[i] * c.keep - c.step_size * (m / denominator);
    }
  }

  const v1::InnerSpec inner_;
  const v1::Manifest manifest_;
  std::vector<float> first_, second_;
  uint64_t steps_ = 0;
};

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
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<InnerOptimizer>> InnerOptimizer::Make(const v1::InnerSpec& inner,
                                                                     const v1::Manifest& manifest) {
  const absl::Status status = CheckInnerSpec(inner);
  if (!status.ok()) return status;
  if (inner.optimizer() == "adamw") return std::make_unique<AdamW>(inner, manifest);
  if (inner.optimizer() == "sgd") return std::make_unique<Sgd>(inner.gradient_clip());
  return absl::InvalidArgumentError(
      absl::StrCat("inner.optimizer \"", inner.optimizer(), "\" is not known; known: adamw, sgd"));
}

double GlobalNorm(absl::Span<const float> values) {
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

}  // namespace atolld

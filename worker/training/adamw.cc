#include "worker/training/adamw.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "worker/kernels/row_kernels.h"

namespace atolld {
namespace {

constexpr double kEpsilon = 1e-8;    // torch.optim.AdamW's
constexpr int64_t kGrain = 1 << 16;  // below this a second thread costs more than it gains

}  // namespace

AdamWStep::AdamWStep(const v1::InnerSpec& inner, double learning_rate, uint64_t steps,
                     float clip_factor, bool decayed)
    : clip(clip_factor),
      beta1(static_cast<float>(inner.beta1())),
      beta2(static_cast<float>(inner.beta2())),
      one_minus_beta1(static_cast<float>(1.0 - inner.beta1())),
      one_minus_beta2(static_cast<float>(1.0 - inner.beta2())),
      step_size(static_cast<float>(learning_rate /
                                   (1.0 - std::pow(inner.beta1(), static_cast<double>(steps))))),
      root_correction(
          static_cast<float>(std::sqrt(1.0 - std::pow(inner.beta2(), static_cast<double>(steps))))),
      keep(decayed ? static_cast<float>(1.0 - learning_rate * inner.weight_decay()) : 1.0f) {}

void UpdateRange(const AdamWStep& step, int64_t begin, int64_t end, const at::Tensor& parameters,
                 const at::Tensor& gradient, const at::Tensor& first, const at::Tensor& second) {
  if (!parameters.is_cpu()) {
    return UpdateRangeByTensors(step, begin, end, parameters, gradient, first, second);
  }
  float* const p = parameters.data_ptr<float>();
  const float* const g = gradient.data_ptr<float>();
  float* const m = first.data_ptr<float>();
  float* const v = second.data_ptr<float>();
  const AdamWFactors factors{step.clip,
                             step.beta1,
                             step.beta2,
                             step.one_minus_beta1,
                             step.one_minus_beta2,
                             step.step_size,
                             step.root_correction,
                             step.keep,
                             static_cast<float>(kEpsilon)};
  at::parallel_for(begin, end, kGrain, [&](int64_t from, int64_t to) {
    AdamWPass(factors, static_cast<size_t>(to - from), p + from, g + from, m + from, v + from);
  });
}

void UpdateRangeByTensors(const AdamWStep& step, int64_t begin, int64_t end,
                          const at::Tensor& parameters, const at::Tensor& gradient,
                          const at::Tensor& first, const at::Tensor& second) {
  const at::NoGradGuard no_grad;
  const auto range = [&](const at::Tensor& flat) { return flat.narrow(0, begin, end - begin); };
  const at::Tensor g = range(gradient) * step.clip;
  const at::Tensor m = range(first).mul_(step.beta1).add_(g, step.one_minus_beta1);
  const at::Tensor v = range(second).mul_(step.beta2).addcmul_(g, g, step.one_minus_beta2);
  const at::Tensor denominator = v.sqrt().div_(step.root_correction).add_(kEpsilon);
  range(parameters).mul_(step.keep).addcdiv_(m, denominator, -step.step_size);
}

}  // namespace atolld

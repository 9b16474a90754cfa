#include "worker/training/inner_optimizer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compression/base/status_macros.h"
#include "worker/base/manifest.h"
#include "worker/kernels/row_kernels.h"
#include "worker/training/flat_buffer.h"

namespace atolld {
namespace {

constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
constexpr int kIterations = 5;
constexpr double kSmallest = 1e-7;    // a matrix of zeros stays one
constexpr double kAdamWLength = 0.2;  // root mean square of a usual step of AdamW, in its rate

constexpr double kClipEpsilon = 1e-6;  // torch.nn.utils.clip_grad_norm_'s

size_t Tensors(const v1::Manifest& manifest) {
  return static_cast<size_t>(manifest.tensors_size());
}

class Sgd final : public InnerOptimizer {
 public:
  Sgd(double clip, TrainedTensors trained) : clip_(clip), trained_(std::move(trained)) {}

  void Train(const TrainedTensors& trained) override { trained_ = trained; }

  double Step(double learning_rate, const at::Tensor& parameters,
              const at::Tensor& gradient) override {
    const at::NoGradGuard no_grad;
    const double norm = GlobalNorm(gradient);
    if (!std::isfinite(norm)) return norm;
    const float rate = static_cast<float>(learning_rate) * ClipFactor(norm, clip_);
    ++steps_;
    for (const TrainedTensors::Piece& piece : trained_.pieces()) {
      const auto count = static_cast<int64_t>(piece.count);
      const at::Tensor to = parameters.narrow(0, static_cast<int64_t>(piece.first), count);
      const at::Tensor from = gradient.narrow(0, static_cast<int64_t>(piece.place), count);
      if (!parameters.is_cpu()) {
        to.sub_(from, rate);
        continue;
      }
      float* const p = to.data_ptr<float>();
      const float* const g = from.data_ptr<float>();
      for (int64_t i = 0; i < count; ++i) p[i] -= rate * g[i];
    }
    return norm;
  }

  State state() override { return {&steps_, {}, {}}; }

 private:
  const double clip_;
  TrainedTensors trained_;
  uint64_t steps_ = 0;
};

// AdamW over the tensors of a model, and the base of optimisers that step some of them differently.
class AdamW : public InnerOptimizer {
 public:
  AdamW(const v1::InnerSpec& inner, const v1::Manifest& manifest, const at::Device& device,
        const TrainedTensors& trained);

  void Train(const TrainedTensors& trained) override;

  double Step(double learning_rate, const at::Tensor& parameters,
              const at::Tensor& gradient) override;
  State state() override {
    return {&steps_, {first_.values(), second_.values()}, absl::MakeSpan(began_)};
  }
  void FetchState() override;
  void PushState() override;

 protected:
  // One trained tensor's part of a step: the views of its values in each of the flat vectors.
  struct Part {
    const v1::Tensor& tensor;
    uint64_t steps;  // with this state, including this one
    double learning_rate;
    float clip;  // scales the gradient
    at::Tensor parameters, gradient, first, second;
  };
  virtual void StepPart(const Part& part);

  const v1::InnerSpec inner_;

 private:
  // The values of a trained tensor in a vector of the trained values.
  at::Tensor PartOf(const at::Tensor& flat, const TrainedTensors& trained, size_t tensor) const;

  const v1::Manifest manifest_;
  const at::Device device_;
  TrainedTensors trained_;
  FlatBuffer first_, second_;  // moments
  uint64_t steps_ = 0;
  std::vector<uint64_t> began_;  // as in State
};

AdamW::AdamW(const v1::InnerSpec& inner, const v1::Manifest& manifest, const at::Device& device,
             const TrainedTensors& trained)
    : inner_(inner),
      manifest_(manifest),
      device_(device),
      trained_(trained),
      first_(trained.elements(), device),
      second_(trained.elements(), device) {
  for (size_t i = 0; i < Tensors(manifest_); ++i) began_.push_back(trained.trains(i) ? 0 : kFrozen);
}

void AdamW::Train(const TrainedTensors& trained) {
  if (trained == trained_) return;
  const at::NoGradGuard no_grad;
  for (FlatBuffer* const moments : {&first_, &second_}) {  // one of them at a time has two copies
    const FlatBuffer before = *moments;
    *moments = FlatBuffer(trained.elements(), device_);
    for (size_t i = 0; i < Tensors(manifest_); ++i) {
      if (!trained.trains(i) || !trained_.trains(i)) continue;
      PartOf(moments->there(), trained, i).copy_(PartOf(before.there(), trained_, i));
    }
  }
  for (size_t i = 0; i < Tensors(manifest_); ++i) {
    if (!trained.trains(i)) {
      began_[i] = kFrozen;
    } else if (!trained_.trains(i)) {
      began_[i] = steps_;
    }
  }
  trained_ = trained;
}

at::Tensor AdamW::PartOf(const at::Tensor& flat, const TrainedTensors& trained,
                         size_t tensor) const {
  return flat.narrow(
      0, static_cast<int64_t>(trained.place(tensor)),
      static_cast<int64_t>(TensorElements(manifest_.tensors(static_cast<int>(tensor)))));
}

double AdamW::Step(double learning_rate, const at::Tensor& parameters, const at::Tensor& gradient) {
  const at::NoGradGuard no_grad;
  const double norm = GlobalNorm(gradient);
  if (!std::isfinite(norm)) return norm;
  ++steps_;
  const float clip = ClipFactor(norm, inner_.gradient_clip());
  for (size_t i = 0; i < Tensors(manifest_); ++i) {
    if (!trained_.trains(i)) continue;
    const v1::Tensor& tensor = manifest_.tensors(static_cast<int>(i));
    const auto of = [&](const at::Tensor& trained) { return PartOf(trained, trained_, i); };
    StepPart({tensor, steps_ - began_[i], learning_rate, clip,
              parameters.narrow(0, static_cast<int64_t>(tensor.offset()),
                                static_cast<int64_t>(TensorElements(tensor))),
              of(gradient), of(first_.there()), of(second_.there())});
  }
  return norm;
}

void AdamW::StepPart(const Part& part) {
  const AdamWStep step(inner_, part.learning_rate, part.steps, part.clip,
                       part.tensor.shape_size() >= 2);
  UpdateRange(step, 0, part.parameters.numel(), part.parameters, part.gradient, part.first,
              part.second);
}

void AdamW::FetchState() {
  first_.Fetch();
  second_.Fetch();
}

void AdamW::PushState() {
  first_.Push();
  second_.Push();
}

class Muon final : public AdamW {
 public:
  using AdamW::AdamW;

 private:
  // Of a block's matrix the first moment is Muon's momentum, and the second is not used.
  void StepPart(const Part& part) override {
    if (!IsMuons(part.tensor)) return AdamW::StepPart(part);
    const std::array<int64_t, 2> shape = {static_cast<int64_t>(part.tensor.shape(0)),
                                          static_cast<int64_t>(part.tensor.shape(1))};
    const at::Tensor matrix = part.parameters.view(shape), momentum = part.first.view(shape);
    const double mu = inner_.muon_momentum();
    const at::Tensor g = part.gradient.view(shape) * part.clip;
    momentum.mul_(mu).add_(g);
    const at::Tensor direction = Orthogonalised(g.add(momentum, mu));  // Nesterov's
    const auto longest = static_cast<double>(std::max(shape[0], shape[1]));
    matrix.mul_(1.0 - part.learning_rate * inner_.weight_decay())
        .add_(direction, -part.learning_rate * kAdamWLength * std::sqrt(longest));
  }
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
  if (!(inner.muon_momentum() >= 0 && inner.muon_momentum() < 1)) {
    return wrong("muon_momentum", inner.muon_momentum(), "in [0, 1)");
  }
  return absl::OkStatus();
}

}  // namespace

double GlobalNorm(const at::Tensor& values) {
  if (!values.is_cpu()) return at::norm(values, 2.0, at::kDouble).item<double>();
  return std::sqrt(SumOfSquares(values.data_ptr<float>(), static_cast<size_t>(values.numel())));
}

float ClipFactor(double norm, double limit) {
  return limit > 0 ? static_cast<float>(std::min(1.0, limit / (norm + kClipEpsilon))) : 1.0f;
}

absl::StatusOr<std::unique_ptr<InnerOptimizer>> InnerOptimizer::Make(const v1::InnerSpec& inner,
                                                                     const v1::Manifest& manifest,
                                                                     const std::string& device) {
  return Make(inner, manifest, device, TrainedTensors(manifest));
}

absl::StatusOr<std::unique_ptr<InnerOptimizer>> InnerOptimizer::Make(
    const v1::InnerSpec& inner, const v1::Manifest& manifest, const std::string& device,
    const TrainedTensors& trained) {
  RETURN_IF_ERROR(CheckInnerSpec(inner));
  if (inner.optimizer() == "adamw")
    return std::make_unique<AdamW>(inner, manifest, at::Device(device), trained);
  if (inner.optimizer() == "sgd") return std::make_unique<Sgd>(inner.gradient_clip(), trained);
  if (inner.optimizer() == "muon")
    return std::make_unique<Muon>(inner, manifest, at::Device(device), trained);
  return absl::InvalidArgumentError(absl::StrCat("inner.optimizer \"", inner.optimizer(),
                                                 "\" is not known; known: adamw, muon, sgd"));
}

bool IsMuons(const v1::Tensor& tensor) {
  if (tensor.shape_size() != 2) return false;
  for (const absl::string_view part : absl::StrSplit(tensor.name(), '.')) {
    if (!part.empty() && std::all_of(part.begin(), part.end(), absl::ascii_isdigit)) return true;
  }
  return false;
}

at::Tensor Orthogonalised(const at::Tensor& matrix) {
  const bool tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = tall ? matrix.t() : matrix;  // the smaller square is the cheaper one
  x = x / (x.norm() + kSmallest);
  for (int i = 0; i < kIterations; ++i) {
    const at::Tensor square = at::mm(x, x.t());
    const at::Tensor polynomial = at::addmm(square, square, square, kB, kC);
    x = at::addmm(x, polynomial, x, kA, 1.0);
  }
  return tall ? x.t() : x;
}

// -----------------------------------------------------------------------------------------------

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

#include "optimizer/outer_rule.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/names.h"
#include "optimizer/adaptive_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizer/outer_rule.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace atolld {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Every operation is rounded to fp32 on its own, in the order that outer_rule.h writes; nothing is
// fused or reordered. Arrays do not overlap.

using Floats = hn::ScalableTag<float>;
// What is left of a span once whole vectors are done goes through the same operations, a lane at a
// time.
using OneFloat = hn::CappedTag<float, 1>;

template <class D>
HWY_INLINE void NesterovLanes(D d, float rate, float factor, const float* mean, float* theta,
                              float* buffer) {
  const auto learning_rate = hn::Set(d, rate);
  const auto momentum = hn::Set(d, factor);
  const auto gradient = hn::LoadU(d, mean);
  const auto moved = hn::Add(hn::Mul(momentum, hn::LoadU(d, buffer)), gradient);
  const auto direction = hn::Add(gradient, hn::Mul(momentum, moved));
  hn::StoreU(moved, d, buffer);
  hn::StoreU(hn::Sub(hn::LoadU(d, theta), hn::Mul(learning_rate, direction)), d, theta);
}

void StepNesterov(float learning_rate, float momentum, const float* mean, size_t elements,
                  float* theta, float* buffer) {
  const Floats d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= elements; i += hn::Lanes(d))
    NesterovLanes(d, learning_rate, momentum, mean + i, theta + i, buffer + i);
  for (; i < elements; ++i)
    NesterovLanes(OneFloat(), learning_rate, momentum, mean + i, theta + i, buffer + i);
}

template <class D>
HWY_INLINE void AverageLanes(D d, float learning_rate, const float* mean, float* theta) {
  const auto change = hn::Mul(hn::Set(d, learning_rate), hn::LoadU(d, mean));
  hn::StoreU(hn::Sub(hn::LoadU(d, theta), change), d, theta);
}

void StepAverage(float learning_rate, const float* mean, size_t elements, float* theta) {
  const Floats d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= elements; i += hn::Lanes(d))
    AverageLanes(d, learning_rate, mean + i, theta + i);
  for (; i < elements; ++i) AverageLanes(OneFloat(), learning_rate, mean + i, theta + i);
}

template <class D>
HWY_INLINE void MomentumLanes(D d, float rate, float factor, const float* mean, float* theta,
                              float* buffer) {
  const auto kept = hn::Mul(hn::Set(d, factor), hn::LoadU(d, buffer));
  const auto moved = hn::Add(kept, hn::LoadU(d, mean));
  hn::StoreU(moved, d, buffer);
  hn::StoreU(hn::Sub(hn::LoadU(d, theta), hn::Mul(hn::Set(d, rate), moved)), d, theta);
}

void StepMomentum(float learning_rate, float momentum, const float* mean, size_t elements,
                  float* theta, float* buffer) {
  const Floats d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= elements; i += hn::Lanes(d))
    MomentumLanes(d, learning_rate, momentum, mean + i, theta + i, buffer + i);
  for (; i < elements; ++i)
    MomentumLanes(OneFloat(), learning_rate, momentum, mean + i, theta + i, buffer + i);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace atolld
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace atolld {

HWY_EXPORT(StepNesterov);
HWY_EXPORT(StepAverage);
HWY_EXPORT(StepMomentum);

namespace {

constexpr char kLearningRate[] = "learning_rate";
constexpr char kMomentum[] = "momentum";
constexpr char kBeta2[] = "beta2";
constexpr char kAdaptivity[] = "adaptivity";

absl::Status CheckLearningRate(float value) {
  if (std::isfinite(value) && value > 0.0f) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("outer learning rate ", value, " is not finite and above 0"));
}

absl::Status CheckMomentum(float value) {
  if (value >= 0.0f && value < 1.0f) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("outer momentum ", value, " is not from 0 to below 1"));
}

absl::Status CheckBeta2(float value) {
  if (value >= 0.0f && value < 1.0f) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("outer beta2 ", value, " is not from 0 to below 1"));
}

absl::Status CheckAdaptivity(float value) {
  if (std::isfinite(value) && value > 0.0f) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("outer adaptivity ", value, " is not finite and above 0"));
}

absl::StatusOr<float> FindScalar(const OuterScalars& scalars, const char* name,
                                 absl::Status (*check)(float)) {
  const auto found = scalars.find(name);
  if (found == scalars.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the outer step lacks the scalar \"", name, "\""));
  }
  const absl::Status status = check(found->second);
  if (!status.ok()) return status;
  return found->second;
}

absl::Status CheckSizes(const OuterRule& rule, size_t elements, size_t theta_elements,
                        absl::Span<const absl::Span<float>> buffers) {
  if (theta_elements != elements) {
    return absl::InvalidArgumentError(
        absl::StrCat("a mean of ", elements, " values for ", theta_elements, " parameters"));
  }
  if (buffers.size() != rule.buffers().size()) {
    return absl::InvalidArgumentError(absl::StrCat(rule.name(), " has ", rule.buffers().size(),
                                                   " buffers, ", buffers.size(), " are given"));
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].size() == elements) continue;
    return absl::InvalidArgumentError(absl::StrCat("buffer \"", rule.buffers()[i], "\" has ",
                                                   buffers[i].size(), " values for ", elements,
                                                   " parameters"));
  }
  return absl::OkStatus();
}

using MomentumStep = void (*)(float learning_rate, float momentum, const float* mean,
                              size_t elements, float* theta, float* buffer);

// "nesterov" and "momentum": one buffer.
class MomentumRule final : public OuterRule {
 public:
  MomentumRule(absl::string_view name, MomentumStep step) : name_(name), step_(step) {}

  absl::string_view name() const override { return name_; }
  const std::vector<std::string>& buffers() const override { return buffers_; }
  absl::StatusOr<OuterScalars> Scalars(const OuterSettings& settings) const override;
  absl::Status Step(const OuterScalars& scalars, absl::Span<const float> mean,
                    absl::Span<float> theta,
                    absl::Span<const absl::Span<float>> buffers) const override;

 private:
  const absl::string_view name_;
  const MomentumStep step_;
  const std::vector<std::string> buffers_ = {"momentum"};
};

class AverageRule final : public OuterRule {
 public:
  absl::string_view name() const override { return "average"; }
  const std::vector<std::string>& buffers() const override { return buffers_; }
  absl::StatusOr<OuterScalars> Scalars(const OuterSettings& settings) const override;
  absl::Status Step(const OuterScalars& scalars, absl::Span<const float> mean,
                    absl::Span<float> theta,
                    absl::Span<const absl::Span<float>> buffers) const override;

 private:
  const std::vector<std::string> buffers_ = {};  // Clang wants a const member initialised
};

using AdaptiveStep = void (*)(const AdaptiveFactors& factors, const AdaptiveState& state);

// "adagrad", "adam" and "yogi": two moments.
class AdaptiveRule final : public OuterRule {
 public:
  AdaptiveRule(absl::string_view name, AdaptiveStep step, bool has_beta2)
      : name_(name), step_(step), has_beta2_(has_beta2) {}

  absl::string_view name() const override { return name_; }
  const std::vector<std::string>& buffers() const override { return buffers_; }
  absl::StatusOr<OuterScalars> Scalars(const OuterSettings& settings) const override;
  absl::Status Step(const OuterScalars& scalars, absl::Span<const float> mean,
                    absl::Span<float> theta,
                    absl::Span<const absl::Span<float>> buffers) const override;

 private:
  const absl::string_view name_;
  const AdaptiveStep step_;
  const bool has_beta2_;
  const std::vector<std::string> buffers_ = {"first_moment", "second_moment"};
};

absl::StatusOr<OuterScalars> MomentumRule::Scalars(const OuterSettings& settings) const {
  absl::Status status = CheckLearningRate(settings.learning_rate);
  status.Update(CheckMomentum(settings.momentum));
  if (!status.ok()) return status;
  return OuterScalars{{kLearningRate, settings.learning_rate}, {kMomentum, settings.momentum}};
}

absl::Status MomentumRule::Step(const OuterScalars& scalars, absl::Span<const float> mean,
                                absl::Span<float> theta,
                                absl::Span<const absl::Span<float>> buffers) const {
  const absl::StatusOr<float> learning_rate = FindScalar(scalars, kLearningRate, CheckLearningRate);
  if (!learning_rate.ok()) return learning_rate.status();
  const absl::StatusOr<float> momentum = FindScalar(scalars, kMomentum, CheckMomentum);
  if (!momentum.ok()) return momentum.status();
  const absl::Status sizes = CheckSizes(*this, mean.size(), theta.size(), buffers);
  if (!sizes.ok()) return sizes;
  step_(*learning_rate, *momentum, mean.data(), mean.size(), theta.data(), buffers[0].data());
  return absl::OkStatus();
}

absl::StatusOr<OuterScalars> AverageRule::Scalars(const OuterSettings& settings) const {
  const absl::Status status = CheckLearningRate(settings.learning_rate);
  if (!status.ok()) return status;
  return OuterScalars{{kLearningRate, settings.learning_rate}};
}

absl::Status AverageRule::Step(const OuterScalars& scalars, absl::Span<const float> mean,
                               absl::Span<float> theta,
                               absl::Span<const absl::Span<float>> buffers) const {
  const absl::StatusOr<float> learning_rate = FindScalar(scalars, kLearningRate, CheckLearningRate);
  if (!learning_rate.ok()) return learning_rate.status();
  const absl::Status sizes = CheckSizes(*this, mean.size(), theta.size(), buffers);
  if (!sizes.ok()) return sizes;
  HWY_DYNAMIC_DISPATCH(StepAverage)(*learning_rate, mean.data(), mean.size(), theta.data());
  return absl::OkStatus();
}

absl::StatusOr<OuterScalars> AdaptiveRule::Scalars(const OuterSettings& settings) const {
  absl::Status status = CheckLearningRate(settings.learning_rate);
  status.Update(CheckMomentum(settings.momentum));
  status.Update(CheckAdaptivity(settings.adaptivity));
  if (has_beta2_) status.Update(CheckBeta2(settings.beta2));
  if (!status.ok()) return status;
  OuterScalars scalars = {{kAdaptivity, settings.adaptivity},
                          {kLearningRate, settings.learning_rate},
                          {kMomentum, settings.momentum}};
  if (has_beta2_) scalars[kBeta2] = settings.beta2;
  return scalars;
}

absl::Status AdaptiveRule::Step(const OuterScalars& scalars, absl::Span<const float> mean,
                                absl::Span<float> theta,
                                absl::Span<const absl::Span<float>> buffers) const {
  AdaptiveFactors factors = {};
  const struct {
    const char* scalar;
    absl::Status (*check)(float);
    float* factor;
  } used[] = {{kLearningRate, CheckLearningRate, &factors.learning_rate},
              {kMomentum, CheckMomentum, &factors.beta1},
              {kAdaptivity, CheckAdaptivity, &factors.adaptivity},
              {kBeta2, CheckBeta2, &factors.beta2}};
  for (const auto& one : used) {
    if (!has_beta2_ && one.factor == &factors.beta2) continue;
    const absl::StatusOr<float> value = FindScalar(scalars, one.scalar, one.check);
    if (!value.ok()) return value.status();
    *one.factor = *value;
  }
  const absl::Status sizes = CheckSizes(*this, mean.size(), theta.size(), buffers);
  if (!sizes.ok()) return sizes;
  step_(factors, {mean.data(), mean.size(), theta.data(), buffers[0].data(), buffers[1].data()});
  return absl::OkStatus();
}

void NesterovStep(float learning_rate, float momentum, const float* mean, size_t elements,
                  float* theta, float* buffer) {
  HWY_DYNAMIC_DISPATCH(StepNesterov)(learning_rate, momentum, mean, elements, theta, buffer);
}

void HeavyBallStep(float learning_rate, float momentum, const float* mean, size_t elements,
                   float* theta, float* buffer) {
  HWY_DYNAMIC_DISPATCH(StepMomentum)(learning_rate, momentum, mean, elements, theta, buffer);
}

// Stateless, so one instance of each serves everybody for ever. Ascending by name.
std::array<const OuterRule*, 6> AllRules() {
  // Never destroyed: their buffers' names may be read while other statics go.
  static const AdaptiveRule& adagrad = *new AdaptiveRule("adagrad", StepAdagrad, false);
  static const AdaptiveRule& adam = *new AdaptiveRule("adam", StepAdam, true);
  static const AverageRule& average = *new AverageRule;
  static const MomentumRule& momentum = *new MomentumRule("momentum", HeavyBallStep);
  static const MomentumRule& nesterov = *new MomentumRule("nesterov", NesterovStep);
  static const AdaptiveRule& yogi = *new AdaptiveRule("yogi", StepYogi, true);
  return {&adagrad, &adam, &average, &momentum, &nesterov, &yogi};
}

}  // namespace

std::vector<std::string> OuterRuleNames() {
  std::vector<std::string> names;
  for (const OuterRule* rule : AllRules()) names.emplace_back(rule->name());
  return names;
}

bool IsAdaptive(absl::string_view name) {
  return name == "adagrad" || name == "adam" || name == "yogi";
}

absl::StatusOr<const OuterRule*> FindOuterRule(absl::string_view name) {
  for (const OuterRule* rule : AllRules()) {
    if (rule->name() == name) return rule;
  }
  return absl::InvalidArgumentError(UnknownNameMessage("outer rule", name, OuterRuleNames()));
}

}  // namespace atolld
#endif  // HWY_ONCE

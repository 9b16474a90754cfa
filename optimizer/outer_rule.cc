#include "optimizer/outer_rule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
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

// Every operation is rounded to fp32 on its own, in the order given in outer_rule.h; nothing is
// fused or reordered. Arrays do not overlap.

using Floats = hn::ScalableTag<float>;
// The elements that remain after the whole vectors go through the same operations, one lane at a
// time.
using OneFloat = hn::CappedTag<float, 1>;

// Clamps to [-bound, bound]. Min and Max are avoided: their result for a NaN differs by CPU.
template <bool kClips, class D>
HWY_INLINE hn::Vec<D> Held(D d, hn::Vec<D> value, float bound) {
  if constexpr (!kClips) return value;
  const auto most = hn::Set(d, bound);
  const auto least = hn::Set(d, -bound);
  const auto below = hn::IfThenElse(hn::Gt(value, most), most, value);
  return hn::IfThenElse(hn::Lt(below, least), least, below);
}

// The inputs of a step of a rule with momentum, apart from the vectors. `clip` is 0 if there is
// none.
struct Factors {
  float learning_rate, momentum, clip;
};

template <bool kClips, class D>
HWY_INLINE void NesterovLanes(D d, const Factors& by, const float* mean, float* theta,
                              float* buffer) {
  const auto learning_rate = hn::Set(d, by.learning_rate);
  const auto momentum = hn::Set(d, by.momentum);
  const auto gradient = hn::LoadU(d, mean);
  const auto moved =
      Held<kClips>(d, hn::Add(hn::Mul(momentum, hn::LoadU(d, buffer)), gradient), by.clip);
  const auto direction = hn::Add(gradient, hn::Mul(momentum, moved));
  hn::StoreU(moved, d, buffer);
  hn::StoreU(hn::Sub(hn::LoadU(d, theta), hn::Mul(learning_rate, direction)), d, theta);
}

template <bool kClips>
HWY_INLINE void NesterovLoop(const Factors& by, const float* mean, size_t elements, float* theta,
                             float* buffer) {
  const Floats d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= elements; i += hn::Lanes(d))
    NesterovLanes<kClips>(d, by, mean + i, theta + i, buffer + i);
  for (; i < elements; ++i) NesterovLanes<kClips>(OneFloat(), by, mean + i, theta + i, buffer + i);
}

void StepNesterov(float learning_rate, float momentum, float clip, const float* mean,
                  size_t elements, float* theta, float* buffer) {
  const Factors by = {learning_rate, momentum, clip};
  if (clip > 0) return NesterovLoop<true>(by, mean, elements, theta, buffer);
  NesterovLoop<false>(by, mean, elements, theta, buffer);
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

template <bool kClips, class D>
HWY_INLINE void MomentumLanes(D d, const Factors& by, const float* mean, float* theta,
                              float* buffer) {
  const auto kept = hn::Mul(hn::Set(d, by.momentum), hn::LoadU(d, buffer));
  const auto moved = Held<kClips>(d, hn::Add(kept, hn::LoadU(d, mean)), by.clip);
  hn::StoreU(moved, d, buffer);
  const auto change = hn::Mul(hn::Set(d, by.learning_rate), moved);
  hn::StoreU(hn::Sub(hn::LoadU(d, theta), change), d, theta);
}

template <bool kClips>
HWY_INLINE void MomentumLoop(const Factors& by, const float* mean, size_t elements, float* theta,
                             float* buffer) {
  const Floats d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= elements; i += hn::Lanes(d))
    MomentumLanes<kClips>(d, by, mean + i, theta + i, buffer + i);
  for (; i < elements; ++i) MomentumLanes<kClips>(OneFloat(), by, mean + i, theta + i, buffer + i);
}

void StepMomentum(float learning_rate, float momentum, float clip, const float* mean,
                  size_t elements, float* theta, float* buffer) {
  const Factors by = {learning_rate, momentum, clip};
  if (clip > 0) return MomentumLoop<true>(by, mean, elements, theta, buffer);
  MomentumLoop<false>(by, mean, elements, theta, buffer);
}

// Moves only the sum of the momentum, not the momentum itself.
template <class D>
HWY_INLINE void SumLanes(D d, float rate, float share, const float* mean, float* theta,
                         float* sum) {
  const auto part = hn::Mul(hn::Set(d, share), hn::LoadU(d, mean));
  hn::StoreU(hn::Add(hn::LoadU(d, sum), part), d, sum);
  hn::StoreU(hn::Sub(hn::LoadU(d, theta), hn::Mul(hn::Set(d, rate), part)), d, theta);
}

void StepSum(float learning_rate, float share, const float* mean, size_t elements, float* theta,
             float* sum) {
  const Floats d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= elements; i += hn::Lanes(d))
    SumLanes(d, learning_rate, share, mean + i, theta + i, sum + i);
  for (; i < elements; ++i)
    SumLanes(OneFloat(), learning_rate, share, mean + i, theta + i, sum + i);
}

// The entry's share of N updates, and the rest of it that the next sum gets.
struct Shares {
  float share, rest;
};

template <bool kClips, class D>
HWY_INLINE void DueLanes(D d, const Factors& by, const Shares& of, const float* mean, float* theta,
                         float* sum, float* buffer) {
  const auto momentum = hn::Set(d, by.momentum);
  const auto gradient = hn::LoadU(d, mean);
  const auto part = hn::Mul(hn::Set(d, of.share), gradient);
  // Adding to 0 turns -0 into +0: a sum without a rest begins like a new buffer.
  const auto left = hn::Add(hn::Zero(d), hn::Mul(hn::Set(d, of.rest), gradient));
  const auto all = hn::Add(hn::LoadU(d, sum), hn::Sub(part, left));
  const auto moved =
      Held<kClips>(d, hn::Add(hn::Mul(momentum, hn::LoadU(d, buffer)), all), by.clip);
  const auto direction = hn::Add(hn::Mul(momentum, moved), part);
  hn::StoreU(moved, d, buffer);
  hn::StoreU(left, d, sum);
  const auto change = hn::Mul(hn::Set(d, by.learning_rate), direction);
  hn::StoreU(hn::Sub(hn::LoadU(d, theta), change), d, theta);
}

template <bool kClips>
HWY_INLINE void DueLoop(const Factors& by, const Shares& of, const float* mean, size_t elements,
                        float* theta, float* sum, float* buffer) {
  const Floats d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= elements; i += hn::Lanes(d))
    DueLanes<kClips>(d, by, of, mean + i, theta + i, sum + i, buffer + i);
  for (; i < elements; ++i)
    DueLanes<kClips>(OneFloat(), by, of, mean + i, theta + i, sum + i, buffer + i);
}

void StepDue(float learning_rate, float momentum, float clip, float share, float rest,
             const float* mean, size_t elements, float* theta, float* sum, float* buffer) {
  const Factors by = {learning_rate, momentum, clip};
  const Shares of = {share, rest};
  if (clip > 0) return DueLoop<true>(by, of, mean, elements, theta, sum, buffer);
  DueLoop<false>(by, of, mean, elements, theta, sum, buffer);
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
HWY_EXPORT(StepSum);
HWY_EXPORT(StepDue);

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

absl::Status CheckShare(float value) {
  if (value >= 0.0f && value <= 1.0f) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("an entry's share, rest or discount ", value, " is not from 0 to 1"));
}

absl::Status CheckDue(float value) {
  if (value == 0.0f || value == 1.0f) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the momentum is due by ", value, ", which is neither 0 nor 1"));
}

absl::Status CheckGap(float value) {
  if (std::isfinite(value) && value >= 1.0f) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("gap ", value, " is not finite and at least 1"));
}

absl::Status CheckClip(float value) {
  if (std::isfinite(value) && value > 0.0f) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("outer momentum's clip ", value, " is not finite and above 0"));
}

absl::StatusOr<float> FindScalar(const OuterScalars& scalars, const char* name,
                                 absl::Status (*check)(float)) {
  const auto found = scalars.find(name);
  if (found == scalars.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the outer step lacks the scalar \"", name, "\""));
  }
  RETURN_IF_ERROR(check(found->second));
  return found->second;
}

// Returns a scalar that a step can do without.
absl::StatusOr<float> FindOptional(const OuterScalars& scalars, const char* name,
                                   absl::Status (*check)(float)) {
  return scalars.count(name) == 0 ? 0.0f : FindScalar(scalars, name, check);
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

using MomentumStep = void (*)(float learning_rate, float momentum, float clip, const float* mean,
                              size_t elements, float* theta, float* buffer);

// "nesterov" and "momentum".
class MomentumRule final : public OuterRule {
 public:
  MomentumRule(absl::string_view name, MomentumStep step)
      : OuterRule(name, {"momentum"}), step_(step) {}

  absl::StatusOr<OuterScalars> Scalars(const OuterSettings& settings) const override {
    absl::Status status = CheckLearningRate(settings.learning_rate);
    status.Update(CheckMomentum(settings.momentum));
    if (!status.ok()) return status;
    return OuterScalars{{kLearningRate, settings.learning_rate}, {kMomentum, settings.momentum}};
  }

  absl::Status StepUndivided(const OuterScalars& scalars, absl::Span<const float> mean,
                             absl::Span<float> theta,
                             absl::Span<const absl::Span<float>> buffers) const override {
    ASSIGN_OR_RETURN(const float learning_rate,
                     FindScalar(scalars, kLearningRate, CheckLearningRate));
    ASSIGN_OR_RETURN(const float momentum, FindScalar(scalars, kMomentum, CheckMomentum));
    ASSIGN_OR_RETURN(const float clip, FindOptional(scalars, kMomentumClipScalar, CheckClip));
    RETURN_IF_ERROR(CheckSizes(*this, mean.size(), theta.size(), buffers));
    step_(learning_rate, momentum, clip, mean.data(), mean.size(), theta.data(), buffers[0].data());
    return absl::OkStatus();
  }

 private:
  const MomentumStep step_;
};

class AverageRule final : public OuterRule {
 public:
  AverageRule() : OuterRule("average", {}) {}

  absl::StatusOr<OuterScalars> Scalars(const OuterSettings& settings) const override {
    RETURN_IF_ERROR(CheckLearningRate(settings.learning_rate));
    return OuterScalars{{kLearningRate, settings.learning_rate}};
  }

  absl::Status StepUndivided(const OuterScalars& scalars, absl::Span<const float> mean,
                             absl::Span<float> theta,
                             absl::Span<const absl::Span<float>> buffers) const override {
    ASSIGN_OR_RETURN(const float learning_rate,
                     FindScalar(scalars, kLearningRate, CheckLearningRate));
    RETURN_IF_ERROR(CheckSizes(*this, mean.size(), theta.size(), buffers));
    HWY_DYNAMIC_DISPATCH(StepAverage)(learning_rate, mean.data(), mean.size(), theta.data());
    return absl::OkStatus();
  }
};

class DelayedNesterovRule final : public OuterRule {
 public:
  DelayedNesterovRule() : OuterRule("delayed_nesterov", {"delta_sum", "momentum"}) {}

  absl::StatusOr<OuterScalars> Scalars(const OuterSettings& settings) const override {
    absl::Status status = CheckLearningRate(settings.learning_rate);
    status.Update(CheckMomentum(settings.momentum));
    if (!status.ok()) return status;
    return OuterScalars{{kDueScalar, 1.0f},
                        {kLearningRate, settings.learning_rate},
                        {kMomentum, settings.momentum},
                        {kRestScalar, 0.0f},
                        {kShareScalar, 1.0f}};
  }

  absl::Status StepUndivided(const OuterScalars& scalars, absl::Span<const float> mean,
                             absl::Span<float> theta,
                             absl::Span<const absl::Span<float>> buffers) const override {
    ASSIGN_OR_RETURN(const float learning_rate,
                     FindScalar(scalars, kLearningRate, CheckLearningRate));
    ASSIGN_OR_RETURN(const float momentum, FindScalar(scalars, kMomentum, CheckMomentum));
    ASSIGN_OR_RETURN(const float due, FindScalar(scalars, kDueScalar, CheckDue));
    ASSIGN_OR_RETURN(const float share, FindScalar(scalars, kShareScalar, CheckShare));
    ASSIGN_OR_RETURN(const float rest, FindScalar(scalars, kRestScalar, CheckShare));
    ASSIGN_OR_RETURN(const float clip, FindOptional(scalars, kMomentumClipScalar, CheckClip));
    RETURN_IF_ERROR(CheckSizes(*this, mean.size(), theta.size(), buffers));
    float* const sum = buffers[0].data();
    if (due == 0.0f) {
      HWY_DYNAMIC_DISPATCH(StepSum)
      (learning_rate, share, mean.data(), mean.size(), theta.data(), sum);
    } else {
      HWY_DYNAMIC_DISPATCH(StepDue)
      (learning_rate, momentum, clip, share, rest, mean.data(), mean.size(), theta.data(), sum,
       buffers[1].data());
    }
    return absl::OkStatus();
  }
};

using AdaptiveStep = void (*)(const AdaptiveFactors& factors, const AdaptiveState& state);

// "adagrad", "adam", "yogi" and "cgad": two moments.
class AdaptiveRule final : public OuterRule {
 public:
  AdaptiveRule(absl::string_view name, AdaptiveStep step, bool has_beta2, bool discounts = false)
      : OuterRule(name, {"first_moment", "second_moment"}),
        step_(step),
        has_beta2_(has_beta2),
        discounts_(discounts) {}

  absl::StatusOr<OuterScalars> Scalars(const OuterSettings& settings) const override {
    absl::Status status = CheckLearningRate(settings.learning_rate);
    status.Update(CheckMomentum(settings.momentum));
    status.Update(CheckAdaptivity(settings.adaptivity));
    if (has_beta2_) status.Update(CheckBeta2(settings.beta2));
    if (!status.ok()) return status;
    OuterScalars scalars = {{kAdaptivity, settings.adaptivity},
                            {kLearningRate, settings.learning_rate},
                            {kMomentum, settings.momentum}};
    if (has_beta2_) scalars[kBeta2] = settings.beta2;
    if (discounts_) scalars[kDiscountScalar] = 1.0f;
    return scalars;
  }

  absl::Status StepUndivided(const OuterScalars& scalars, absl::Span<const float> mean,
                             absl::Span<float> theta,
                             absl::Span<const absl::Span<float>> buffers) const override {
    AdaptiveFactors factors = {};
    const struct {
      const char* scalar;
      absl::Status (*check)(float);
      float* factor;
    } used[] = {{kLearningRate, CheckLearningRate, &factors.learning_rate},
                {kMomentum, CheckMomentum, &factors.beta1},
                {kAdaptivity, CheckAdaptivity, &factors.adaptivity},
                {kBeta2, CheckBeta2, &factors.beta2},
                {kDiscountScalar, CheckShare, &factors.discount}};
    for (const auto& one : used) {
      if (!has_beta2_ && one.factor == &factors.beta2) continue;
      if (!discounts_ && one.factor == &factors.discount) continue;
      ASSIGN_OR_RETURN(*one.factor, FindScalar(scalars, one.scalar, one.check));
    }
    RETURN_IF_ERROR(CheckSizes(*this, mean.size(), theta.size(), buffers));
    step_(factors, {mean.data(), mean.size(), theta.data(), buffers[0].data(), buffers[1].data()});
    return absl::OkStatus();
  }

 private:
  const AdaptiveStep step_;
  const bool has_beta2_;
  const bool discounts_;
};

void NesterovStep(float learning_rate, float momentum, float clip, const float* mean,
                  size_t elements, float* theta, float* buffer) {
  HWY_DYNAMIC_DISPATCH(StepNesterov)
  (learning_rate, momentum, clip, mean, elements, theta, buffer);
}

void HeavyBallStep(float learning_rate, float momentum, float clip, const float* mean,
                   size_t elements, float* theta, float* buffer) {
  HWY_DYNAMIC_DISPATCH(StepMomentum)
  (learning_rate, momentum, clip, mean, elements, theta, buffer);
}

// The rules are stateless, so one instance of each serves all callers forever. Sorted by name.
std::array<const OuterRule*, 8> AllRules() {
  // Never destroyed: the names of their buffers may be read while other statics are destroyed.
  static const AdaptiveRule& adagrad = *new AdaptiveRule("adagrad", StepAdagrad, false);
  static const AdaptiveRule& adam = *new AdaptiveRule("adam", StepAdam, true);
  static const AverageRule& average = *new AverageRule;
  static const AdaptiveRule& cgad = *new AdaptiveRule("cgad", StepCgad, true, true);
  static const DelayedNesterovRule& delayed_nesterov = *new DelayedNesterovRule;
  static const MomentumRule& momentum = *new MomentumRule("momentum", HeavyBallStep);
  static const MomentumRule& nesterov = *new MomentumRule("nesterov", NesterovStep);
  static const AdaptiveRule& yogi = *new AdaptiveRule("yogi", StepYogi, true);
  return {&adagrad, &adam, &average, &cgad, &delayed_nesterov, &momentum, &nesterov, &yogi};
}

}  // namespace

// With a gap, makes the step with mean / gap, one piece at a time. The step is elementwise, so
// pieces give the same bits as the whole.
absl::Status OuterRule::Step(const OuterScalars& scalars, absl::Span<const float> mean,
                             absl::Span<float> theta,
                             absl::Span<const absl::Span<float>> buffers) const {
  if (scalars.count(kGapScalar) == 0) return StepUndivided(scalars, mean, theta, buffers);
  ASSIGN_OR_RETURN(const float gap, FindScalar(scalars, kGapScalar, CheckGap));
  RETURN_IF_ERROR(CheckSizes(*this, mean.size(), theta.size(), buffers));
  OuterScalars others = scalars;
  others.erase(kGapScalar);
  std::array<float, 4096> divided;
  for (size_t first = 0; first == 0 || first < mean.size(); first += divided.size()) {
    const absl::Span<const float> whole = mean.subspan(first, divided.size());
    std::transform(whole.begin(), whole.end(), divided.begin(),
                   [divisor = gap](float value) { return value / divisor; });
    std::vector<absl::Span<float>> pieces;
    for (const absl::Span<float> buffer : buffers) {
      pieces.push_back(buffer.subspan(first, divided.size()));
    }
    // The first piece shows whether the scalars are valid, before anything has moved.
    RETURN_IF_ERROR(StepUndivided(others, absl::MakeConstSpan(divided.data(), whole.size()),
                                  theta.subspan(first, divided.size()), pieces));
  }
  return absl::OkStatus();
}

std::vector<std::string> OuterRuleNames() {
  std::vector<std::string> names;
  for (const OuterRule* rule : AllRules()) names.emplace_back(rule->name());
  return names;
}

bool IsAdaptive(absl::string_view name) {
  return name == "adagrad" || name == "adam" || name == "cgad" || name == "yogi";
}

bool HasMomentum(absl::string_view name) {
  return name == "delayed_nesterov" || name == "momentum" || name == "nesterov";
}

absl::StatusOr<const OuterRule*> FindOuterRule(absl::string_view name) {
  for (const OuterRule* rule : AllRules()) {
    if (rule->name() == name) return rule;
  }
  return absl::InvalidArgumentError(UnknownNameMessage("outer rule", name, OuterRuleNames()));
}

}  // namespace atolld
#endif  // HWY_ONCE

#include "optimizer/outer_rule.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/names.h"

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

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace atolld
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace atolld {

HWY_EXPORT(StepNesterov);
HWY_EXPORT(StepAverage);

namespace {

constexpr char kLearningRate[] = "learning_rate";
constexpr char kMomentum[] = "momentum";

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

class NesterovRule final : public OuterRule {
 public:
  absl::string_view name() const override { return "nesterov"; }
  const std::vector<std::string>& buffers() const override { return buffers_; }
  absl::StatusOr<OuterScalars> Scalars(float learning_rate, float momentum) const override;
  absl::Status Step(const OuterScalars& scalars, absl::Span<const float> mean,
                    absl::Span<float> theta,
                    absl::Span<const absl::Span<float>> buffers) const override;

 private:
  const std::vector<std::string> buffers_ = {"momentum"};
};

class AverageRule final : public OuterRule {
 public:
  absl::string_view name() const override { return "average"; }
  const std::vector<std::string>& buffers() const override { return buffers_; }
  absl::StatusOr<OuterScalars> Scalars(float learning_rate, float momentum) const override;
  absl::Status Step(const OuterScalars& scalars, absl::Span<const float> mean,
                    absl::Span<float> theta,
                    absl::Span<const absl::Span<float>> buffers) const override;

 private:
  const std::vector<std::string> buffers_ = {};  // Clang wants a const member initialised
};

absl::StatusOr<OuterScalars> NesterovRule::Scalars(float learning_rate, float momentum) const {
  absl::Status status = CheckLearningRate(learning_rate);
  status.Update(CheckMomentum(momentum));
  if (!status.ok()) return status;
  return OuterScalars{{kLearningRate, learning_rate}, {kMomentum, momentum}};
}

absl::Status NesterovRule::Step(const OuterScalars& scalars, absl::Span<const float> mean,
                                absl::Span<float> theta,
                                absl::Span<const absl::Span<float>> buffers) const {
  const absl::StatusOr<float> learning_rate = FindScalar(scalars, kLearningRate, CheckLearningRate);
  if (!learning_rate.ok()) return learning_rate.status();
  const absl::StatusOr<float> momentum = FindScalar(scalars, kMomentum, CheckMomentum);
  if (!momentum.ok()) return momentum.status();
  const absl::Status sizes = CheckSizes(*this, mean.size(), theta.size(), buffers);
  if (!sizes.ok()) return sizes;
  HWY_DYNAMIC_DISPATCH(StepNesterov)
  (*learning_rate, *momentum, mean.data(), mean.size(), theta.data(), buffers[0].data());
  return absl::OkStatus();
}

absl::StatusOr<OuterScalars> AverageRule::Scalars(float learning_rate, float /*momentum*/) const {
  const absl::Status status = CheckLearningRate(learning_rate);
  if (!status.ok()) return status;
  return OuterScalars{{kLearningRate, learning_rate}};
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

// Stateless, so one instance of each serves everybody for ever. Ascending by name.
std::array<const OuterRule*, 2> AllRules() {
  // Never destroyed: their buffers' names may be read while other statics go.
  static const AverageRule& average = *new AverageRule;
  static const NesterovRule& nesterov = *new NesterovRule;
  return {&average, &nesterov};
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

#include "optimizer/outer_rules.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/names.h"
#include "optimizer/outer_kernels.h"

namespace atolld {
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

// Stateless, so one instance of each serves everybody for ever. Ascending by name.
std::array<const OuterRule*, 2> AllRules() {
  // Never destroyed: their buffers' names may be read while other statics go.
  static const AverageRule& average = *new AverageRule;
  static const NesterovRule& nesterov = *new NesterovRule;
  return {&average, &nesterov};
}

}  // namespace

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
  NesterovStep({*learning_rate, *momentum}, mean.data(), mean.size(), theta.data(),
               buffers[0].data());
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
  AverageStep(*learning_rate, mean.data(), mean.size(), theta.data());
  return absl::OkStatus();
}

std::vector<std::string> OuterRuleNames() {
  std::vector<std::string> names;
  for (const OuterRule* rule : AllRules()) names.emplace_back(rule->name());
  return names;
}

absl::StatusOr<const OuterRule*> FindOuterRule(absl::string_view name) {
  for (const OuterRule* rule : AllRules()) {
    if (rule->name() == name) return rule;
  }
  return absl::InvalidArgumentError(UnknownNameMessage("outer rule", name, OuterRuleNames()));
}

}  // namespace atolld

// OuterRule: moves a replica's parameters by the mean pseudo-gradient of a round.
//
// The replica's state is theta and the rule's named fp32 buffers, all as long as theta. A step is a
// pure elementwise function of state, mean and scalars, with the same bits on every CPU (no FMA, no
// libm, no libtorch). Rules are stateless, therefore thread-safe; several threads may step disjoint
// ranges at once.
//
// "nesterov" is PyTorch's SGD(momentum, nesterov=True), which DiLoCo and all its reproductions use
// (arXiv 2311.08105, algorithm 1):
//   buffer = mu * buffer + mean;  theta = theta - learning_rate * (mean + mu * buffer)
// The buffer "momentum" starts as zeros, which gives the same first step as PyTorch. Scalars:
// "learning_rate" (finite, above 0) and "momentum" (from 0 to below 1).
//
// "average" is the outer step of local SGD and FedAvg:
//   theta = theta - learning_rate * mean
// A learning rate of 1 gives the average of the replicas. It has no buffers. Scalars:
// "learning_rate"; the run's momentum is not used.
//
// "momentum" is FedAvgM (Hsu et al., arXiv:1909.06335):
//   buffer = mu * buffer + mean;  theta = theta - learning_rate * buffer
// It has the same buffer and scalars as "nesterov".
//
// "adagrad", "adam" and "yogi" are algorithm 2 of Reddi et al., Adaptive Federated Optimization
// (arXiv:2003.00295), in which the pseudo-gradient is -mean. As in the paper, there is no bias
// correction:
//   first = beta1 * first + (1 - beta1) * mean
//   adagrad:  v = v + mean^2
//   adam:     v = beta2 * v + (1 - beta2) * mean^2
//   yogi:     v = v - (1 - beta2) * mean^2 * sign(v - mean^2)
//   theta = theta - (learning_rate * first) / (sqrt(v) + tau)
// In the paper v starts at tau^2 (in Flower, at 0). Buffers start as zeros in this code, so
// "second_moment" holds w = v - tau^2:
//   adagrad:  w = w + mean^2
//   adam:     w = beta2 * w + (1 - beta2) * (mean^2 - tau^2)
//   yogi:     w = w + (1 - beta2) * mean^2 if w + tau^2 < mean^2, w - ... if it is above, else w
// sqrt(v) is computed as the square root of w + tau^2, or as 0 if rounding has made w + tau^2
// negative. If the square of a mean overflows, its parameter does not move. Buffers:
// "first_moment", "second_moment". Scalars: "learning_rate", "momentum" (beta1), "adaptivity" (tau,
// finite, above 0) and, for adam and yogi, "beta2" (from 0 to below 1).
//
// "delayed_nesterov" is algorithm 3 of Liu et al., Asynchronous Local-SGD Training
// (arXiv:2401.09135), with its c = 0. Each update moves theta at once. The momentum moves only with
// every N-th update, by the sum of N updates:
//   part = share * mean
//   due:      left = 0 + rest * mean;  sum = delta_sum + (part - left)
//             buffer = mu * buffer + sum;  theta = theta - learning_rate * (mu * buffer + part)
//             delta_sum = left
//   not due:  theta = theta - learning_rate * part;  delta_sum = delta_sum + part
// In the paper an entry is one worker's update g, and part is g / N. In Atoll an entry is the mean
// of one or more updates, so the share is the number of the entry's updates divided by N, which
// differs by entry. If the entry has more updates than were missing from the sum, the rest of them
// begins the next sum, so that each sum has exactly N updates. Buffers: "delta_sum", "momentum".
// Scalars: "learning_rate", "momentum" and, from the entry, "due" (1 or 0), "share" and "rest"
// (from 0 to 1), which membership/history/step_scalars.h computes.
//
// "cgad" is "adam" with a mean that is discounted for its age before it reaches either moment
// (arXiv:2605.09126):
//   mean = discount * mean
// It has the scalars of "adam" and, from the entry, "discount" (from 0 to 1).
//
// Two corrections of CO2 (arXiv:2401.16265) compensate for means that were computed from an older
// state. Each is applied only if the scalars contain its value. Every rule divides the mean by
// "gap" (Lambda, at least 1, finite). The rules with a buffer "momentum" clamp each of its values
// to [-phi, phi], where phi is the scalar "momentum_clip" (above 0), after the buffer has moved and
// before theta moves.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace atolld {

// The scalars that a step uses, by the name that they have in the entry's header.
using OuterScalars = std::map<std::string, float>;

// The names of scalars that an entry sets. They are not part of a run's settings.
inline constexpr char kDueScalar[] = "due";
inline constexpr char kShareScalar[] = "share";
inline constexpr char kRestScalar[] = "rest";
inline constexpr char kDiscountScalar[] = "discount";
// The names of the scalars of the two optional corrections.
inline constexpr char kGapScalar[] = "gap";
inline constexpr char kMomentumClipScalar[] = "momentum_clip";

// A run's outer-step settings. Each rule ignores those that it does not use.
struct OuterSettings {
  float learning_rate = 0;
  float momentum = 0;  // beta1 of the adaptive rules
  float beta2 = 0;
  float adaptivity = 0;  // tau
};

class OuterRule {
 public:
  virtual ~OuterRule() = default;

  absl::string_view name() const { return name_; }  // for example "nesterov"

  // The names of the rule's buffers, which belong to the replicated state, in ascending order. Each
  // buffer starts as zeros.
  const std::vector<std::string>& buffers() const { return buffers_; }

  // Returns the scalars that Step needs, computed from the run's settings. Scalars that an entry
  // sets get the values for an entry of N new updates; the entry's header replaces them. Fails with
  // INVALID_ARGUMENT if a setting is not valid.
  virtual absl::StatusOr<OuterScalars> Scalars(const OuterSettings& settings) const = 0;

  // Steps one range of the state. `mean` (the decoded mean of theta_base - theta_peer), `theta` and
  // every buffer must be the same range of their vectors. `buffers` must be in the order of
  // buffers(). Fails with INVALID_ARGUMENT, and changes nothing, if a scalar is missing or sizes
  // differ.
  absl::Status Step(const OuterScalars& scalars, absl::Span<const float> mean,
                    absl::Span<float> theta, absl::Span<const absl::Span<float>> buffers) const;

 protected:
  OuterRule(absl::string_view name, std::vector<std::string> buffers)
      : name_(name), buffers_(std::move(buffers)) {}

  // Does the same with a mean that is divided by the gap already.
  virtual absl::Status StepUndivided(const OuterScalars& scalars, absl::Span<const float> mean,
                                     absl::Span<float> theta,
                                     absl::Span<const absl::Span<float>> buffers) const = 0;

 private:
  const absl::string_view name_;
  const std::vector<std::string> buffers_;
};

// Fails with INVALID_ARGUMENT if there is no rule of that name; the message lists the known names
// and the nearest one. The rule is never destroyed.
absl::StatusOr<const OuterRule*> FindOuterRule(absl::string_view name);
std::vector<std::string> OuterRuleNames();

// Returns true for "adagrad", "adam" and "yogi", the rules of Adaptive Federated Optimization
// (arXiv:2003.00295), and for "cgad", which is built on "adam".
bool IsAdaptive(absl::string_view name);

// Returns true if the rule has a buffer "momentum", on which "momentum_clip" has an effect.
bool HasMomentum(absl::string_view name);

}  // namespace atolld

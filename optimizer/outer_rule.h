// OuterRule: how a replica's parameters move by the mean pseudo-gradient of a round.
//
// The replica's state is theta and the rule's named fp32 buffers, all as long as theta; a step is a
// pure function of state, mean and scalars, elementwise, with the same bits on every CPU (no FMA,
// no libm, no libtorch). Rules are stateless and may be used from any thread, on disjoint ranges at
// once.
//
// "nesterov" is PyTorch's SGD(momentum, nesterov=True), which DiLoCo and all its reproductions use
// (arXiv 2311.08105, algorithm 1):
//   buffer = mu * buffer + mean;  theta = theta - learning_rate * (mean + mu * buffer)
// The buffer, "momentum", starts as zeros, which is PyTorch's first step too. Scalars:
// "learning_rate" (finite, above 0) and "momentum" (from 0 to below 1).
//
// "average" is local SGD's and FedAvg's:
//   theta = theta - learning_rate * mean
// with a learning rate of 1 the replicas' average. No buffers. Scalars: "learning_rate"; the run's
// momentum is not used.
//
// "momentum" is FedAvgM (Hsu et al., arXiv:1909.06335):
//   buffer = mu * buffer + mean;  theta = theta - learning_rate * buffer
// Buffer and scalars are those of "nesterov".
//
// "adagrad", "adam" and "yogi" are algorithm 2 of Reddi et al., Adaptive Federated Optimization
// (arXiv:2003.00295), whose pseudo-gradient is -mean, without bias correction as there:
//   first = beta1 * first + (1 - beta1) * mean
//   adagrad:  v = v + mean^2
//   adam:     v = beta2 * v + (1 - beta2) * mean^2
//   yogi:     v = v - (1 - beta2) * mean^2 * sign(v - mean^2)
//   theta = theta - (learning_rate * first) / (sqrt(v) + tau)
// v starts at tau^2 there, and buffers start as zeros here: "second_moment" holds w = v - tau^2,
//   adagrad:  w = w + mean^2
//   adam:     w = beta2 * w + (1 - beta2) * (mean^2 - tau^2)
//   yogi:     w = w + (1 - beta2) * mean^2 if w + tau^2 < mean^2, w - ... if it is above, else w
// and sqrt is of w + tau^2, or of 0 where rounding has taken that below. (Flower starts v at 0.) A
// mean whose square overflows leaves its parameter where it is. Buffers: "first_moment",
// "second_moment". Scalars: "learning_rate", "momentum" (beta1), "adaptivity" (tau, finite, above
// 0); of adam and yogi "beta2" too (from 0 to below 1).
//
// "delayed_nesterov" is algorithm 3 of Liu et al., Asynchronous Local-SGD Training
// (arXiv:2401.09135), with its c = 0: an update moves theta at once, and the momentum with every
// N-th update alone, by the sum of N:
//   part = share * mean
//   due:      left = 0 + rest * mean;  sum = delta_sum + (part - left)
//             buffer = mu * buffer + sum;  theta = theta - learning_rate * (mu * buffer + part)
//             delta_sum = left
//   not due:  theta = theta - learning_rate * part;  delta_sum = delta_sum + part
// There an entry is one worker's update g and part is g / N. Here an entry is the mean of one
// update or more, so the share is what it stands for of N updates, and differs by entry. Where it
// has more updates than the momentum lacked, the rest of its share is the beginning of the next
// sum, so that each sum is of N updates and no more. Buffers: "delta_sum", "momentum". Scalars:
// "learning_rate", "momentum", and of the entry "due" (1 or 0), "share" and "rest" (from 0 to 1),
// which membership/history/step_scalars.h makes.
//
// "cgad" is "adam" whose mean loses with its age, before it reaches either moment
// (arXiv:2605.09126):
//   mean = discount * mean
// Scalars: those of "adam", and the entry's "discount" (from 0 to 1).
//
// Two corrections of CO2 (arXiv:2401.16265) for means of an older state, where the scalars have
// them. Every rule takes the mean divided by "gap" (Lambda, at least 1, finite). The rules that
// have a buffer "momentum" hold each value of it to [-phi, phi], phi the scalar "momentum_clip"
// (above 0), as soon as it has moved and before theta does.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace atolld {

// Every scalar that a step uses, by name, as the entry's header carries it.
using OuterScalars = std::map<std::string, float>;

// Of an entry, and of no run.
inline constexpr char kDueScalar[] = "due";
inline constexpr char kShareScalar[] = "share";
inline constexpr char kRestScalar[] = "rest";
inline constexpr char kDiscountScalar[] = "discount";
// Corrections: a step does without where its scalars have none.
inline constexpr char kGapScalar[] = "gap";
inline constexpr char kMomentumClipScalar[] = "momentum_clip";

// What a run says of its outer step; a rule takes what it uses.
struct OuterSettings {
  float learning_rate = 0;
  float momentum = 0;  // beta1 of the adaptive rules
  float beta2 = 0;
  float adaptivity = 0;  // tau
};

class OuterRule {
 public:
  virtual ~OuterRule() = default;

  virtual absl::string_view name() const = 0;  // "nesterov"

  // The buffers that belong to the replicated state, ascending; each starts as zeros.
  virtual const std::vector<std::string>& buffers() const = 0;

  // The scalars that Step needs, from the run's settings; of those of an entry what an entry of N
  // new updates has, which its header replaces. INVALID_ARGUMENT if a value makes no sense.
  virtual absl::StatusOr<OuterScalars> Scalars(const OuterSettings& settings) const = 0;

  // Steps one range of the state: `mean` (the decoded mean of theta_base - theta_peer), `theta` and
  // every buffer are the same range of their vectors. `buffers` is in the order of buffers().
  // INVALID_ARGUMENT if a scalar is missing or sizes differ; nothing is changed then.
  virtual absl::Status Step(const OuterScalars& scalars, absl::Span<const float> mean,
                            absl::Span<float> theta,
                            absl::Span<const absl::Span<float>> buffers) const = 0;
};

// INVALID_ARGUMENT lists the known names and the nearest one. Lives forever.
absl::StatusOr<const OuterRule*> FindOuterRule(absl::string_view name);
std::vector<std::string> OuterRuleNames();

// "adagrad", "adam" and "yogi", the rules of Adaptive Federated Optimization (arXiv:2003.00295),
// and "cgad", which is made of one.
bool IsAdaptive(absl::string_view name);

// Whether "momentum_clip" does anything: the rule has a buffer "momentum".
bool HasMomentum(absl::string_view name);

}  // namespace atolld

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

class OuterRule {
 public:
  virtual ~OuterRule() = default;

  virtual absl::string_view name() const = 0;  // "nesterov", "average"

  // The buffers that belong to the replicated state, ascending; each starts as zeros.
  virtual const std::vector<std::string>& buffers() const = 0;

  // The scalars that Step needs, from the run's settings. INVALID_ARGUMENT if a value makes no
  // sense.
  virtual absl::StatusOr<OuterScalars> Scalars(float learning_rate, float momentum) const = 0;

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

// "adagrad", "adam" and "yogi": the rules of Adaptive Federated Optimization (arXiv:2003.00295).
bool IsAdaptive(absl::string_view name);

}  // namespace atolld

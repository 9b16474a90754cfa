// The outer rules that Atoll has: Nesterov momentum (DiLoCo) and plain averaging (local SGD,
// FedAvg).
#pragma once

#include <string>
#include <vector>

#include "optimizer/outer_rule.h"

namespace atolld {

// PyTorch's SGD(momentum, nesterov=True), which DiLoCo and all its reproductions use (arXiv
// 2311.08105, algorithm 1):
//   buffer = mu * buffer + mean;  theta = theta - learning_rate * (mean + mu * buffer)
// The buffer starts as zeros, which is PyTorch's first step too. Scalars: "learning_rate" (finite,
// above 0) and "momentum" (from 0 to below 1).
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

// theta = theta - learning_rate * mean: with a learning rate of 1 the replicas' average. No
// buffers. Scalars: "learning_rate"; the run's momentum is not used.
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

}  // namespace atolld

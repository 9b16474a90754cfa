// The common control variate of SCAFFOLD: a buffer of the replicated state, as long as theta, that
// each entry moves by its mean pseudo-gradient.
//
//   c = c + share * (rate * mean - c)
//
// The source is arXiv:1910.06378, algorithm 1 with option II. In the paper a party's own variate
// becomes c_i+ = c_i - c + (theta - y_i) / (K eta), and c moves by the mean of c_i+ - c_i over the
// round's |S| parties of N: c + (|S| / N) * mean(c_i+ - c_i). With d_i = theta - y_i that mean is
// -c + mean(d_i) / (K eta). The step of c therefore needs only the mean that is in the entry
// anyway, and two numbers: "control_rate", which is 1 over the sum of a round's learning rates (1 /
// (K eta)), and "control_share", which is |S| / N. The entry's header has both. If contributions
// have weights, c is the weighted mean of the c_i.
//
// Each operation is rounded to fp32 on its own, in the order written above, so every CPU computes
// the same bits. c begins as zeros. Immutable, therefore thread-safe; several threads may step
// disjoint ranges at once.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "optimizer/outer_rule.h"

namespace atolld {

inline constexpr char kControlBuffer[] = "control";
inline constexpr char kControlRate[] = "control_rate";
inline constexpr char kControlShare[] = "control_share";

class ControlVariate {
 public:
  // Reads the rate and the share from an entry's scalars. Fails with NOT_FOUND if both are missing,
  // and with INVALID_ARGUMENT if one is missing, if the rate is not finite and above 0, or if the
  // share is not above 0 and at most 1.
  static absl::StatusOr<ControlVariate> Make(const OuterScalars& scalars);

  float rate() const { return rate_; }
  float share() const { return share_; }

  // Steps one range of c. `mean` and `control` must be the same range of their vectors.
  void Step(absl::Span<const float> mean, absl::Span<float> control) const;

 private:
  ControlVariate(float rate, float share) : rate_(rate), share_(share) {}

  float rate_;
  float share_;
};

}  // namespace atolld

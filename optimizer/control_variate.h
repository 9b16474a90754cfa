// The common control variate of SCAFFOLD: a buffer of the replicated state, as long as theta, that
// moves by the mean pseudo-gradient of each entry.
//
//   c = c + share * (rate * mean - c)
//
// (arXiv:1910.06378, algorithm 1 with option II.) There a party's own variate becomes
// c_i+ = c_i - c + (theta - y_i) / (K eta), and c moves by the mean of c_i+ - c_i over the round's
// |S| parties of N: c + (|S| / N) * mean(c_i+ - c_i). With d_i = theta - y_i that mean is
// -c + mean(d_i) / (K eta). So c needs nothing but the mean that the entry carries anyway, and two
// numbers: "control_rate", 1 over the sum of a round's learning rates (1 / (K eta)), and
// "control_share", |S| / N. Both stand in the entry's header. Where contributions have weights,
// c is the weighted mean of the c_i.
//
// Each operation is rounded to fp32 on its own, in the order written above: the same bits on every
// CPU. c begins as zeros. Pure function; any thread, disjoint ranges at once.
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
  // From an entry's scalars. NOT_FOUND: they have neither of the two. INVALID_ARGUMENT: one is
  // missing; the rate is not finite and above 0, or the share not above 0 and up to 1.
  static absl::StatusOr<ControlVariate> Make(const OuterScalars& scalars);

  float rate() const { return rate_; }
  float share() const { return share_; }

  // Steps one range: `mean` and `control` are the same range of their vectors, equally long.
  void Step(absl::Span<const float> mean, absl::Span<float> control) const;

 private:
  ControlVariate(float rate, float share) : rate_(rate), share_(share) {}

  float rate_;
  float share_;
};

}  // namespace atolld

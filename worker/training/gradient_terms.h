// What a federated rule adds to the gradient of each inner step.
//
// FedProx (Li et al., arXiv:1812.06127, equation 2): the loss gets mu / 2 |w - base|^2, so the
// gradient gets mu (w - base), before it is clipped. SCAFFOLD (Karimireddy et al.,
// arXiv:1910.06378, algorithm 1, option II): a step goes along g - c_i + c, where g is clipped
// first, since c_i is a mean of such g. After a round of steps with the rates r_k from x to y
//
//   c_i+ = c_i - c + (x - y) / sum of r_k
//
// which is the mean of the round's g, and K eta below the fraction where the rate is constant. The
// terms concern what peers exchange, the first values of the flat vector; personal tensors have no
// base. One thread.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

class GradientTerms {
 public:
  // INVALID_ARGUMENT: inner.proximal is negative or not finite, or control variates go with
  // another optimiser than sgd.
  static absl::Status Check(const v1::InnerSpec& inner);

  // `shared`: values that peers exchange. May throw what libtorch throws.
  GradientTerms(const v1::InnerSpec& inner, uint64_t shared, const at::Device& device);

  // Where the round began, moved by every rebase. Of no effect without FedProx.
  void SetBase(absl::Span<const float> base);

  // c - c_i. Of no effect without control variates; empty: zero.
  void SetControl(absl::Span<const float> common, absl::Span<const float> own);

  // Adds the terms in place. Both are flat on the device, of the whole vector.
  void Add(const at::Tensor& parameters, const at::Tensor& gradient) const;

 private:
  const double mu_, clip_;
  const bool controlled_;
  const int64_t shared_;
  at::Tensor base_, control_;  // on the device
  at::Tensor away_;            // scratch: parameters - base
};

// What is left for the optimiser to do: with control variates the clip is not its own.
v1::InnerSpec ForOptimizer(const v1::InnerSpec& inner);

// c_i+ as above, in place of `own`: `update` is x - y. A sum of rates of 0 leaves c_i as it is.
void UpdateControl(absl::Span<const float> common, absl::Span<const float> update, double rates,
                   absl::Span<float> own);

}  // namespace atolld

// The terms that a federated rule adds to the gradient of each inner step.
//
// FedProx (Li et al., arXiv:1812.06127, equation 2) adds mu / 2 |w - base|^2 to the loss, and so mu
// (w - base) to the gradient, before clipping. SCAFFOLD (Karimireddy et al., arXiv:1910.06378,
// algorithm 1, option II) steps along g - c_i + c, where g is clipped before the terms are added,
// because c_i is a mean of clipped gradients. After a round that moves the parameters from x to y
// by steps with the learning rates r_k,
//
//   c_i+ = c_i - c + (x - y) / sum of r_k
//
// which is the mean of the g of the round. If the rate eta is constant over K steps, the
// denominator is K eta. The terms apply only to the values that peers exchange, which come first in
// the flat vector, and not to personal tensors, nor to tensors that are not trained. Used by one
// thread.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "worker/base/trained_tensors.h"

namespace atolld {

class GradientTerms {
 public:
  // Fails with INVALID_ARGUMENT if inner.proximal is negative or not finite, or if control variates
  // are combined with an optimiser other than sgd.
  static absl::Status Check(const v1::InnerSpec& inner);

  // `shared` is the number of values that peers exchange. All of them are trained. May throw
  // libtorch's exceptions.
  GradientTerms(const v1::InnerSpec& inner, uint64_t shared, const at::Device& device);

  // Sets the tensors that are trained from now on. SetBase and SetControl must follow. May throw
  // libtorch's exceptions.
  void Train(const TrainedTensors& trained);

  // Sets `base`, the parameters at the start of the round. Call it again after every rebase. Has no
  // effect without FedProx.
  void SetBase(absl::Span<const float> base);

  // Sets c - c_i. Empty spans stand for zeros. Has no effect without control variates.
  void SetControl(absl::Span<const float> common, absl::Span<const float> own);

  // Adds the terms to `gradient` in place. Both tensors are flat and on the device. `parameters`
  // covers the whole vector, `gradient` the trained tensors.
  void Add(const at::Tensor& parameters, const at::Tensor& gradient) const;

 private:
  void Allocate(std::vector<TrainedTensors::Piece> pieces);

  const double mu_, clip_;
  const bool controlled_;
  const uint64_t shared_;
  const at::Device device_;
  // The exchanged values that are trained. The tensors below are on the device and have these.
  std::vector<TrainedTensors::Piece> pieces_;
  at::Tensor base_, control_;
  at::Tensor away_;  // Memory for parameters - base.
};

// Returns the spec for the optimiser. If the run has control variates, the optimiser's clipping is
// switched off in it, because GradientTerms clips.
v1::InnerSpec ForOptimizer(const v1::InnerSpec& inner);

// Replaces `own`, which is c_i, with c_i+ as defined above. `common` is c, and `update` is x - y.
// If `rates` (the sum of r_k) is 0, `own` does not change.
void UpdateControl(absl::Span<const float> common, absl::Span<const float> update, double rates,
                   absl::Span<float> own);

}  // namespace atolld

// PartyMean: the weighted mean of the updates that a peer's virtual parties have trained in a
// round. This mean is the peer's contribution to the round.
//
//   W = sum of w_i                 fp64, over the parties in ascending order
//   u = (sum of (c_i x d_i)) x f   each operation rounded to fp32 on its own, in that order
//   plain:       c_i = w_i,  f = 1 / W
//   normalised:  c_i = w_i / tau_i,  f = tau / W,  tau = (sum of tau_i) / parties
//
// If a w_i is too large or too small to be summed well in floats, w_i and W are counted in units of
// the largest WeightUnit so far; u does not depend on the unit.
//
// d_i is the pseudo-gradient of party i, w_i its weight (PartyWeight) and tau_i its inner steps;
// c_i and f are the fp32 numbers nearest to the fp64 quotients. The run's mean over its peers p is
// (sum of W_p u_p) / (sum of W_p), which is, by algebra, (sum over all parties of w_i d_i) / (sum
// of w_i): the mean of means of docs/protocol.md. The normalised form is FedNova (arXiv:2007.07481)
// inside the peer. The peer reports the sum of the steps and the number of parties, so all peers
// know tau, the average number of steps of a party. The run's own normalisation multiplies u_p by
// (the run's tau / the peer's tau), which gives every party's d_i / tau_i the weight w_i: FedNova's
// direction over all parties. Its length differs: the run's tau is the weighted mean of the peers'
// tau, whereas FedNova takes the weighted mean of the parties' steps. The two are not equal if,
// within a peer, parties with more steps have a larger weight.
//
// It takes the memory of at most two vectors, however many parties there are. Pure. Used by one
// thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace atolld {

class PartyMean {
 public:
  explicit PartyMean(bool normalised) : normalised_(normalised) {}

  // Adds the next party's update. `weight` must be finite and above 0, `steps` above 0 and `update`
  // finite; all updates must be equally long.
  void Add(double weight, uint32_t steps, absl::Span<const float> update);

  size_t parties() const { return parties_; }
  double weight() const { return weight_; }  // W
  uint64_t steps() const { return steps_; }  // The sum of the parties' steps.

  // Writes u into a span as long as the updates. At least one update must have been added.
  void Write(absl::Span<float> out) const;

 private:
  void UseUnit(double unit);

  const bool normalised_;
  double unit_ = 0;
  size_t parties_ = 0;
  double weight_ = 0;
  uint64_t steps_ = 0;
  std::vector<float> sum_;
};

}  // namespace atolld

// PartyMean: the weighted mean of what a peer's virtual parties have learned in a round, which is
// the peer's contribution to it.
//
//   W = sum of w_i                 fp64, over the parties in ascending order
//   u = (sum of (c_i x d_i)) x f   each operation rounded to fp32 on its own, in that order
//   plain:       c_i = w_i,  f = 1 / W
//   normalised:  c_i = w_i / tau_i,  f = tau / W,  tau = (sum of tau_i) / parties
//
// d_i is the pseudo-gradient of party i, w_i its weight (PartyWeight) and tau_i its inner steps;
// c_i and f are fp32 numbers next to the fp64 quotients. The run's mean over its peers p is
// (sum of W_p u_p) / (sum of W_p), which is, by algebra, (sum over all parties of w_i d_i) / (sum
// of w_i): the mean of means of docs/protocol.md. Normalised is FedNova (arXiv:2007.07481) inside
// the peer. The peer tells the sum of the steps and the number of parties, so tau, what a party
// does on average, is known to all. The run's own normalisation multiplies u_p by (the run's tau /
// the peer's tau), which gives every party's d_i / tau_i the weight w_i: FedNova's direction over
// all parties. Its length, the run's tau, is the weighted mean of the peers' tau, where FedNova has
// that of the parties'; the two differ where parties of one peer with more steps weigh more.
//
// Two vectors' worth of memory at most, however many parties there are. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace atolld {

class PartyMean {
 public:
  explicit PartyMean(bool normalised) : normalised_(normalised) {}

  // The next party's. `weight` is finite and above 0, `steps` above 0, `update` finite; all updates
  // are equally long.
  void Add(double weight, uint32_t steps, absl::Span<const float> update);

  size_t parties() const { return parties_; }
  double weight() const { return weight_; }  // W
  uint64_t steps() const { return steps_; }  // of all

  // u, into a span as long as the updates. At least one was added.
  void Write(absl::Span<float> out) const;

 private:
  const bool normalised_;
  size_t parties_ = 0;
  double weight_ = 0;
  uint64_t steps_ = 0;
  std::vector<float> sum_;
};

}  // namespace atolld

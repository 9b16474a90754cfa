// How much an update counts in its round's mean, and what of that a peer may claim.
//
// A weight is tokens trained on, and tokens are what a peer says. Two things bound a lie: it cannot
// have trained on more than the samples that it holds, and no update counts more than a few usual
// ones. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// An update's share in the mean: its tokens, less for every commit that it missed: tokens / (1 +
// 0.25 age).
float ContributionWeight(uint64_t tokens, uint32_t age);

// INVALID_ARGUMENT, with both numbers: more steps than its `samples` (as many as it holds) are
// batches for, or more tokens than those steps have. Of a run whose spec names no batch or no
// context, what it does not name is not checked.
absl::Status CheckClaims(const v1::RunSpec& spec, const v1::Ready& ready, uint64_t samples);

// Makes weights above `cap` x their median that bound; 0: leaves them. The median is the lower of
// two middle ones. Weights are finite and above 0; so are they afterwards.
void CapWeights(float cap, std::vector<float>* weights);

}  // namespace atolld

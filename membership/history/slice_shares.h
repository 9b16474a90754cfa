// The share of its mean by which each slice of adapters moves (ModelSpec.lora_slice).
//
// A peer that trains few slices changes the others by nothing, so in the average of what all peers
// have made of the adapters its zeros count too. The mean in the entry is over the peers that have
// trained the slice, and a replica multiplies it by
//
//   share = covering * (1 / (covering + absent))
//
// where `covering` is the sum of the weights of the chunk's set, and `absent` that of the
// contributors whose updates do not cover the slice, each added in roster order. Everything is in
// fp32 and rounded to nearest even on its own. Without the share, slices of different peers would
// add up where one slice's updates are averaged, and the adapters would move too far. Pure. May be
// called from any thread.
#pragma once

#include <vector>

#include "atoll/v1/run.pb.h"
#include "membership/history/fragment.h"

namespace atolld {

// Returns the share of each chunk of the entry, or nothing if the run's adapters have no slices,
// which means that all shares are 1. The header must have passed CheckHeader. A chunk that nobody
// has trained has a share of 0.
std::vector<float> SliceShares(const Fragments& fragments, const v1::EntryHeader& header);

}  // namespace atolld

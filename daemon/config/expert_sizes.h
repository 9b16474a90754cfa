// Expert sizes: how many values the shared part and each expert of a model have when peers own
// experts, as far as the model's description alone says it.
//
// The names and shapes of a decoder's tensors follow from its ModelSpec, so what a peer trains, and
// how long an entry is, can be said before any worker has started. Pure. May be called from any
// thread.
#pragma once

#include <cstdint>
#include <vector>

#include "atoll/v1/run.pb.h"

namespace atolld {

struct ExpertSizes {
  uint64_t shared = 0;            // the values that every peer trains
  std::vector<uint64_t> experts;  // the values of each expert, in the order of their numbers

  bool known() const { return !experts.empty(); }
  uint64_t OfExperts() const;  // the values of all experts together

  // Returns the number of values of an entry's vector, including its padding
  // (membership/experts/expert_parts.h).
  uint64_t Padded(uint64_t chunk_elements) const;
};

// Returns the sizes for a valid model of kind "llama" whose trained tensors have at least two
// experts by these patterns, or for one of Atoll's kinds whose adapters have slices, which are
// experts in this sense. Otherwise known() is false: no peer owns an expert, or the sizes follow
// from a file.
ExpertSizes ExpertSizesOf(const v1::ModelSpec& model, const v1::ExpertsSpec& experts);

// Returns the greatest share of the experts' values that a peer owns if there are this many peers,
// as a round begins: ceil(experts x owners / peers) / experts, and at most 1.
double OwnedShare(uint64_t experts, uint32_t owners, uint32_t peers);

}  // namespace atolld

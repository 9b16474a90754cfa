// Byte-pair merges: a word's tokens join, again and again, the adjacent pair of the lowest rank
// and the leftmost of equals, until no pair has one (Sennrich et al. 2016, arXiv:1508.07909).
// Immutable once all pairs are there; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace atolld {

class PairMerges {
 public:
  // The next rank: `left` and `right` become `joined`. Of a pair that comes again the later rank
  // counts, as in Hugging Face's table.
  void Add(uint32_t left, uint32_t right, uint32_t joined);

  // Appends what becomes of a word's first tokens, in O(n log n).
  void Join(const std::vector<uint32_t>& tokens, std::vector<uint32_t>* out) const;

 private:
  struct Merge {
    uint32_t rank = 0;
    uint32_t joined = 0;
  };

  const Merge* Find(uint32_t left, uint32_t right) const;

  absl::flat_hash_map<uint64_t, Merge> merges_;  // by left << 32 | right
  uint32_t ranks_ = 0;
};

}  // namespace atolld

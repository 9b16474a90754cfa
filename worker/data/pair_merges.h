// Byte-pair merges: of all pairs of adjacent tokens in a word, the pair with the lowest rank (the
// leftmost such pair) is joined, and this is repeated until no pair has a rank (Sennrich et al.
// 2016, arXiv:1508.07909). After all pairs have been added it is immutable, and may be used from
// any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace atolld {

class PairMerges {
 public:
  // Adds the pair `left`, `right`, which is joined to `joined`, with the next rank. If a pair is
  // added twice, its later rank counts, as in Hugging Face's table.
  void Add(uint32_t left, uint32_t right, uint32_t joined);

  // Joins the initial tokens of a word and appends the result to `out`. Takes time O(n log n).
  void Join(const std::vector<uint32_t>& tokens, std::vector<uint32_t>* out) const;

 private:
  struct Merge {
    uint32_t rank = 0;
    uint32_t joined = 0;
  };

  const Merge* Find(uint32_t left, uint32_t right) const;

  absl::flat_hash_map<uint64_t, Merge> merges_;  // The key is left << 32 | right.
  uint32_t ranks_ = 0;
};

}  // namespace atolld

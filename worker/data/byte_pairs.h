// Byte-pair merges: a word's bytes become tokens by joining, again and again, the adjacent pair of
// the lowest rank, the leftmost of equals (Sennrich et al. 2016). Immutable; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace atolld {

class BytePairs {
 public:
  // `of_byte`: the token of each byte.
  explicit BytePairs(const std::array<uint32_t, 256>& of_byte) : of_byte_(of_byte) {}

  // The next rank: `left` and `right` become `joined`. A pair that has a rank keeps it.
  void Add(uint32_t left, uint32_t right, uint32_t joined);

  // Appends the tokens of a word of any bytes, in O(n log n).
  void Encode(absl::string_view word, std::vector<uint32_t>* out) const;

 private:
  struct Merge {
    uint32_t rank = 0;
    uint32_t joined = 0;
  };

  const Merge* Find(uint32_t left, uint32_t right) const;

  std::array<uint32_t, 256> of_byte_;
  absl::flat_hash_map<uint64_t, Merge> merges_;  // by left << 32 | right
  uint32_t ranks_ = 0;
};

}  // namespace atolld

// MerkleTree: one digest over many items, and short proofs that an item is among them.
//
// Whoever signs the top can later show any one item with log2(items) digests instead of all items.
// The bottom level has one digest an item, as its maker hashed it. A node above two others is
// SHA-256(0x01 || left || right); the last node of a level of odd length goes up as it is. Items
// are hashed behind another byte (HashedItem), so that no node passes for an item. The top does not
// cover the number of items: whoever signs it signs that too. Pure, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "membership/history/sha256.h"

namespace atolld {

// SHA-256(0x00 || bytes).
Digest HashedItem(absl::string_view bytes);

class MerkleTree {
 public:
  MerkleTree() = default;
  // One digest an item, in order. Takes 64 bytes an item.
  explicit MerkleTree(std::vector<Digest> items);

  uint64_t items() const { return levels_.empty() ? 0 : levels_.front().size(); }
  const Digest& top() const { return levels_.back().front(); }  // there is an item

  // What proves this item: the neighbour of each node on the way to the top, from the bottom, 32
  // bytes each. There is such an item.
  std::string Path(uint64_t item) const;

 private:
  std::vector<std::vector<Digest>> levels_;  // the bottom first
};

// The top of the tree of `items` items that has this one in this place, by its path. Nothing: the
// path is not as long as any path there, or there is no such place.
std::optional<Digest> MerkleTop(const Digest& hashed, uint64_t item, uint64_t items,
                                absl::string_view path);

}  // namespace atolld

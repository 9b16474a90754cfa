// MerkleTree: one digest over many items, with short proofs that an item is among them.
//
// A peer that signs the top can later prove any single item with log2(items) digests, without
// showing the other items. The bottom level has one digest for each item, which the caller
// computes. A node above two others is SHA-256(0x01 || left || right); the last node of a level of
// odd length moves up unchanged. Items are hashed with another first byte (see HashedItem), so no
// node can be passed off as an item. The top does not cover the number of items, so a signature
// must cover both the top and the number. Pure. May be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "membership/history/sha256.h"

namespace atolld {

// Returns SHA-256(0x00 || bytes).
Digest HashedItem(absl::string_view bytes);

class MerkleTree {
 public:
  MerkleTree() = default;
  // Takes one digest for each item, in order. Needs 64 bytes of memory an item.
  explicit MerkleTree(std::vector<Digest> items);

  uint64_t items() const { return levels_.empty() ? 0 : levels_.front().size(); }
  const Digest& top() const { return levels_.back().front(); }  // requires at least one item

  // Returns the proof of this item, which must exist. The proof has the neighbours of the nodes on
  // the way from the item to the top, 32 bytes each.
  std::string Path(uint64_t item) const;

 private:
  std::vector<std::vector<Digest>> levels_;  // from the bottom to the top
};

// Computes the top of a tree of `items` items from one item, its place and its proof. Returns
// nullopt if the proof has the wrong length or there is no such place.
std::optional<Digest> MerkleTop(const Digest& hashed, uint64_t item, uint64_t items,
                                absl::string_view path);

}  // namespace atolld

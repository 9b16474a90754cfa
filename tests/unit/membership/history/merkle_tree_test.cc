#include "membership/history/merkle_tree.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace atolld {
namespace {

std::vector<Digest> Items(uint64_t count) {
  std::vector<Digest> items;
  for (uint64_t i = 0; i < count; ++i) items.push_back(HashedItem(absl::StrCat("item ", i)));
  return items;
}

// RFC 6962, section 2.1: split at the largest power of two below the number of items.
Digest TopByDefinition(const std::vector<Digest>& items) {
  if (items.size() == 1) return items[0];
  size_t half = 1;
  while (half * 2 < items.size()) half *= 2;
  const Digest left = TopByDefinition({items.begin(), items.begin() + static_cast<long>(half)});
  const Digest right = TopByDefinition({items.begin() + static_cast<long>(half), items.end()});
  std::vector<uint8_t> bytes = {1};
  bytes.insert(bytes.end(), left.begin(), left.end());
  bytes.insert(bytes.end(), right.begin(), right.end());
  return Sha256(bytes);
}

// Would break: another program could not check what a contributor has signed.
TEST(MerkleTree, IsTheTreeOfRfc6962) {
  for (uint64_t count = 1; count <= 33; ++count) {
    EXPECT_EQ(MerkleTree(Items(count)).top(), TopByDefinition(Items(count))) << count;
  }
}

// Would break: what was signed could not be shown, or what was not signed could.
TEST(MerkleTree, ProvesEachItemInItsPlaceAndNothingElse) {
  for (const uint64_t count : {1u, 2u, 3u, 7u, 8u, 100u}) {
    const std::vector<Digest> items = Items(count);
    const MerkleTree tree(items);
    for (uint64_t i = 0; i < count; ++i) {
      const std::string path = tree.Path(i);
      EXPECT_EQ(MerkleTop(items[i], i, count, path), std::optional<Digest>(tree.top()));
      EXPECT_NE(MerkleTop(HashedItem("forged"), i, count, path), std::optional<Digest>(tree.top()));
      EXPECT_EQ(MerkleTop(items[i], i, count, path + std::string(32, 'x')), std::nullopt);
      EXPECT_EQ(MerkleTop(items[i], count, count, path), std::nullopt);
      if (path.empty()) continue;
      EXPECT_EQ(MerkleTop(items[i], i, count, path.substr(1)), std::nullopt);
      EXPECT_NE(MerkleTop(items[i], i ^ 1, count, path), std::optional<Digest>(tree.top()));
      std::string bent = path;
      bent[path.size() / 2] = static_cast<char>(bent[path.size() / 2] ^ 1);
      EXPECT_NE(MerkleTop(items[i], i, count, bent), std::optional<Digest>(tree.top()));
    }
  }
}

// Would break: a node of the tree could be shown as an item that nobody has signed.
TEST(MerkleTree, NoNodePassesForAnItem) {
  const std::vector<Digest> items = Items(4);
  const MerkleTree tree(items);
  std::string node(items[0].begin(), items[0].end());
  node.append(items[1].begin(), items[1].end());
  EXPECT_NE(MerkleTop(HashedItem(node), 0, 2, tree.Path(0).substr(32)),
            std::optional<Digest>(tree.top()));
}

}  // namespace
}  // namespace atolld

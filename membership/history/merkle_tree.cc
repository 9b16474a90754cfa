#include "membership/history/merkle_tree.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/types/span.h"

namespace atolld {
namespace {

constexpr uint8_t kItem = 0;
constexpr uint8_t kNode = 1;

using NodeBytes = std::array<uint8_t, 1 + 2 * kDigestBytes>;

NodeBytes Over(const Digest& left, const Digest& right) {
  NodeBytes bytes;
  bytes[0] = kNode;
  std::copy(left.begin(), left.end(), bytes.begin() + 1);
  std::copy(right.begin(), right.end(), bytes.begin() + 1 + kDigestBytes);
  return bytes;
}

std::vector<Digest> LevelAbove(const std::vector<Digest>& level) {
  std::vector<NodeBytes> nodes;
  nodes.reserve(level.size() / 2);
  for (size_t i = 0; i + 1 < level.size(); i += 2) nodes.push_back(Over(level[i], level[i + 1]));
  const std::vector<absl::Span<const uint8_t>> pieces(nodes.begin(), nodes.end());
  std::vector<Digest> above = Sha256Each(pieces);
  if (level.size() % 2 == 1) above.push_back(level.back());
  return above;
}

}  // namespace

Digest HashedItem(absl::string_view bytes) {
  std::vector<uint8_t> marked(1 + bytes.size(), kItem);
  std::copy(bytes.begin(), bytes.end(), marked.begin() + 1);
  return Sha256(marked);
}

MerkleTree::MerkleTree(std::vector<Digest> items) {
  if (items.empty()) return;
  levels_.push_back(std::move(items));
  while (levels_.back().size() > 1) levels_.push_back(LevelAbove(levels_.back()));
}

std::string MerkleTree::Path(uint64_t item) const {
  std::string path;
  for (const std::vector<Digest>& level : levels_) {
    const uint64_t neighbour = item ^ 1;
    if (neighbour < level.size()) path.append(level[neighbour].begin(), level[neighbour].end());
    item /= 2;
  }
  return path;
}

std::optional<Digest> MerkleTop(const Digest& hashed, uint64_t item, uint64_t items,
                                absl::string_view path) {
  if (item >= items) return std::nullopt;
  Digest node = hashed;
  for (uint64_t length = items; length > 1; length = (length + 1) / 2) {
    if ((item ^ 1) < length) {
      if (path.size() < kDigestBytes) return std::nullopt;
      Digest neighbour;
      std::memcpy(neighbour.data(), path.data(), kDigestBytes);
      path.remove_prefix(kDigestBytes);
      node = Sha256(item % 2 == 0 ? Over(node, neighbour) : Over(neighbour, node));
    }
    item /= 2;
  }
  return path.empty() ? std::optional<Digest>(node) : std::nullopt;
}

}  // namespace atolld

#include "worker/data/pair_merges.h"

#include <algorithm>
#include <functional>
#include <tuple>

namespace atolld {
namespace {

constexpr uint32_t kNobody = 0xffffffff;

uint64_t KeyOfPair(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

// A token of the word so far, in a list ordered by the position of its first symbol.
struct Symbol {
  uint32_t token;
  uint32_t before, after;  // kNobody: the end
};

struct Candidate {
  uint32_t rank;
  uint32_t left, right;  // positions
  uint32_t left_token, right_token, joined;

  bool operator>(const Candidate& other) const {
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

}  // namespace

void PairMerges::Add(uint32_t left, uint32_t right, uint32_t joined) {
  merges_.insert_or_assign(KeyOfPair(left, right), Merge{ranks_++, joined});
}

const PairMerges::Merge* PairMerges::Find(uint32_t left, uint32_t right) const {
  const auto found = merges_.find(KeyOfPair(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void PairMerges::Join(const std::vector<uint32_t>& tokens, std::vector<uint32_t>* out) const {
  const auto size = static_cast<uint32_t>(tokens.size());
  std::vector<Symbol> symbols;
  symbols.reserve(size);
  for (uint32_t i = 0; i < size; ++i) {
    symbols.push_back({tokens[i], i == 0 ? kNobody : i - 1, i + 1 == size ? kNobody : i + 1});
  }
  std::vector<Candidate> heap;
  const auto consider = [&](uint32_t left, uint32_t right) {
    if (left == kNobody || right == kNobody) return;
    const Merge* merge = Find(symbols[left].token, symbols[right].token);
    if (merge == nullptr) return;
    heap.push_back(
        {merge->rank, left, right, symbols[left].token, symbols[right].token, merge->joined});
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (uint32_t i = 0; i + 1 < size; ++i) consider(i, i + 1);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const Candidate best = heap.back();
    heap.pop_back();
    Symbol& left = symbols[best.left];
    Symbol& right = symbols[best.right];
    // One of the two has been joined to another since.
    if (left.token != best.left_token || left.after != best.right ||
        right.token != best.right_token) {
      continue;
    }
    left.token = best.joined;
    left.after = right.after;
    right.token = kNobody;
    if (left.after != kNobody) symbols[left.after].before = best.left;
    consider(left.before, best.left);
    consider(best.left, left.after);
  }
  for (uint32_t i = 0; i != kNobody && i < size; i = symbols[i].after) {
    out->push_back(symbols[i].token);
  }
}

}  // namespace atolld

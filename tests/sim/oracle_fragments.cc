#include "tests/sim/oracle_fragments.h"

#include <algorithm>
#include <string>

namespace atolld {
namespace {

constexpr size_t kPage = 4096;

struct Stretch {
  size_t first = 0;
  size_t count = 0;
  size_t owner = 0;
};

std::string LayerName(const std::string& tensor) {
  std::string name;
  std::string word;
  for (const char c : tensor + ".") {
    if (c != '.') {
      word += c;
      continue;
    }
    name += word;
    if (!word.empty() && word.find_first_not_of("0123456789") == std::string::npos) return name;
    name += '.';
    word.clear();
  }
  return tensor;
}

std::vector<size_t> SizesOf(const std::vector<Stretch>& stretches, size_t fragments) {
  std::vector<size_t> sizes(fragments, 0);
  for (const Stretch& one : stretches) sizes[one.owner] += one.count;
  return sizes;
}

// Makes one move from the largest to the smallest; returns false if no move is left.
bool Level(std::vector<Stretch>* stretches, size_t fragments, size_t mean) {
  const std::vector<size_t> sizes = SizesOf(*stretches, fragments);
  size_t from = 0;
  size_t to = 0;
  for (size_t i = 1; i < fragments; ++i) {
    if (sizes[i] > sizes[from]) from = i;
    if (sizes[i] < sizes[to]) to = i;
  }
  if (sizes[to] > 0 && sizes[from] <= mean + mean / 16) return false;
  if (sizes[from] <= mean || sizes[to] >= mean) return false;
  const size_t wanted = std::min(sizes[from] - mean, mean - sizes[to]);
  Stretch* whole = nullptr;
  Stretch* largest = nullptr;
  for (Stretch& one : *stretches) {  // by place, so the first of equal ones stays
    if (one.owner != from) continue;
    if (largest == nullptr || one.count > largest->count) largest = &one;
    if (one.count > wanted) continue;
    if (whole == nullptr || one.count > whole->count) whole = &one;
  }
  if (whole != nullptr) {
    whole->owner = to;
    return true;
  }
  const size_t cut = wanted - wanted % kPage;
  if (cut == 0) return false;
  largest->count -= cut;
  stretches->push_back({largest->first + largest->count, cut, to});
  std::sort(stretches->begin(), stretches->end(),
            [](const Stretch& a, const Stretch& b) { return a.first < b.first; });
  return true;
}

}  // namespace

std::vector<std::vector<size_t>> OracleFragments(const v1::RunSpec& spec,
                                                 const v1::Manifest& manifest) {
  const size_t fragments = spec.mode().kind() == "streaming" ? spec.mode().fragments() : 1;
  if (fragments < 2) return {};
  std::vector<std::string> layers;
  std::vector<Stretch> stretches;
  size_t total = 0;
  for (const v1::Tensor& tensor : manifest.tensors()) {
    size_t size = 1;
    for (const uint64_t dimension : tensor.shape()) size *= dimension;
    const std::string name = LayerName(tensor.name());
    const auto known = std::find(layers.begin(), layers.end(), name);
    const auto layer = static_cast<size_t>(known - layers.begin());
    if (known == layers.end()) layers.push_back(name);
    stretches.push_back({tensor.offset(), size, layer % fragments});
    total += size;
  }
  while (Level(&stretches, fragments, total / fragments)) continue;
  std::vector<std::vector<size_t>> places(fragments);
  for (const Stretch& one : stretches) {
    for (size_t i = 0; i < one.count; ++i) places[one.owner].push_back(one.first + i);
  }
  for (std::vector<size_t>& one : places) std::sort(one.begin(), one.end());
  return places;
}

}  // namespace atolld

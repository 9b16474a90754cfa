#include "tests/sim/oracle_fragments.h"

#include <algorithm>
#include <cstdint>
#include <map>
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

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Returns true if the rest of the name, from `at` on, fits the pattern, and sets `number` to what
// its "#" stands for.
bool Fits(const std::string& pattern, const std::string& name, size_t at, std::string* number) {
  if (pattern.empty()) return at == name.size();
  const std::string rest = pattern.substr(1);
  if (pattern[0] == '*') {
    for (size_t next = at; next <= name.size(); ++next) {
      if (Fits(rest, name, next, number)) return true;
    }
    return false;
  }
  if (pattern[0] != '#') {
    return at < name.size() && name[at] == pattern[0] && Fits(rest, name, at + 1, number);
  }
  size_t end = at;
  while (end < name.size() && IsDigit(name[end])) ++end;
  const bool inside = at > 0 && IsDigit(name[at - 1]);
  if (end == at || inside || !Fits(rest, name, end, number)) return false;
  *number = name.substr(at, end - at);
  return true;
}

// Returns the positions of the values of each part.
std::vector<std::vector<size_t>> PlacesOfParts(const v1::RunSpec& spec,
                                               const v1::Manifest& manifest) {
  std::map<int64_t, std::vector<size_t>> parts = {{-1, {}}};  // by the expert's number
  for (const v1::Tensor& tensor : manifest.tensors()) {
    int64_t part = -1;
    for (const std::string& pattern : spec.experts().tensors()) {
      std::string number;
      if (part < 0 && Fits(pattern, tensor.name(), 0, &number)) part = std::stoll(number);
    }
    size_t size = 1;
    for (const uint64_t dimension : tensor.shape()) size *= dimension;
    for (size_t i = 0; i < size; ++i) parts[part].push_back(tensor.offset() + i);
  }
  std::vector<std::vector<size_t>> places;
  for (const auto& [number, values] : parts) places.push_back(values);
  return places;
}

size_t ChunksOf(const v1::RunSpec& spec, size_t values) {
  const size_t chunk = spec.exchange().chunk_elements();
  return (values + chunk - 1) / chunk;
}

}  // namespace

std::vector<size_t> OracleParts(const v1::RunSpec& spec, const v1::Manifest& manifest) {
  std::vector<size_t> parts;
  if (spec.experts().tensors().empty()) return parts;
  const std::vector<std::vector<size_t>> places = PlacesOfParts(spec, manifest);
  for (size_t part = 0; part < places.size(); ++part) {
    parts.insert(parts.end(), ChunksOf(spec, places[part].size()), part);
  }
  return parts;
}

std::vector<std::vector<size_t>> OracleFragments(const v1::RunSpec& spec,
                                                 const v1::Manifest& manifest) {
  if (!spec.experts().tensors().empty()) {
    std::vector<size_t> entry;
    for (const std::vector<size_t>& part : PlacesOfParts(spec, manifest)) {
      entry.resize(ChunksOf(spec, entry.size()) * spec.exchange().chunk_elements(), kNoPlace);
      entry.insert(entry.end(), part.begin(), part.end());
    }
    return {entry};
  }
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

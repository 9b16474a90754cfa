#include "worker/stub/stub_model.h"

#include <algorithm>
#include <cstddef>

namespace atolld {
namespace {

// Values a block: its indices fit 32 bits whatever the vector's size, and its sums stay exact
// enough in fp32 lanes.
constexpr size_t kBlock = 4096;

constexpr uint32_t kTargetKey = 0x55555555;

// The key of a noise is spread over all bits, so that neighbouring keys differ everywhere.
uint32_t Spread(uint64_t key) {
  key *= 0x9e3779b97f4a7c15;
  return static_cast<uint32_t>(key >> 32) | 1;
}

// A hash to a float in [-1, 1). Not a good random number: a cheap one, since it is drawn for every
// parameter in every round. The product with the index is a sum in a loop, and shifts are what
// every vector unit has.
inline float Draw(uint32_t index, uint32_t key) {
  uint32_t x = index * 0x9e3779b1u + key;
  x ^= x >> 15;
  x += x << 7;
  x ^= x >> 11;
  x += x << 10;
  return static_cast<float>(static_cast<int32_t>(x)) * 0x1p-31f;
}

inline float Target(uint32_t index) { return 2 * Draw(index, kTargetKey); }

}  // namespace

float StubTarget(uint64_t i) { return Target(static_cast<uint32_t>(i)); }

void FillStubParameters(uint64_t seed, absl::Span<float> parameters) {
  const uint32_t key = Spread(seed);
  for (size_t begin = 0; begin < parameters.size(); begin += kBlock) {
    const size_t size = std::min(kBlock, parameters.size() - begin);
    const auto base = static_cast<uint32_t>(begin);
    float* const out = parameters.data() + begin;
    for (uint32_t j = 0; j < size; ++j) out[j] = 0.5f * Draw(base + j, key);
  }
}

void FillStubUpdate(absl::Span<const float> theta, uint64_t data, absl::Span<float> update) {
  const uint32_t key = Spread(data);
  for (size_t begin = 0; begin < update.size(); begin += kBlock) {
    const size_t size = std::min(kBlock, update.size() - begin);
    const auto base = static_cast<uint32_t>(begin);
    const float* const in = theta.data() + begin;
    float* const out = update.data() + begin;
    for (uint32_t j = 0; j < size; ++j) {
      out[j] = 0.3f * (in[j] - Target(base + j)) + 0.005f * Draw(base + j, key);
    }
  }
}

double StubSquaredDistance(absl::Span<const float> theta, uint64_t first) {
  constexpr size_t kLanes = 8;  // sums of their own, so that the compiler may keep them in vectors
  double sum = 0;
  for (size_t begin = 0; begin < theta.size(); begin += kBlock) {
    const size_t size = std::min(kBlock, theta.size() - begin);
    const auto base = static_cast<uint32_t>(first + begin);
    const float* const in = theta.data() + begin;
    float lanes[kLanes] = {};
    size_t j = 0;
    for (; j + kLanes <= size; j += kLanes) {
      for (uint32_t k = 0; k < kLanes; ++k) {
        const float distance = in[j + k] - Target(base + static_cast<uint32_t>(j) + k);
        lanes[k] += distance * distance;
      }
    }
    for (; j < size; ++j) {
      const float distance = in[j] - Target(base + static_cast<uint32_t>(j));
      lanes[0] += distance * distance;
    }
    for (const float lane : lanes) sum += static_cast<double>(lane);
  }
  return sum;
}

}  // namespace atolld

// Inputs for the codec tests. They are the same on every machine, because they are made with
// integer arithmetic and powers of two, without libm.
#pragma once

#include <openssl/sha.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace atolld {

// The generator xorshift64* (Vigna 2016).
class TestRandom {
 public:
  explicit TestRandom(uint64_t seed) : state_(seed * 2 + 1) {}
  uint32_t Next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<uint32_t>((state_ * 0x2545f4914f6cdd1d) >> 32);
  }

 private:
  uint64_t state_;
};

inline float FloatFromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Returns finite floats in which all bit patterns are equally likely, so that they include all
// magnitudes, denormals and both zeros.
inline std::vector<float> AnyFiniteValues(size_t elements, uint64_t seed) {
  TestRandom random(seed);
  std::vector<float> values(elements);
  for (float& value : values) {
    uint32_t bits = random.Next();
    if ((bits & 0x7f800000) == 0x7f800000) bits ^= 0x40000000;
    value = FloatFromBits(bits);
  }
  return values;
}

// Returns bell-shaped values (sums of four uniform ones). Each group of 64 values is scaled by its
// own power of two, from 2^-20 to 2^-5.
inline std::vector<float> BellValues(size_t elements, uint64_t seed) {
  TestRandom random(seed);
  std::vector<float> values(elements);
  float unit = 0;
  for (size_t i = 0; i < elements; ++i) {
    if (i % 64 == 0) unit = FloatFromBits((107 + random.Next() % 16) << 23);
    int32_t sum = 0;
    for (int k = 0; k < 4; ++k) sum += static_cast<int32_t>(random.Next() >> 11) - (1 << 20);
    values[i] = static_cast<float>(sum) * 0x1p-20f * unit;
  }
  return values;
}

inline std::string Sha256Hex(const void* data, size_t size) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(static_cast<const unsigned char*>(data), size, digest);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), sizeof(digest)));
}

inline bool SameBits(absl::Span<const float> a, absl::Span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace atolld

// Privacy noise: before any other peer sees a party's update, the party scales it down to a length
// and adds Gaussian noise.
//
// The noise is computed only from a secret key, which the caller draws from the operating system,
// uses once and forgets. AES-256 in counter mode from counter 0 gives a stream of bytes, which are
// read as 64-bit little-endian numbers x. Two such numbers give
//   u = (floor(x1 / 2^11) + 1) / 2^53,  v = floor(x2 / 2^11) / 2^53
//   r = sqrt(-2 ln u);  r cos(2 pi v) and r sin(2 pi v)
// These are two independent draws (Box and Muller, "A Note on the Generation of Random Normal
// Deviates", 1958), in fp64. No draw exceeds 8.57 standard deviations; a normal distribution
// exceeds them with probability 1e-17. Logarithm and cosine differ in their last bit from one C
// library to another. This does no harm, because no other machine ever has to compute the same
// noise.
//
// A NoiseStream is used by one thread. May be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace atolld {

inline constexpr size_t kNoiseKeyBytes = 32;

class NoiseStream {
 public:
  explicit NoiseStream(absl::string_view key);  // the key has kNoiseKeyBytes bytes
  ~NoiseStream();

  NoiseStream(const NoiseStream&) = delete;
  NoiseStream& operator=(const NoiseStream&) = delete;

  double Next();  // returns a normally distributed number with mean 0 and deviation 1

 private:
  struct Cipher;

  uint64_t NextNumber();

  const std::unique_ptr<Cipher> cipher_;
  std::vector<uint8_t> bytes_;
  size_t used_;
  bool has_second_ = false;
  double second_ = 0;
};

// Returns the length: the square root of the sum of squares, added in fp64 in the order of the
// values.
double LengthOf(absl::Span<const float> update);

// Scales an update that is longer than `length` down to at most `length`, and returns true if it
// was longer. The factor is length / LengthOf(update), less 2^-22 of it so that rounding to fp32
// cannot make the result too long. An update that is not finite does not change.
bool ClipUpdate(absl::Span<float> update, double length);

// Sets each value to fp32(value + deviation * draw), with a new draw for each value.
void AddNoise(NoiseStream& noise, double deviation, absl::Span<float> update);

}  // namespace atolld

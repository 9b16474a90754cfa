// What a party does to its update before anybody else sees it: scales it down to a length, and adds
// Gaussian noise.
//
// The noise comes from a secret key alone, which whoever asks for noise draws from the operating
// system, uses once and forgets: AES-256 in counter mode
// from counter 0 gives a stream of bytes, which are read as 64-bit little-endian numbers x. Of two
// of them,
//   u = (floor(x1 / 2^11) + 1) / 2^53,  v = floor(x2 / 2^11) / 2^53
//   r = sqrt(-2 ln u);  r cos(2 pi v) and r sin(2 pi v)
// are two independent draws (Box and Muller, "A Note on the Generation of Random Normal Deviates",
// 1958), in fp64. They end at 8.57 standard deviations, beyond which 1e-17 of a normal distribution
// lies. Logarithm and cosine differ in their last bit from one C library to another: nobody else
// ever draws the same noise again, so no replica depends on it.
//
// NoiseStream: one thread. The functions: any.
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
  explicit NoiseStream(absl::string_view key);  // of kNoiseKeyBytes
  ~NoiseStream();

  NoiseStream(const NoiseStream&) = delete;
  NoiseStream& operator=(const NoiseStream&) = delete;

  double Next();  // of a normal distribution with mean 0 and standard deviation 1

 private:
  struct Cipher;

  uint64_t NextNumber();

  const std::unique_ptr<Cipher> cipher_;
  std::vector<uint8_t> bytes_;
  size_t used_;
  bool has_second_ = false;
  double second_ = 0;
};

// The square root of the sum of squares, in fp64, in the order of the values.
double LengthOf(absl::Span<const float> update);

// Scales the update down so that it is no longer than `length`: by length / LengthOf(update), less
// 2^-22 of it, which is more than rounding to fp32 can add. True if it was longer. One that is not
// finite stays as it is.
bool ClipUpdate(absl::Span<float> update, double length);

// value = fp32(value + deviation * draw), one draw a value.
void AddNoise(NoiseStream& noise, double deviation, absl::Span<float> update);

}  // namespace atolld

// The measurements of `atoll bench codec`: how fast a codec is compared with memcpy of the same
// floats, and how exact it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compression/wire_codec.h"

namespace atolld {

struct CodecBenchmark {
  std::string codec;
  size_t elements = 0;
  // The speed on one thread, in gigabytes (1e9 bytes) of fp32 values a second, as the median of the
  // repeats. If the codec uses zstd, the time that zstd takes is counted.
  double encode_gb_per_s = 0;
  double decode_gb_per_s = 0;
  double memcpy_gb_per_s = 0;
  size_t bytes = 0;           // the encoded size on the wire
  double relative_error = 0;  // ||decoded - values|| / ||values||
};

// Returns random values with a standard normal distribution. The same seed gives the same values.
std::vector<float> GaussianValues(size_t elements, uint64_t seed);

// Measures the codec on Gaussian values. Encoding, decoding and memcpy are timed one after another
// in each repeat, so that a change of the machine's speed affects all three. `seconds` returns the
// time of a monotonic clock; the function reads no other clock. It needs up to 12 bytes of memory
// an element in addition to the memory of zstd. Fails with INVALID_ARGUMENT if `elements` or
// `repeats` is 0.
absl::StatusOr<CodecBenchmark> MeasureCodec(const WireCodec& codec, size_t elements, int repeats,
                                            const std::function<double()>& seconds);

}  // namespace atolld

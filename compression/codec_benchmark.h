// The measuring core of `atoll bench codec`: how fast a codec is against memcpy on the same floats,
// and how exact.
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
  // Gigabytes (1e9) of fp32 values a second, one thread, the median of the repeats. zstd, if on, is
  // counted in.
  double encode_gb_per_s = 0;
  double decode_gb_per_s = 0;
  double memcpy_gb_per_s = 0;
  size_t bytes = 0;           // on the wire
  double relative_error = 0;  // ||decoded - values|| / ||values||
};

// Standard normal values, the same for the same seed.
std::vector<float> GaussianValues(size_t elements, uint64_t seed);

// Measures on Gaussian values. The three are timed in turn within each repeat, so that a change of
// the machine's speed meets all. `seconds` is a monotonic clock; nothing here reads one by itself.
// Takes up to 12 bytes of memory an element, zstd aside. INVALID_ARGUMENT if `elements` or
// `repeats` is 0.
absl::StatusOr<CodecBenchmark> MeasureCodec(const WireCodec& codec, size_t elements, int repeats,
                                            const std::function<double()>& seconds);

}  // namespace atolld

#include "tests/unit/compression/int8_reference.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstring>

namespace atolld {
namespace {

constexpr size_t kBlock = 256;

// The largest scale whose 127-fold is finite, found by stepping down from what division gives.
float LargestScale() {
  float scale = FLT_MAX / 127.0f;
  while (std::isinf(127.0f * scale)) scale = std::nextafter(scale, 0.0f);
  return scale;
}

}  // namespace

std::vector<uint8_t> ReferenceInt8Encode(absl::Span<const float> values) {
  const size_t blocks = (values.size() + kBlock - 1) / kBlock;
  std::vector<uint8_t> bytes(blocks * 4 + values.size());
  for (size_t block = 0; block < blocks; ++block) {
    const size_t begin = block * kBlock;
    const size_t end = std::min(begin + kBlock, values.size());
    float absmax = 0;
    for (size_t i = begin; i < end; ++i) absmax = std::max(absmax, std::fabs(values[i]));
    float scale = std::min(absmax / 127.0f, LargestScale());
    if (scale < std::ldexp(1.0f, -100)) scale = 0;
    uint32_t bits;
    std::memcpy(&bits, &scale, sizeof(bits));
    for (size_t i = 0; i < 4; ++i) bytes[block * 4 + i] = static_cast<uint8_t>(bits >> (8 * i));
    for (size_t i = begin; i < end; ++i) {
      long code = 0;
      if (scale != 0) {
        const float inverse = 1.0f / scale;
        const float scaled = values[i] * inverse;
        code = std::lrint(scaled);  // ties to even in the default rounding mode
      }
      bytes[blocks * 4 + i] = static_cast<uint8_t>(code);
    }
  }
  return bytes;
}

std::vector<float> ReferenceInt8Decode(absl::Span<const uint8_t> bytes, size_t elements) {
  const size_t blocks = (elements + kBlock - 1) / kBlock;
  std::vector<float> values(elements);
  for (size_t i = 0; i < elements; ++i) {
    const uint8_t* at = bytes.data() + i / kBlock * 4;
    const uint32_t bits = at[0] | at[1] << 8 | at[2] << 16 | static_cast<uint32_t>(at[3]) << 24;
    float scale;
    std::memcpy(&scale, &bits, sizeof(scale));
    const int code =
        bytes[blocks * 4 + i] < 128 ? bytes[blocks * 4 + i] : bytes[blocks * 4 + i] - 256;
    values[i] = static_cast<float>(code) * scale;
  }
  return values;
}

}  // namespace atolld

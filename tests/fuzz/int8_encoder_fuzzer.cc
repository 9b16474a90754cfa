// Encodes any floats with the int8 encoder: it refuses, or gives the same decodable bytes on every
// target, near the values.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "compression/scaled_codecs.h"
#include "tests/fuzz/decoder_laws.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace atolld;
  const Int8Codec codec;
  std::vector<float> values(size / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), data, values.size() * sizeof(float));
  const bool finite =
      std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
  std::vector<uint8_t> first;
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget pinned(target);
    std::vector<uint8_t> bytes(codec.MaxEncodedBytes(values.size()));
    Require(codec.Encode(values, absl::MakeSpan(bytes)).ok() == finite,
            "exactly finite values are encoded");
    if (!finite) continue;
    Require(first.empty() || bytes == first, "all targets encode the same bytes");
    first = bytes;
    std::vector<float> decoded(values.size());
    Require(codec.Decode(bytes, absl::MakeSpan(decoded)).ok(), "what was encoded is decoded");
    for (size_t begin = 0; begin < values.size(); begin += kInt8BlockElements) {
      const size_t end = std::min(begin + kInt8BlockElements, values.size());
      double absmax = 0;
      for (size_t i = begin; i < end; ++i)
        absmax = std::max(absmax, std::fabs(static_cast<double>(values[i])));
      const double bound = std::max(absmax / 127 * 0.5001, 127 * 0x1p-100);
      for (size_t i = begin; i < end; ++i) {
        Require(std::fabs(static_cast<double>(decoded[i]) - values[i]) <= bound,
                "within half a scale");
      }
    }
  }
  return 0;
}

// Encodes any floats with the encoders of the codec that the environment names in
// ATOLL_FUZZED_CODEC: they refuse, or give bytes that decode to finite values, the same on every
// target.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "compression/codec.h"
#include "tests/fuzz/decoder_laws.h"

namespace atolld {
namespace {

enum class Way { kUpdate, kMean, kStochastic };

absl::StatusOr<size_t> Encode(const Codec& codec, Way way, const std::vector<float>& values,
                              std::vector<uint8_t>* bytes) {
  switch (way) {
    case Way::kUpdate:
      return codec.Encode(values, absl::MakeSpan(*bytes));
    case Way::kMean:
      return codec.EncodeMean(values, absl::MakeSpan(*bytes));
    case Way::kStochastic:
      return codec.EncodeStochastic(values, values.size(), absl::MakeSpan(*bytes));
  }
  return 0;
}

void CheckEncoder(const Codec& codec, Way way, const std::vector<float>& values) {
  const bool finite =
      std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
  std::vector<uint8_t> first;
  for (const std::string& target : SimdTargetNames()) {
    const ScopedSimdTarget pinned(target);
    std::vector<uint8_t> bytes(codec.MaxEncodedBytes(values.size()));
    const absl::StatusOr<size_t> used = Encode(codec, way, values, &bytes);
    Require(used.ok() == finite, "exactly finite values are encoded");
    if (!finite) continue;
    Require(*used <= bytes.size(), "no more bytes than promised");
    bytes.resize(*used);
    Require(first.empty() || bytes == first, "all targets encode the same bytes");
    first = bytes;
    std::vector<float> decoded(values.size());
    Require(codec.Decode(bytes, absl::MakeSpan(decoded)).ok(), "what was encoded is decoded");
    for (const float value : decoded) Require(std::isfinite(value), "decoded values are finite");
  }
}

}  // namespace
}  // namespace atolld

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace atolld;
  static const Codec& codec = FuzzedCodec();
  std::vector<float> values(size / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), data, values.size() * sizeof(float));
  CheckEncoder(codec, Way::kUpdate, values);
  CheckEncoder(codec, Way::kMean, values);
  if (codec.has_stochastic_rounding()) CheckEncoder(codec, Way::kStochastic, values);
  return 0;
}

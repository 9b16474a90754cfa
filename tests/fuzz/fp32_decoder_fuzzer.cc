// Any bytes as an fp32 chunk of the shape that fits their length, or of one value more.
#include <cstddef>
#include <cstdint>

#include "compression/fp32_codec.h"
#include "tests/fuzz/decoder_laws.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace atolld;
  if (size == 0) return 0;
  const absl::Span<const uint8_t> bytes(data + 1, size - 1);
  CheckDecoderLaws(Fp32Codec(), bytes, bytes.size() / sizeof(float) + data[0] % 2);
  return 0;
}

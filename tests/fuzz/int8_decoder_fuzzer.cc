// Any bytes as an int8 chunk: of the shape that fits their length, or (odd first byte) of another.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "compression/int8_codec.h"
#include "tests/fuzz/decoder_laws.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace atolld;
  if (size == 0) return 0;
  const absl::Span<const uint8_t> bytes(data + 1, size - 1);
  const size_t block_bytes = kInt8BlockElements + sizeof(float);
  const size_t blocks = (bytes.size() + block_bytes - 1) / block_bytes;
  size_t elements = bytes.size() - std::min(bytes.size(), blocks * sizeof(float));
  if (data[0] % 2 == 1) elements += data[0] / 2;
  CheckDecoderLaws(Int8Codec(), bytes, elements);
  return 0;
}

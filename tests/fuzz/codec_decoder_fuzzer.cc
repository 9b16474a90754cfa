// Decodes any bytes as a chunk of the codec that the environment names in ATOLL_FUZZED_CODEC, with
// the number of values from the first two bytes or the most that fit the rest, and also damaged
// chunks of the codec's own encoder.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "compression/codec.h"
#include "tests/fuzz/decoder_laws.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace atolld;
  static const Codec& codec = FuzzedCodec();
  if (size < 2) return 0;
  const absl::Span<const uint8_t> bytes(data + 2, size - 2);
  size_t elements = (data[0] | data[1] << 8) % 10000;
  if (data[0] % 2 == 1) {
    elements = 0;
    for (size_t step = size_t{1} << 14; step > 0; step /= 2) {
      if (codec.MaxEncodedBytes(elements + step) <= bytes.size()) elements += step;
    }
  }
  CheckDecoderLaws(codec, bytes, elements);
  CheckDamagedLaws(codec, FuzzInput(data, size));
  return 0;
}

// Reads any bytes as a zstd frame, and real frames with one byte changed: never gives more than the
// limit, and never wrong content.
#include <cstddef>
#include <cstdint>
#include <string>

#include "compression/zstd_frame.h"
#include "tests/fuzz/decoder_laws.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace atolld;
  constexpr size_t kLimit = 1 << 16;
  const auto raw = ZstdDecompress({data, size}, kLimit);
  if (raw.ok()) Require(raw->size() <= kLimit, "the content is within the limit");
  if (size < 3) return 0;

  const absl::Span<const uint8_t> content(data + 3, size - 3);
  const auto frame = ZstdCompress(content);
  Require(frame.ok(), "any content can be compressed");
  std::string changed = *frame;
  const size_t at = (data[0] | data[1] << 8) % changed.size();
  changed[at] = static_cast<char>(changed[at] ^ data[2]);
  const auto back = ZstdDecompress(
      {reinterpret_cast<const uint8_t*>(changed.data()), changed.size()}, content.size());
  const absl::string_view expected(reinterpret_cast<const char*>(content.data()), content.size());
  if (data[2] == 0) Require(back.ok(), "an unchanged frame is taken");
  if (back.ok()) Require(*back == expected, "the checksum guards the content");
  return 0;
}

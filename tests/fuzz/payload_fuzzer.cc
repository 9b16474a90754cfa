// Reads any bytes as an entry's payload, and damaged whole payloads: the parts must lie inside and
// tile it, or it must be refused; a reader of the table alone must get the same result.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compression/codec.h"
#include "membership/history/payload.h"
#include "tests/fuzz/fuzz_input.h"

namespace atolld {
namespace {

void CheckSplit(const ChunkGrid& grid, const Codec& codec, std::vector<uint8_t> bytes) {
  const SharedBytes payload(std::move(bytes));
  const auto chunks = SplitPayload(grid, codec, payload);
  const auto table = payload.span().subspan(0, PayloadTableBytes(grid));
  const auto offsets = PayloadOffsets(grid, codec, table, payload.size());
  Require(chunks.ok() == offsets.ok(), "the whole payload and its table are judged alike");
  if (!chunks.ok()) return;
  Require(payload.size() <= MaxPayloadBytes(grid, codec), "no longer than a payload can be");
  Require(chunks->size() == grid.chunks(), "a part for each chunk of the grid");
  const uint8_t* at = payload.data() + PayloadTableBytes(grid);
  for (uint32_t c = 0; c < grid.chunks(); ++c) {
    const SharedBytes& chunk = (*chunks)[c];
    Require(chunk.data() == at && payload.data() + (*offsets)[c] == at, "the parts tile it");
    Require(chunk.size() <= codec.MaxEncodedBytes(grid.Elements(c)), "no chunk is too long");
    at += chunk.size();
  }
  Require(at == payload.data() + payload.size(), "nothing is left over");
  Require(JoinPayload(*chunks).str() == payload.str(), "joined again it is the same");
}

}  // namespace
}  // namespace atolld

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace atolld;
  FuzzInput input(data, size);
  const std::vector<std::string> names = CodecNames();
  const Codec& codec = **FindCodec(names[input.Byte() % names.size()]);
  const ChunkGrid grid(1 + input.Below(2000), 16 + input.Below(512));
  std::vector<SharedBytes> chunks;
  FuzzInput honest = input;
  for (uint32_t c = 0; c < grid.chunks(); ++c) {
    const std::vector<float> values = honest.Values(grid.Elements(c));
    std::vector<uint8_t> bytes(codec.MaxEncodedBytes(values.size()));
    const auto used = codec.Encode(values, absl::MakeSpan(bytes));
    Require(used.ok(), "finite values are encoded");
    bytes.resize(*used);
    chunks.emplace_back(std::move(bytes));
  }
  const SharedBytes whole = JoinPayload(chunks);
  std::vector<uint8_t> damaged(whole.span().begin(), whole.span().end());
  honest.Damage(&damaged);
  CheckSplit(grid, codec, std::move(damaged));
  const absl::Span<const uint8_t> any = input.Rest();
  CheckSplit(grid, codec, std::vector<uint8_t>(any.begin(), any.end()));
  return 0;
}

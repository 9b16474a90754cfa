#include "compression/int2_codec.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "compression/codec_errors.h"
#include "compression/fp32_kernels.h"
#include "compression/int2_kernels.h"

namespace atolld {
namespace {

#if !defined(ABSL_IS_LITTLE_ENDIAN)
#error "Codebooks are little-endian and are copied as they lie in memory"
#endif

// One block of a chunk's bytes, checked.
struct Block {
  float codebook[kInt2Codes];
  const uint8_t* codes;
  size_t offset;  // of its first value in the chunk
  size_t elements;
};

absl::StatusOr<Block> ReadBlock(absl::Span<const uint8_t> bytes, size_t elements, size_t block) {
  Block read;
  read.offset = block * kInt2BlockElements;
  read.elements = std::min(kInt2BlockElements, elements - read.offset);
  read.codes = bytes.data() + Int2Blocks(elements) * kInt2CodebookBytes + read.offset / 4;
  const absl::Status status =
      ReadCodebook(bytes.data() + block * kInt2CodebookBytes, read.codebook);
  if (!status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("block ", block, ": ", status.message()));
  }
  return read;
}

absl::Status CheckInt2Shape(absl::Span<const uint8_t> bytes, size_t elements) {
  if (bytes.size() != Int2Bytes(elements)) {
    return WrongLength(bytes.size(), Int2Bytes(elements), elements);
  }
  const size_t tail = elements % kInt2BlockElements;
  if (!Int2PaddingIsZero(bytes.data() + (bytes.size() - Int2CodeBytes(tail)), tail)) {
    return absl::InvalidArgumentError("the unused bits of the codes are not 0");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadCodebook(const uint8_t* bytes, float* codebook) {
  std::memcpy(codebook, bytes, kInt2CodebookBytes);
  for (size_t i = 0; i < kInt2Codes; ++i) {
    uint32_t bits;
    std::memcpy(&bits, &codebook[i], sizeof(bits));
    const uint32_t magnitude = bits & 0x7fffffff;
    if (bits == 0 || (magnitude >= kInt2MinEntryBits && magnitude < 0x7f800000)) continue;
    return absl::InvalidArgumentError(absl::StrCat("entry ", i, " of the codebook is ", codebook[i],
                                                   ", not 0 or finite from 2^-100"));
  }
  return absl::OkStatus();
}

bool Int2PaddingIsZero(const uint8_t* bytes, size_t elements) {
  const size_t count = Int2CodeBytes(elements);
  for (size_t i = elements; i < 4 * count; ++i) {
    if ((bytes[i % count] >> (2 * (i / count)) & 3) != 0) return false;
  }
  return true;
}

absl::StatusOr<size_t> Int2Codec::Encode(absl::Span<const float> values,
                                         absl::Span<uint8_t> out) const {
  const size_t needed = Int2Bytes(values.size());
  if (out.size() < needed) return OutputTooSmall(out.size(), needed);
  uint8_t* codebooks = out.data();
  uint8_t* bytes = codebooks + Int2Blocks(values.size()) * kInt2CodebookBytes;
  uint8_t codes[kInt2BlockElements];
  float codebook[kInt2Codes];
  for (size_t i = 0; i < values.size(); i += kInt2BlockElements) {
    const size_t elements = std::min(kInt2BlockElements, values.size() - i);
    if (!QuantizeInt2(values.data() + i, elements, codebook, codes)) {
      return FirstNotFinite(values, i);
    }
    std::memcpy(codebooks, codebook, kInt2CodebookBytes);
    PackInt2(codes, elements, bytes);
    codebooks += kInt2CodebookBytes;
    bytes += Int2CodeBytes(elements);
  }
  return needed;
}

absl::Status Int2Codec::Check(absl::Span<const uint8_t> bytes, size_t elements) const {
  const absl::Status shape = CheckInt2Shape(bytes, elements);
  if (!shape.ok()) return shape;
  for (size_t block = 0; block < Int2Blocks(elements); ++block) {
    const absl::StatusOr<Block> read = ReadBlock(bytes, elements, block);
    if (!read.ok()) return read.status();
  }
  return absl::OkStatus();
}

absl::Status Int2Codec::Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const {
  const absl::Status shape = CheckInt2Shape(bytes, values.size());
  if (!shape.ok()) return shape;
  for (size_t block = 0; block < Int2Blocks(values.size()); ++block) {
    const absl::StatusOr<Block> read = ReadBlock(bytes, values.size(), block);
    if (!read.ok()) return read.status();
    DecodeInt2(read->codebook, read->codes, read->elements, values.data() + read->offset);
  }
  return absl::OkStatus();
}

absl::Status Int2Codec::DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                         absl::Span<float> sum) const {
  if (!AllFinite(&weight, 1)) return WeightNotFinite();
  const absl::Status checked = Check(bytes, sum.size());
  if (!checked.ok()) return checked;
  for (size_t block = 0; block < Int2Blocks(sum.size()); ++block) {
    const absl::StatusOr<Block> read = ReadBlock(bytes, sum.size(), block);
    DecodeAccumulateInt2(read->codebook, read->codes, read->elements, weight,
                         sum.data() + read->offset);
  }
  return absl::OkStatus();
}

}  // namespace atolld

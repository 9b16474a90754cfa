#include "compression/sparse_block.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compression/half_kernels.h"
#include "compression/int2_codec.h"
#include "compression/int2_kernels.h"

namespace atolld {
namespace {

constexpr int kFormBit = 13;
constexpr size_t kCountMask = (1 << kFormBit) - 1;

// Whether places are a list; a bitmap otherwise. The same answer for writer and reader.
bool ListIsShorter(size_t count, size_t elements) {
  return TopkListBytes(count) <= TopkBitmapBytes(elements);
}

size_t PlacesBytes(size_t count, size_t elements) {
  return ListIsShorter(count, elements) ? TopkListBytes(count) : TopkBitmapBytes(elements);
}

size_t ValuesBytes(SparseForm form, size_t count) {
  return form == SparseForm::kMean ? count * sizeof(uint16_t)
                                   : kInt2CodebookBytes + Int2CodeBytes(count);
}

void WritePlaces(const SparseBlock& block, size_t elements, uint8_t* out) {
  std::memset(out, 0, PlacesBytes(block.count, elements));
  if (!ListIsShorter(block.count, elements)) {
    for (size_t i = 0; i < block.count; ++i) {
      uint8_t& byte = out[block.places[i] / 8];
      byte = static_cast<uint8_t>(byte | 1 << (block.places[i] % 8));
    }
    return;
  }
  for (size_t i = 0; i < block.count; ++i) {
    uint8_t* at = out + TopkListBytes(i) - i % 2;
    const int shifted = block.places[i] << (4 * (i % 2));
    at[0] = static_cast<uint8_t>(at[0] | shifted);
    at[1] = static_cast<uint8_t>(shifted >> 8);
  }
}

absl::Status ReadList(const uint8_t* bytes, size_t elements, SparseBlock* block) {
  int previous = -1;
  for (size_t i = 0; i < block->count; ++i) {
    const uint8_t* at = bytes + TopkListBytes(i) - i % 2;
    const int place = ((at[0] | at[1] << 8) >> (4 * (i % 2))) & 0xfff;
    if (place <= previous) {
      return absl::InvalidArgumentError(
          absl::StrCat("place ", i, " is ", place, " after ", previous));
    }
    if (static_cast<size_t>(place) >= elements) {
      return absl::InvalidArgumentError(
          absl::StrCat("place ", i, " is ", place, ", the block has ", elements, " values"));
    }
    block->places[i] = static_cast<uint16_t>(place);
    previous = place;
  }
  if (block->count % 2 == 1 && bytes[TopkListBytes(block->count) - 1] >> 4 != 0) {
    return absl::InvalidArgumentError("the unused half of the last place is not 0");
  }
  return absl::OkStatus();
}

absl::Status ReadBitmap(const uint8_t* bytes, size_t elements, SparseBlock* block) {
  size_t found = 0;
  for (size_t i = 0; i < TopkBitmapBytes(elements); ++i) {
    for (unsigned rest = bytes[i]; rest != 0; rest &= rest - 1) {
      const size_t place = 8 * i + static_cast<size_t>(__builtin_ctz(rest));
      if (place >= elements) {
        return absl::InvalidArgumentError(
            absl::StrCat("the bitmap has place ", place, ", the block has ", elements, " values"));
      }
      if (found < block->count) block->places[found] = static_cast<uint16_t>(place);
      ++found;
    }
  }
  if (found != block->count) {
    return absl::InvalidArgumentError(
        absl::StrCat("the bitmap has ", found, " places, the header says ", block->count));
  }
  return absl::OkStatus();
}

absl::Status ReadValues(const uint8_t* bytes, SparseForm form, SparseBlock* block) {
  if (form == SparseForm::kMean) {
    if (DecodeHalves(HalfForm::kBf16, bytes, block->count, block->values)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError("a value is not finite");
  }
  float codebook[kInt2Codes];
  const absl::Status status = ReadCodebook(bytes, codebook);
  if (!status.ok()) return status;
  const uint8_t* codes = bytes + kInt2CodebookBytes;
  if (!Int2PaddingIsZero(codes, block->count)) {
    return absl::InvalidArgumentError("the unused bits of the codes are not 0");
  }
  DecodeInt2(codebook, codes, block->count, block->values);
  return absl::OkStatus();
}

}  // namespace

size_t WriteSparseBlock(const SparseBlock& block, SparseForm form, size_t elements, uint8_t* out) {
  const size_t count = block.count;
  const size_t header = count == 0 ? 0 : count | static_cast<size_t>(form) << kFormBit;
  out[0] = static_cast<uint8_t>(header);
  out[1] = static_cast<uint8_t>(header >> 8);
  if (count == 0) return sizeof(uint16_t);
  uint8_t* places = out + sizeof(uint16_t);
  WritePlaces(block, elements, places);
  uint8_t* values = places + PlacesBytes(count, elements);
  if (form == SparseForm::kMean) {
    EncodeHalves(HalfForm::kBf16, block.values, count, values);
  } else {
    float codebook[kInt2Codes];
    uint8_t codes[kTopkBlockElements];
    QuantizeInt2(block.values, count, codebook, codes);
    std::memcpy(values, codebook, kInt2CodebookBytes);
    PackInt2(codes, count, values + kInt2CodebookBytes);
  }
  return static_cast<size_t>(values - out) + ValuesBytes(form, count);
}

absl::StatusOr<size_t> ReadSparseBlock(absl::Span<const uint8_t> bytes, size_t elements,
                                       SparseBlock* block) {
  if (bytes.size() < sizeof(uint16_t)) return absl::InvalidArgumentError("its header is missing");
  const size_t header = bytes[0] | static_cast<size_t>(bytes[1]) << 8;
  block->count = header & kCountMask;
  if (header == 0) return sizeof(uint16_t);
  if (header >> (kFormBit + 1) != 0 || block->count == 0) {
    return absl::InvalidArgumentError(absl::StrCat("its header is ", header));
  }
  const auto form = static_cast<SparseForm>(header >> kFormBit);
  const size_t most = form == SparseForm::kMean ? elements : TopkKept(elements);
  if (block->count > most) {
    return absl::InvalidArgumentError(absl::StrCat("it has ", block->count, " values of ", elements,
                                                   ", at most ", most, " are sent"));
  }
  const size_t places = PlacesBytes(block->count, elements);
  const size_t whole = sizeof(uint16_t) + places + ValuesBytes(form, block->count);
  if (bytes.size() < whole) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", whole, " bytes, ", bytes.size(), " are left of the chunk"));
  }
  const uint8_t* at = bytes.data() + sizeof(uint16_t);
  absl::Status status = ListIsShorter(block->count, elements) ? ReadList(at, elements, block)
                                                              : ReadBitmap(at, elements, block);
  if (status.ok()) status = ReadValues(at + places, form, block);
  if (!status.ok()) return status;
  return whole;
}

}  // namespace atolld

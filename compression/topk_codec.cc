#include "compression/topk_codec.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "compression/codec.h"
#include "compression/float_codecs.h"
#include "compression/int2_codec.h"
#include "compression/simd.h"

namespace atolld {
namespace {

constexpr int kFormBit = 13;
constexpr size_t kCountMask = (1 << kFormBit) - 1;

// Returns true if places are a list, false if they are a bitmap. Writer and reader get the same
// answer.
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
  RETURN_IF_ERROR(ReadCodebook(bytes, codebook));
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

namespace {

// Magnitudes are compared by their bits, of which the first eleven make a histogram: exponent and
// three bits of mantissa.
constexpr int kHistogramShift = 20;
constexpr size_t kBins = size_t{1} << (31 - kHistogramShift);

uint32_t Magnitude(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits & 0x7fffffff;
}

// A value that competes for the last places: larger values come first, and of equal ones the
// earlier.
struct Candidate {
  uint32_t magnitude;
  uint16_t place;
  bool operator<(const Candidate& other) const {
    return magnitude != other.magnitude ? magnitude > other.magnitude : place < other.place;
  }
};

// Returns the lowest bin that has values among the `kept` largest.
size_t LowestBin(absl::Span<const float> values, size_t kept) {
  uint16_t histogram[kBins] = {};
  for (const float value : values) ++histogram[Magnitude(value) >> kHistogramShift];
  size_t bin = kBins - 1;
  while (bin > 0 && histogram[bin] < kept) kept -= histogram[bin--];
  return bin;
}

// Selects the values of largest magnitude.
void Select(absl::Span<const float> values, SparseBlock* block) {
  const size_t bin = LowestBin(values, TopkKept(values.size()));
  const auto floor = std::max(static_cast<uint32_t>(bin) << kHistogramShift, 1u);  // never a zero
  Candidate candidates[kTopkBlockElements];
  size_t count = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t magnitude = Magnitude(values[i]);
    candidates[count] = {magnitude, static_cast<uint16_t>(i)};
    count += magnitude >= floor ? 1 : 0;
  }
  const size_t kept = std::min(count, TopkKept(values.size()));
  std::nth_element(candidates, candidates + kept, candidates + count);
  std::sort(candidates, candidates + kept,
            [](const Candidate& a, const Candidate& b) { return a.place < b.place; });
  block->count = kept;
  uint32_t largest = 0;
  for (size_t i = 0; i < kept; ++i) {
    block->places[i] = candidates[i].place;
    block->values[i] = values[candidates[i].place];
    largest = std::max(largest, candidates[i].magnitude);
  }
  if (largest < kInt2MinEntryBits) block->count = 0;
}

// Selects every value that is not zero.
void TakeAll(absl::Span<const float> values, SparseBlock* block) {
  block->count = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    block->places[block->count] = static_cast<uint16_t>(i);
    block->values[block->count] = values[i];
    block->count += Magnitude(values[i]) != 0 ? 1 : 0;
  }
}

absl::StatusOr<size_t> EncodeSparseBlocks(absl::Span<const float> values, SparseForm form,
                                          size_t needed, absl::Span<uint8_t> out) {
  if (out.size() < needed) return OutputTooSmall(out.size(), needed);
  SparseBlock block;
  size_t used = 0;
  for (size_t i = 0; i < values.size(); i += kTopkBlockElements) {
    const absl::Span<const float> part = values.subspan(i, kTopkBlockElements);
    if (!AllFinite(part.data(), part.size())) return FirstNotFinite(values, i);
    form == SparseForm::kUpdate ? Select(part, &block) : TakeAll(part, &block);
    used += WriteSparseBlock(block, form, part.size(), out.data() + used);
  }
  return used;
}

// Calls f(block, its values' offset) for every block of a chunk.
template <class F>
absl::Status ForBlocks(absl::Span<const uint8_t> bytes, size_t elements, const F& f) {
  SparseBlock block;
  for (size_t i = 0; i < elements; i += kTopkBlockElements) {
    const absl::StatusOr<size_t> size =
        ReadSparseBlock(bytes, std::min(kTopkBlockElements, elements - i), &block);
    if (!size.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("block ", i / kTopkBlockElements, ": ", size.status().message()));
    }
    bytes.remove_prefix(*size);
    f(block, i);
  }
  if (bytes.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Counted(bytes.size(), "byte follows", "bytes follow"), " the last block"));
}

}  // namespace

size_t TopkCodec::MaxEncodedBytes(size_t elements) const {
  return elements / kTopkBlockElements * TopkMaxBlockBytes(kTopkBlockElements) +
         TopkMaxBlockBytes(elements % kTopkBlockElements);
}

absl::StatusOr<size_t> TopkCodec::Encode(absl::Span<const float> values,
                                         absl::Span<uint8_t> out) const {
  return EncodeSparseBlocks(values, SparseForm::kUpdate, MaxEncodedBytes(values.size()), out);
}

absl::StatusOr<size_t> TopkCodec::EncodeMean(absl::Span<const float> values,
                                             absl::Span<uint8_t> out) const {
  return EncodeSparseBlocks(values, SparseForm::kMean, MaxEncodedBytes(values.size()), out);
}

absl::Status TopkCodec::Check(absl::Span<const uint8_t> bytes, size_t elements) const {
  return ForBlocks(bytes, elements, [](const SparseBlock&, size_t) {});
}

absl::Status TopkCodec::Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const {
  std::fill(values.begin(), values.end(), 0.0f);
  return ForBlocks(bytes, values.size(), [values](const SparseBlock& block, size_t offset) {
    for (size_t i = 0; i < block.count; ++i) values[offset + block.places[i]] = block.values[i];
  });
}

absl::Status TopkCodec::DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                         absl::Span<float> sum) const {
  if (!AllFinite(&weight, 1)) return WeightNotFinite();
  RETURN_IF_ERROR(Check(bytes, sum.size()));
  return ForBlocks(bytes, sum.size(), [weight, sum](const SparseBlock& block, size_t offset) {
    for (size_t i = 0; i < block.count; ++i) {
      float& at = sum[offset + block.places[i]];
      const float product = weight * block.values[i];
      at = at + product;
    }
  });
}

}  // namespace atolld

#include "compression/int2_codec.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/int2_codec.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace atolld {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// The number of partial sums of a block, whatever the vectors' length.
constexpr size_t kPartials = 16;

using Floats = hn::CappedTag<float, kPartials>;
using OneFloat = hn::CappedTag<float, 1>;
template <class D>
using MaskOf = hn::Mask<D>;

HWY_INLINE uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

HWY_INLINE float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

HWY_INLINE uint32_t LargestMagnitude(const float* values, size_t elements) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const auto magnitude = hn::Set(di, 0x7fffffff);
  auto max = hn::Zero(di);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= elements; i += hn::Lanes(d)) {
    max = hn::Max(max, hn::And(hn::BitCast(di, hn::LoadU(d, values + i)), magnitude));
  }
  uint32_t largest = static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, max)));
  for (; i < elements; ++i) largest = std::max(largest, BitsOf(values[i]) & 0x7fffffff);
  return largest;
}

HWY_INLINE float Total(float* partials) {
  for (size_t width = kPartials / 2; width > 0; width /= 2) {
    for (size_t l = 0; l < width; ++l) partials[l] = partials[l] + partials[l + width];
  }
  return partials[0];
}

// Returns the sum of f over a block; f takes a tag and a vector of y.
template <class F>
HWY_INLINE float SumOf(const float* values, size_t elements, float unit, const F& f) {
  const Floats d;
  const OneFloat one;
  HWY_ALIGN float partials[kPartials];
  const size_t whole = elements / kPartials * kPartials;
  for (size_t l = 0; l < kPartials; l += hn::Lanes(d)) {
    auto sum = hn::Zero(d);
    for (size_t i = l; i < whole; i += kPartials) {
      sum = hn::Add(sum, f(d, hn::Mul(hn::LoadU(d, values + i), hn::Set(d, unit))));
    }
    hn::StoreU(sum, d, partials + l);
  }
  for (size_t i = whole; i < elements; ++i) {
    const auto y = hn::Mul(hn::LoadU(one, values + i), hn::Set(one, unit));
    partials[i - whole] = partials[i - whole] + hn::GetLane(f(one, y));
  }
  return Total(partials);
}

struct Edges {
  float low, middle, high;
};

struct Bins {
  HWY_ALIGN float sums[kInt2Codes][kPartials];
  int32_t at_least[kInt2Codes - 1];  // values at or above each edge
};

// Adds the values of one vector to the sum of each bin, and (negatively) to the counts.
template <class D>
struct Lanes {
  using Ints = hn::RebindToSigned<D>;
  hn::Vec<D> sum[kInt2Codes];
  hn::Vec<Ints> count[kInt2Codes - 1];

  HWY_INLINE Lanes() {
    for (auto& one : sum) one = hn::Zero(D());
    for (auto& one : count) one = hn::Zero(Ints());
  }

  HWY_INLINE void Take(const float* values, float unit, const Edges& edges, uint8_t* codes) {
    const D d;
    const Ints di;
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<uint8_t, D> d8;
    const auto y = hn::Mul(hn::LoadU(d, values), hn::Set(d, unit));
    const auto above0 = hn::VecFromMask(d, hn::Ge(y, hn::Set(d, edges.low)));
    const auto above1 = hn::VecFromMask(d, hn::Ge(y, hn::Set(d, edges.middle)));
    const auto above2 = hn::VecFromMask(d, hn::Ge(y, hn::Set(d, edges.high)));
    // A masked-out value adds +0, which changes no sum: sums begin at +0.
    sum[0] = hn::Add(sum[0], hn::AndNot(above0, y));
    sum[1] = hn::Add(sum[1], hn::And(hn::AndNot(above1, above0), y));
    sum[2] = hn::Add(sum[2], hn::And(hn::AndNot(above2, above1), y));
    sum[3] = hn::Add(sum[3], hn::And(above2, y));
    count[0] = hn::Add(count[0], hn::BitCast(di, above0));
    count[1] = hn::Add(count[1], hn::BitCast(di, above1));
    count[2] = hn::Add(count[2], hn::BitCast(di, above2));
    const auto code =
        hn::Add(hn::Add(hn::BitCast(di, above0), hn::BitCast(di, above1)), hn::BitCast(di, above2));
    hn::StoreU(hn::TruncateTo(d8, hn::BitCast(du, hn::Neg(code))), d8, codes);
  }
};

HWY_INLINE void FillBins(const float* values, size_t elements, float unit, const Edges& edges,
                         Bins* bins, uint8_t* codes) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  std::fill_n(bins->at_least, kInt2Codes - 1, 0);
  HWY_ALIGN int32_t counts[kPartials];
  const size_t whole = elements / kPartials * kPartials;
  for (size_t l = 0; l < kPartials; l += hn::Lanes(d)) {
    Lanes<Floats> lanes;
    for (size_t i = l; i < whole; i += kPartials) lanes.Take(values + i, unit, edges, codes + i);
    for (size_t b = 0; b < kInt2Codes; ++b) hn::StoreU(lanes.sum[b], d, bins->sums[b] + l);
    for (size_t e = 0; e + 1 < kInt2Codes; ++e) {
      hn::StoreU(lanes.count[e], di, counts);
      for (size_t k = 0; k < hn::Lanes(d); ++k) bins->at_least[e] -= counts[k];
    }
  }
  for (size_t i = whole; i < elements; ++i) {
    Lanes<OneFloat> one;
    one.Take(values + i, unit, edges, codes + i);
    for (size_t b = 0; b < kInt2Codes; ++b) {
      float& partial = bins->sums[b][i - whole];
      partial = partial + hn::GetLane(one.sum[b]);
    }
    for (size_t e = 0; e + 1 < kInt2Codes; ++e) bins->at_least[e] -= hn::GetLane(one.count[e]);
  }
}

bool Quantize(const float* values, size_t elements, float* codebook, uint8_t* codes) {
  const uint32_t largest = LargestMagnitude(values, elements);
  if (largest >= 0x7f800000) return false;
  if (largest < kInt2MinEntryBits) {
    std::fill_n(codebook, kInt2Codes, 0.0f);
    std::fill_n(codes, elements, uint8_t{0});
    return true;
  }
  const uint32_t exponent = std::min(largest >> 23, 253u);
  const float unit = FloatOf((254 - exponent) << 23);
  const float mean =
      SumOf(values, elements, unit, [](auto, auto y) { return y; }) / static_cast<float>(elements);
  const float squares = SumOf(values, elements, unit, [mean](auto d, auto y) {
    const auto centred = hn::Sub(y, hn::Set(d, mean));
    return hn::Mul(centred, centred);
  });
  const float variance = squares / static_cast<float>(elements > 1 ? elements - 1 : 1);
  const OneFloat one;
  const float sigma = hn::GetLane(hn::Sqrt(hn::Set(one, variance)));
  const Edges edges = {mean - 2.25f * sigma, mean - 0.75f * sigma, mean + 0.75f * sigma};
  Bins bins;
  FillBins(values, elements, unit, edges, &bins, codes);
  const auto all = static_cast<int32_t>(elements);
  const int32_t counts[kInt2Codes] = {all - bins.at_least[0], bins.at_least[0] - bins.at_least[1],
                                      bins.at_least[1] - bins.at_least[2], bins.at_least[2]};
  for (size_t b = 0; b < kInt2Codes; ++b) {
    const float sum = Total(bins.sums[b]);
    const float centre = counts[b] == 0 ? 0.0f : sum / static_cast<float>(counts[b]);
    const float entry = centre * FloatOf(exponent << 23);
    const float bound = FloatOf(largest);
    codebook[b] = std::min(std::max(entry, -bound), bound);
    if ((BitsOf(entry) & 0x7fffffff) < kInt2MinEntryBits) codebook[b] = 0.0f;
  }
  return true;
}

void Pack(const uint8_t* codes, size_t elements, uint8_t* bytes) {
  const hn::CappedTag<uint8_t, kInt2BlockElements / 4> d;
  const size_t count = Int2CodeBytes(elements);
  size_t j = 0;
  for (; j + hn::Lanes(d) + 3 * count <= elements; j += hn::Lanes(d)) {
    // Codes are below 4, so no bit is shifted out of its byte.
    auto packed = hn::LoadU(d, codes + j);
    packed = hn::Or(packed, hn::ShiftLeft<2>(hn::LoadU(d, codes + count + j)));
    packed = hn::Or(packed, hn::ShiftLeft<4>(hn::LoadU(d, codes + 2 * count + j)));
    packed = hn::Or(packed, hn::ShiftLeft<6>(hn::LoadU(d, codes + 3 * count + j)));
    hn::StoreU(packed, d, bytes + j);
  }
  for (; j < count; ++j) {
    int packed = 0;
    for (size_t k = 0; k < 4 && j + k * count < elements; ++k) {
      packed |= codes[j + k * count] << (2 * k);
    }
    bytes[j] = static_cast<uint8_t>(packed);
  }
}

// Returns the values of code number k of as many bytes as D has lanes.
template <class D>
HWY_INLINE hn::Vec<D> LoadValues(D d, const uint8_t* bytes, size_t k, const float* codebook) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint8_t, D> d8;
  const auto packed = hn::PromoteTo(di, hn::LoadU(d8, bytes));
  const auto odd = hn::RebindMask(d, hn::TestBit(packed, hn::Set(di, 1 << (2 * k))));
  const auto upper = hn::RebindMask(d, hn::TestBit(packed, hn::Set(di, 2 << (2 * k))));
  const auto low = hn::IfThenElse(odd, hn::Set(d, codebook[1]), hn::Set(d, codebook[0]));
  const auto high = hn::IfThenElse(odd, hn::Set(d, codebook[3]), hn::Set(d, codebook[2]));
  return hn::IfThenElse(upper, high, low);
}

// Calls f(tag, values, index of the first) for all values of a block.
template <class F>
HWY_INLINE void ForValues(const float* codebook, const uint8_t* bytes, size_t elements,
                          const F& f) {
  const Floats d;
  const OneFloat one;
  const size_t count = Int2CodeBytes(elements);
  for (size_t k = 0; k < 4 && k * count < elements; ++k) {
    const size_t begin = k * count;
    const size_t codes = std::min(count, elements - begin);
    size_t j = 0;
    for (; j + hn::Lanes(d) <= codes; j += hn::Lanes(d)) {
      f(d, LoadValues(d, bytes + j, k, codebook), begin + j);
    }
    for (; j < codes; ++j) f(one, LoadValues(one, bytes + j, k, codebook), begin + j);
  }
}

void Decode(const float* codebook, const uint8_t* bytes, size_t elements, float* values) {
  ForValues(codebook, bytes, elements,
            [values](auto d, auto value, size_t i) { hn::StoreU(value, d, values + i); });
}

void DecodeAccumulate(const float* codebook, const uint8_t* bytes, size_t elements, float weight,
                      float* sum) {
  ForValues(codebook, bytes, elements, [weight, sum](auto d, auto value, size_t i) {
    const auto product = hn::Mul(hn::Set(d, weight), value);
    hn::StoreU(hn::Add(hn::LoadU(d, sum + i), product), d, sum + i);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace atolld
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace atolld {

HWY_EXPORT(Quantize);
HWY_EXPORT(Pack);
HWY_EXPORT(Decode);
HWY_EXPORT(DecodeAccumulate);

bool QuantizeInt2(const float* values, size_t elements, float* codebook, uint8_t* codes) {
  return HWY_DYNAMIC_DISPATCH(Quantize)(values, elements, codebook, codes);
}

void PackInt2(const uint8_t* codes, size_t elements, uint8_t* bytes) {
  HWY_DYNAMIC_DISPATCH(Pack)(codes, elements, bytes);
}

void DecodeInt2(const float* codebook, const uint8_t* bytes, size_t elements, float* values) {
  HWY_DYNAMIC_DISPATCH(Decode)(codebook, bytes, elements, values);
}

void DecodeAccumulateInt2(const float* codebook, const uint8_t* bytes, size_t elements,
                          float weight, float* sum) {
  HWY_DYNAMIC_DISPATCH(DecodeAccumulate)(codebook, bytes, elements, weight, sum);
}

namespace {

#if !defined(ABSL_IS_LITTLE_ENDIAN)
#error "Codebooks are little-endian and are copied as they lie in memory"
#endif

// One checked block of a chunk's bytes.
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
  RETURN_IF_ERROR(CheckInt2Shape(bytes, elements));
  for (size_t block = 0; block < Int2Blocks(elements); ++block) {
    RETURN_IF_ERROR(ReadBlock(bytes, elements, block).status());
  }
  return absl::OkStatus();
}

absl::Status Int2Codec::Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const {
  RETURN_IF_ERROR(CheckInt2Shape(bytes, values.size()));
  for (size_t block = 0; block < Int2Blocks(values.size()); ++block) {
    ASSIGN_OR_RETURN(const Block read, ReadBlock(bytes, values.size(), block));
    DecodeInt2(read.codebook, read.codes, read.elements, values.data() + read.offset);
  }
  return absl::OkStatus();
}

absl::Status Int2Codec::DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                         absl::Span<float> sum) const {
  if (!AllFinite(&weight, 1)) return WeightNotFinite();
  RETURN_IF_ERROR(Check(bytes, sum.size()));
  for (size_t block = 0; block < Int2Blocks(sum.size()); ++block) {
    const absl::StatusOr<Block> read = ReadBlock(bytes, sum.size(), block);
    DecodeAccumulateInt2(read->codebook, read->codes, read->elements, weight,
                         sum.data() + read->offset);
  }
  return absl::OkStatus();
}

}  // namespace atolld
#endif  // HWY_ONCE

#include "compression/int8_kernels.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "compression/int8_format.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/int8_kernels.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "compression/dither-inl.h"
#include "compression/squares-inl.h"

HWY_BEFORE_NAMESPACE();
namespace atolld {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// What every allocator gives to a large vector; narrower stores than the target's vectors, but of
// whole cache lines in their order.
constexpr size_t kStreamAlignment = 16;

// At most a quarter of a block, so that four vectors a step divide it, however long a scalable
// target's vectors are.
using Floats = hn::CappedTag<float, kInt8BlockElements / 4>;
using Codes = hn::CappedTag<int8_t, kInt8BlockElements>;

HWY_INLINE int32_t BlockMagnitude(const float* values) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const size_t lanes = hn::Lanes(d);
  const auto magnitude = hn::Set(di, 0x7fffffff);
  auto max0 = hn::Zero(di);
  auto max1 = hn::Zero(di);
  auto max2 = hn::Zero(di);
  auto max3 = hn::Zero(di);
  for (size_t i = 0; i < kInt8BlockElements; i += 4 * lanes) {
    const auto bits0 = hn::BitCast(di, hn::LoadU(d, values + i));
    const auto bits1 = hn::BitCast(di, hn::LoadU(d, values + i + lanes));
    const auto bits2 = hn::BitCast(di, hn::LoadU(d, values + i + 2 * lanes));
    const auto bits3 = hn::BitCast(di, hn::LoadU(d, values + i + 3 * lanes));
    max0 = hn::Max(max0, hn::And(bits0, magnitude));
    max1 = hn::Max(max1, hn::And(bits1, magnitude));
    max2 = hn::Max(max2, hn::And(bits2, magnitude));
    max3 = hn::Max(max3, hn::And(bits3, magnitude));
  }
  const auto max = hn::Max(hn::Max(max0, max1), hn::Max(max2, max3));
  return hn::GetLane(hn::MaxOfLanes(di, max));
}

// The low byte of a rounded value is its code. `begin` is the block's place in the chunk.
template <class Rounder>
HWY_INLINE void QuantizeBlock(const Rounder& rounder, size_t begin, const float* values,
                              float inverse, uint8_t* codes) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const hn::Rebind<uint8_t, Floats> d8;
  const size_t lanes = hn::Lanes(d);
  const auto factor = hn::Set(d, inverse);
  for (size_t i = 0; i < kInt8BlockElements; i += lanes) {
    const auto scaled = hn::Mul(hn::LoadU(d, values + i), factor);
    const auto rounded = rounder.Round(d, scaled, begin + i, 127.0f);
    hn::StoreU(hn::TruncateTo(d8, hn::BitCast(du, rounded)), d8, codes + i);
  }
}

template <class Rounder>
HWY_INLINE bool EncodeBlock(const Rounder& rounder, size_t begin, const float* values,
                            uint8_t* scale_bytes, uint8_t* codes) {
  const int32_t magnitude = BlockMagnitude(values);
  if (magnitude >= 0x7f800000) return false;
  float absmax;
  std::memcpy(&absmax, &magnitude, sizeof(absmax));
  float scale = std::min(absmax / 127.0f, kInt8MaxScale);
  float inverse = 0.0f;
  if (scale < 0x1p-100f) {
    scale = 0.0f;
  } else {
    inverse = 1.0f / scale;
  }
  std::memcpy(scale_bytes, &scale, sizeof(scale));
  QuantizeBlock(rounder, begin, values, inverse, codes);
  return true;
}

template <class Rounder>
HWY_INLINE bool EncodeBlocks(const Rounder& rounder, const float* values, size_t elements,
                             uint8_t* scales, uint8_t* codes) {
  const size_t whole = elements / kInt8BlockElements * kInt8BlockElements;
  for (size_t i = 0; i < whole; i += kInt8BlockElements, scales += sizeof(float)) {
    if (!EncodeBlock(rounder, i, values + i, scales, codes + i)) return false;
  }
  const size_t tail = elements - whole;
  if (tail == 0) return true;
  // Zeros change neither the maximum nor the other codes.
  float padded_values[kInt8BlockElements] = {};
  uint8_t padded_codes[kInt8BlockElements];
  std::memcpy(padded_values, values + whole, tail * sizeof(float));
  if (!EncodeBlock(rounder, whole, padded_values, scales, padded_codes)) return false;
  std::memcpy(codes + whole, padded_codes, tail);
  return true;
}

bool Encode(const float* values, size_t elements, const Rounding& rounding, uint8_t* scales,
            uint8_t* codes) {
  return rounding.stochastic ? EncodeBlocks(Dithered(rounding.key), values, elements, scales, codes)
                             : EncodeBlocks(Nearest(rounding.key), values, elements, scales, codes);
}

HWY_INLINE float LoadScale(const uint8_t* bytes) {
  float scale;
  std::memcpy(&scale, bytes, sizeof(scale));
  return scale;
}

template <class D>
HWY_INLINE hn::VFromD<D> LoadValues(D d, const uint8_t* codes, hn::VFromD<D> scale) {
  const hn::Rebind<int8_t, D> d8;
  const hn::RebindToSigned<D> di;
  const auto code = hn::LoadU(d8, reinterpret_cast<const int8_t*>(codes));
  return hn::Mul(hn::ConvertTo(d, hn::PromoteTo(di, code)), scale);
}

HWY_INLINE void DecodeBlock(const uint8_t* codes, float scale, float* values) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const auto factor = hn::Set(d, scale);
  for (size_t i = 0; i < kInt8BlockElements; i += lanes) {
    hn::StoreU(LoadValues(d, codes + i, factor), d, values + i);
  }
}

// As DecodeBlock, past the caches. `values` is aligned to kStreamAlignment.
HWY_INLINE void StreamBlock(const uint8_t* codes, float scale, float* values) {
  const hn::CappedTag<float, kStreamAlignment / sizeof(float)> d;
  alignas(kStreamAlignment) float block[kInt8BlockElements];
  DecodeBlock(codes, scale, block);
  for (size_t i = 0; i < kInt8BlockElements; i += hn::Lanes(d)) {
    hn::Stream(hn::Load(d, block + i), d, values + i);
  }
}

HWY_INLINE hn::Vec<Codes> LowestCodes(const uint8_t* codes, hn::Vec<Codes> lowest) {
  const Codes d;
  for (size_t i = 0; i < kInt8BlockElements; i += hn::Lanes(d)) {
    lowest = hn::Min(lowest, hn::LoadU(d, reinterpret_cast<const int8_t*>(codes + i)));
  }
  return lowest;
}

HWY_INLINE bool HasForbidden(hn::Vec<Codes> lowest) {
  const Codes d;
  return !hn::AllFalse(d, hn::Eq(lowest, hn::Set(d, static_cast<int8_t>(-128))));
}

bool Decode(const uint8_t* scales, const uint8_t* codes, size_t elements, Int8Store store,
            float* values) {
  const size_t whole = elements / kInt8BlockElements * kInt8BlockElements;
  const bool streams =
      store == Int8Store::kStreamed && reinterpret_cast<uintptr_t>(values) % kStreamAlignment == 0;
  auto lowest = hn::Zero(Codes());
  for (size_t i = 0; i < whole; i += kInt8BlockElements, scales += sizeof(float)) {
    lowest = LowestCodes(codes + i, lowest);
    if (streams) {
      StreamBlock(codes + i, LoadScale(scales), values + i);
    } else {
      DecodeBlock(codes + i, LoadScale(scales), values + i);
    }
  }
  if (streams) hwy::FlushStream();
  const size_t tail = elements - whole;
  if (tail != 0) {
    uint8_t padded_codes[kInt8BlockElements] = {};
    float padded_values[kInt8BlockElements];
    std::memcpy(padded_codes, codes + whole, tail);
    lowest = LowestCodes(padded_codes, lowest);
    DecodeBlock(padded_codes, LoadScale(scales), padded_values);
    std::memcpy(values + whole, padded_values, tail * sizeof(float));
  }
  return !HasForbidden(lowest);
}

bool ScanCodes(const uint8_t* codes, size_t elements) {
  const size_t whole = elements / kInt8BlockElements * kInt8BlockElements;
  auto lowest = hn::Zero(Codes());
  for (size_t i = 0; i < whole; i += kInt8BlockElements) lowest = LowestCodes(codes + i, lowest);
  uint8_t padded_codes[kInt8BlockElements] = {};
  if (elements != whole) std::memcpy(padded_codes, codes + whole, elements - whole);
  return HasForbidden(LowestCodes(padded_codes, lowest));
}

// At most 256 * 127 * 127: far below what an int32 lane holds, so the order of lanes is no matter.
#if HWY_TARGET == HWY_SCALAR  // a vector of it has no pairs
HWY_INLINE int32_t BlockSquares(const uint8_t* codes) {
  int32_t sum = 0;
  for (size_t i = 0; i < kInt8BlockElements; ++i) {
    const int32_t code = static_cast<int8_t>(codes[i]);
    sum += code * code;
  }
  return sum;
}
#else
HWY_INLINE int32_t BlockSquares(const uint8_t* codes) {
  const hn::CappedTag<int32_t, kInt8BlockElements / 4> d32;
  const hn::Repartition<int16_t, decltype(d32)> d16;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  auto sum0 = hn::Zero(d32);
  auto sum1 = hn::Zero(d32);
  for (size_t i = 0; i < kInt8BlockElements; i += hn::Lanes(d16)) {
    const auto code = hn::PromoteTo(d16, hn::LoadU(d8, reinterpret_cast<const int8_t*>(codes + i)));
    sum0 = hn::ReorderWidenMulAccumulate(d32, code, code, sum0, sum1);  // tidy: integer lanes
  }
  return hn::GetLane(hn::SumOfLanes(d32, hn::Add(sum0, sum1)));  // tidy: integer lanes
}
#endif

bool SquaredNorm(const uint8_t* scales, const uint8_t* codes, size_t elements, double* norm) {
  const size_t whole = elements / kInt8BlockElements * kInt8BlockElements;
  auto lowest = hn::Zero(Codes());
  double sum = 0;
  for (size_t i = 0; i < whole; i += kInt8BlockElements, scales += sizeof(float)) {
    lowest = LowestCodes(codes + i, lowest);
    sum = sum + ScaledSquares(BlockSquares(codes + i), LoadScale(scales));
  }
  const size_t tail = elements - whole;
  if (tail != 0) {
    uint8_t padded_codes[kInt8BlockElements] = {};
    std::memcpy(padded_codes, codes + whole, tail);
    lowest = LowestCodes(padded_codes, lowest);
    sum = sum + ScaledSquares(BlockSquares(padded_codes), LoadScale(scales));
  }
  *norm = sum;
  return !HasForbidden(lowest);
}

HWY_INLINE void AccumulateBlock(const uint8_t* codes, float scale, float weight, float* sum) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const auto factor = hn::Set(d, scale);
  const auto share = hn::Set(d, weight);
  for (size_t i = 0; i < kInt8BlockElements; i += lanes) {
    const auto product = hn::Mul(share, LoadValues(d, codes + i, factor));
    hn::StoreU(hn::Add(hn::LoadU(d, sum + i), product), d, sum + i);
  }
}

void DecodeAccumulate(const uint8_t* scales, const uint8_t* codes, size_t elements, float weight,
                      float* sum) {
  const size_t whole = elements / kInt8BlockElements * kInt8BlockElements;
  for (size_t i = 0; i < whole; i += kInt8BlockElements, scales += sizeof(float)) {
    AccumulateBlock(codes + i, LoadScale(scales), weight, sum + i);
  }
  const size_t tail = elements - whole;
  if (tail == 0) return;
  uint8_t padded_codes[kInt8BlockElements] = {};
  float padded_sum[kInt8BlockElements] = {};
  std::memcpy(padded_codes, codes + whole, tail);
  std::memcpy(padded_sum, sum + whole, tail * sizeof(float));
  AccumulateBlock(padded_codes, LoadScale(scales), weight, padded_sum);
  std::memcpy(sum + whole, padded_sum, tail * sizeof(float));
}

// One block of the sum, which stays in registers until all terms are in it.
HWY_INLINE void SumBlock(const Int8Term* terms, size_t count, size_t block, float factor,
                         float* sum) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const size_t begin = block * kInt8BlockElements;
  for (size_t i = 0; i < kInt8BlockElements; i += 4 * lanes) {
    auto sum0 = hn::Zero(d);
    auto sum1 = hn::Zero(d);
    auto sum2 = hn::Zero(d);
    auto sum3 = hn::Zero(d);
    for (size_t t = 0; t < count; ++t) {
      const uint8_t* codes = terms[t].codes + begin + i;
      const auto scale = hn::Set(d, LoadScale(terms[t].scales + block * sizeof(float)));
      const auto share = hn::Set(d, terms[t].weight);
      sum0 = hn::Add(sum0, hn::Mul(share, LoadValues(d, codes, scale)));
      sum1 = hn::Add(sum1, hn::Mul(share, LoadValues(d, codes + lanes, scale)));
      sum2 = hn::Add(sum2, hn::Mul(share, LoadValues(d, codes + 2 * lanes, scale)));
      sum3 = hn::Add(sum3, hn::Mul(share, LoadValues(d, codes + 3 * lanes, scale)));
    }
    const auto scaled = hn::Set(d, factor);
    hn::StoreU(hn::Mul(sum0, scaled), d, sum + i);
    hn::StoreU(hn::Mul(sum1, scaled), d, sum + i + lanes);
    hn::StoreU(hn::Mul(sum2, scaled), d, sum + i + 2 * lanes);
    hn::StoreU(hn::Mul(sum3, scaled), d, sum + i + 3 * lanes);
  }
}

bool DecodeSum(const Int8Term* terms, size_t count, size_t elements, float factor, float* sum) {
  const size_t whole = elements / kInt8BlockElements;
  auto lowest = hn::Zero(Codes());
  for (size_t block = 0; block < whole; ++block) {
    const size_t begin = block * kInt8BlockElements;
    for (size_t t = 0; t < count; ++t) lowest = LowestCodes(terms[t].codes + begin, lowest);
    SumBlock(terms, count, block, factor, sum + begin);
  }
  const size_t begin = whole * kInt8BlockElements;
  const size_t tail = elements - begin;
  if (tail != 0) {
    float padded_sum[kInt8BlockElements] = {};
    for (size_t t = 0; t < count; ++t) {
      uint8_t padded_codes[kInt8BlockElements] = {};
      std::memcpy(padded_codes, terms[t].codes + begin, tail);
      lowest = LowestCodes(padded_codes, lowest);
      AccumulateBlock(padded_codes, LoadScale(terms[t].scales + whole * sizeof(float)),
                      terms[t].weight, padded_sum);
    }
    for (size_t i = 0; i < tail; ++i) sum[begin + i] = padded_sum[i] * factor;
  }
  return !HasForbidden(lowest);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace atolld
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace atolld {

HWY_EXPORT(Encode);
HWY_EXPORT(Decode);
HWY_EXPORT(ScanCodes);
HWY_EXPORT(SquaredNorm);
HWY_EXPORT(DecodeAccumulate);
HWY_EXPORT(DecodeSum);

bool EncodeInt8(const float* values, size_t elements, const Rounding& rounding, uint8_t* scales,
                uint8_t* codes) {
  return HWY_DYNAMIC_DISPATCH(Encode)(values, elements, rounding, scales, codes);
}

bool DecodeInt8(const uint8_t* scales, const uint8_t* codes, size_t elements, Int8Store store,
                float* values) {
  return HWY_DYNAMIC_DISPATCH(Decode)(scales, codes, elements, store, values);
}

bool HasForbiddenInt8Code(const uint8_t* codes, size_t elements) {
  return HWY_DYNAMIC_DISPATCH(ScanCodes)(codes, elements);
}

bool SquaredNormInt8(const uint8_t* scales, const uint8_t* codes, size_t elements, double* norm) {
  return HWY_DYNAMIC_DISPATCH(SquaredNorm)(scales, codes, elements, norm);
}

void DecodeAccumulateInt8(const uint8_t* scales, const uint8_t* codes, size_t elements,
                          float weight, float* sum) {
  HWY_DYNAMIC_DISPATCH(DecodeAccumulate)(scales, codes, elements, weight, sum);
}

bool DecodeSumInt8(const Int8Term* terms, size_t count, size_t elements, float factor, float* sum) {
  return HWY_DYNAMIC_DISPATCH(DecodeSum)(terms, count, elements, factor, sum);
}

}  // namespace atolld
#endif  // HWY_ONCE

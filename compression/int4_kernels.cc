#include "compression/int4_kernels.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "compression/int4_format.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/int4_kernels.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "compression/dither-inl.h"
#include "compression/squares-inl.h"

HWY_BEFORE_NAMESPACE();
namespace atolld {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kBlock = kInt4BlockElements;
constexpr size_t kHalf = kBlock / 2;  // bytes of codes

// At most a quarter of a block, so that four vectors a step divide it, however long a scalable
// target's vectors are.
using Floats = hn::CappedTag<float, kBlock / 4>;
using Codes = hn::CappedTag<uint8_t, kHalf>;

HWY_INLINE int32_t BlockMagnitude(const float* values) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const size_t lanes = hn::Lanes(d);
  const auto magnitude = hn::Set(di, 0x7fffffff);
  auto max0 = hn::Zero(di);
  auto max1 = hn::Zero(di);
  for (size_t i = 0; i < kBlock; i += 2 * lanes) {
    const auto bits0 = hn::BitCast(di, hn::LoadU(d, values + i));
    const auto bits1 = hn::BitCast(di, hn::LoadU(d, values + i + lanes));
    max0 = hn::Max(max0, hn::And(bits0, magnitude));
    max1 = hn::Max(max1, hn::And(bits1, magnitude));
  }
  return hn::GetLane(hn::MaxOfLanes(di, hn::Max(max0, max1)));
}

// The low four bits of a rounded value are its code. `begin` is the block's place in the chunk.
template <class Rounder>
HWY_INLINE void QuantizeBlock(const Rounder& rounder, size_t begin, const float* values,
                              float inverse, uint8_t* codes) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const hn::Rebind<uint8_t, Floats> d8;
  const size_t lanes = hn::Lanes(d);
  const auto factor = hn::Set(d, inverse);
  const auto nibble = hn::Set(du, 15);
  for (size_t i = 0; i < kHalf; i += lanes) {
    const auto scaled0 = hn::Mul(hn::LoadU(d, values + i), factor);
    const auto scaled1 = hn::Mul(hn::LoadU(d, values + kHalf + i), factor);
    const auto low = hn::BitCast(du, rounder.Round(d, scaled0, begin + i, 7.0f));
    const auto high = hn::BitCast(du, rounder.Round(d, scaled1, begin + kHalf + i, 7.0f));
    // Of the byte that is kept, the shift has cleared the low half.
    const auto both = hn::Or(hn::And(low, nibble), hn::ShiftLeft<4>(high));
    hn::StoreU(hn::TruncateTo(d8, both), d8, codes + i);
  }
}

template <class Rounder>
HWY_INLINE bool EncodeBlock(const Rounder& rounder, size_t begin, const float* values,
                            uint8_t* scale_bytes, uint8_t* codes) {
  const int32_t magnitude = BlockMagnitude(values);
  if (magnitude >= 0x7f800000) return false;
  float absmax;
  std::memcpy(&absmax, &magnitude, sizeof(absmax));
  float scale = std::min(absmax / 7.0f, kInt4MaxScale);
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

// A short block lies differently: its high halves begin at ceil(tail / 2).
HWY_INLINE void PackTail(const uint8_t* padded, size_t tail, uint8_t* codes) {
  const size_t bytes = Int4CodeBytes(tail);
  const auto code = [padded](size_t i) {
    return i < kHalf ? padded[i] & 15 : padded[i - kHalf] >> 4;
  };
  for (size_t j = 0; j < bytes; ++j) {
    const int high = j + bytes < tail ? code(j + bytes) : 0;
    codes[j] = static_cast<uint8_t>(code(j) | high << 4);
  }
}

HWY_INLINE void UnpackTail(const uint8_t* codes, size_t tail, uint8_t* padded) {
  const size_t bytes = Int4CodeBytes(tail);
  std::memset(padded, 0, kHalf);
  for (size_t i = 0; i < tail; ++i) {
    const int code = i < bytes ? codes[i] & 15 : codes[i - bytes] >> 4;
    uint8_t& at = padded[i % kHalf];
    at = static_cast<uint8_t>(at | (i < kHalf ? code : code << 4));
  }
}

template <class Rounder>
HWY_INLINE bool EncodeBlocks(const Rounder& rounder, const float* values, size_t elements,
                             uint8_t* scales, uint8_t* codes) {
  const size_t whole = elements / kBlock * kBlock;
  for (size_t i = 0; i < whole; i += kBlock, scales += sizeof(float)) {
    if (!EncodeBlock(rounder, i, values + i, scales, codes + i / 2)) return false;
  }
  const size_t tail = elements - whole;
  if (tail == 0) return true;
  // Zeros change neither the maximum nor the other codes.
  float padded_values[kBlock] = {};
  uint8_t padded_codes[kHalf];
  std::memcpy(padded_values, values + whole, tail * sizeof(float));
  if (!EncodeBlock(rounder, whole, padded_values, scales, padded_codes)) return false;
  PackTail(padded_codes, tail, codes + whole / 2);
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

// The values of the low halves of as many bytes as D has lanes; of the high halves.
template <class D>
HWY_INLINE hn::VFromD<D> LowValues(D d, const uint8_t* codes, hn::VFromD<D> scale) {
  const hn::Rebind<int8_t, D> d8;
  const hn::RebindToSigned<D> di;
  const auto both = hn::PromoteTo(di, hn::LoadU(d8, reinterpret_cast<const int8_t*>(codes)));
  return hn::Mul(hn::ConvertTo(d, hn::ShiftRight<28>(hn::ShiftLeft<28>(both))), scale);
}

template <class D>
HWY_INLINE hn::VFromD<D> HighValues(D d, const uint8_t* codes, hn::VFromD<D> scale) {
  const hn::Rebind<int8_t, D> d8;
  const hn::RebindToSigned<D> di;
  const auto both = hn::PromoteTo(di, hn::LoadU(d8, reinterpret_cast<const int8_t*>(codes)));
  return hn::Mul(hn::ConvertTo(d, hn::ShiftRight<4>(both)), scale);
}

// Low halves first, then high ones: so values are stored in ascending order, which is faster by two
// fifths where they lie across cache lines.
HWY_INLINE void DecodeBlock(const uint8_t* codes, float scale, float* values) {
  const Floats d;
  const auto factor = hn::Set(d, scale);
  for (size_t i = 0; i < kHalf; i += hn::Lanes(d)) {
    hn::StoreU(LowValues(d, codes + i, factor), d, values + i);
  }
  for (size_t i = 0; i < kHalf; i += hn::Lanes(d)) {
    hn::StoreU(HighValues(d, codes + i, factor), d, values + kHalf + i);
  }
}

// What was seen so far: its bits 3 and 7 are set somewhere exactly if a half of a byte was -8. Each
// half x ^ 8 of a byte is 0 then, and (x - 1) & ~x has the top bit of x exactly where x is 0: a
// borrow comes from a lower half that is 0 itself.
HWY_INLINE hn::Vec<Codes> SeeCodes(const uint8_t* codes, hn::Vec<Codes> seen) {
  const Codes d;
  const auto forbidden = hn::Set(d, 0x88);
  const auto ones = hn::Set(d, 0x11);
  for (size_t i = 0; i < kHalf; i += hn::Lanes(d)) {
    const auto both = hn::Xor(hn::LoadU(d, codes + i), forbidden);
    seen = hn::Or(seen, hn::AndNot(both, hn::Sub(both, ones)));
  }
  return seen;
}

HWY_INLINE bool SawForbidden(hn::Vec<Codes> seen) {
  const Codes d;
  return !hn::AllTrue(d, hn::Eq(hn::And(seen, hn::Set(d, 0x88)), hn::Zero(d)));
}

bool Decode(const uint8_t* scales, const uint8_t* codes, size_t elements, float* values) {
  const size_t whole = elements / kBlock * kBlock;
  auto seen = hn::Zero(Codes());
  for (size_t i = 0; i < whole; i += kBlock, scales += sizeof(float)) {
    seen = SeeCodes(codes + i / 2, seen);
    DecodeBlock(codes + i / 2, LoadScale(scales), values + i);
  }
  const size_t tail = elements - whole;
  if (tail != 0) {
    uint8_t padded_codes[kHalf];
    float padded_values[kBlock];
    UnpackTail(codes + whole / 2, tail, padded_codes);
    seen = SeeCodes(padded_codes, seen);
    DecodeBlock(padded_codes, LoadScale(scales), padded_values);
    std::memcpy(values + whole, padded_values, tail * sizeof(float));
  }
  return !SawForbidden(seen);
}

bool ScanCodes(const uint8_t* codes, size_t bytes) {
  const size_t whole = bytes / kHalf * kHalf;
  auto seen = hn::Zero(Codes());
  for (size_t i = 0; i < whole; i += kHalf) seen = SeeCodes(codes + i, seen);
  uint8_t padded_codes[kHalf] = {};
  if (bytes != whole) std::memcpy(padded_codes, codes + whole, bytes - whole);
  return SawForbidden(SeeCodes(padded_codes, seen));
}

// At most 64 * 7 * 7: far below what an int32 lane holds, so the order of lanes is no matter.
#if HWY_TARGET == HWY_SCALAR  // a vector of it has no pairs
HWY_INLINE int32_t BlockSquares(const uint8_t* codes) {
  int32_t sum = 0;
  for (size_t i = 0; i < kHalf; ++i) {
    const int32_t high = static_cast<int8_t>(codes[i]) >> 4;
    const int32_t low = static_cast<int8_t>(codes[i] << 4) >> 4;
    sum += low * low + high * high;
  }
  return sum;
}
#else
HWY_INLINE int32_t BlockSquares(const uint8_t* codes) {
  const hn::CappedTag<int32_t, kHalf / 4> d32;
  const hn::Repartition<int16_t, decltype(d32)> d16;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  auto sum0 = hn::Zero(d32);
  auto sum1 = hn::Zero(d32);
  for (size_t i = 0; i < kHalf; i += hn::Lanes(d16)) {
    const auto both = hn::PromoteTo(d16, hn::LoadU(d8, reinterpret_cast<const int8_t*>(codes + i)));
    const auto low = hn::ShiftRight<12>(hn::ShiftLeft<12>(both));
    const auto high = hn::ShiftRight<4>(both);
    sum0 = hn::ReorderWidenMulAccumulate(d32, low, low, sum0, sum1);    // tidy: integer lanes
    sum0 = hn::ReorderWidenMulAccumulate(d32, high, high, sum0, sum1);  // tidy: integer lanes
  }
  return hn::GetLane(hn::SumOfLanes(d32, hn::Add(sum0, sum1)));  // tidy: integer lanes
}
#endif

bool SquaredNorm(const uint8_t* scales, const uint8_t* codes, size_t elements, double* norm) {
  const size_t whole = elements / kBlock * kBlock;
  auto seen = hn::Zero(Codes());
  double sum = 0;
  for (size_t i = 0; i < whole; i += kBlock, scales += sizeof(float)) {
    seen = SeeCodes(codes + i / 2, seen);
    sum = sum + ScaledSquares(BlockSquares(codes + i / 2), LoadScale(scales));
  }
  const size_t tail = elements - whole;
  if (tail != 0) {
    uint8_t padded_codes[kHalf];
    UnpackTail(codes + whole / 2, tail, padded_codes);
    seen = SeeCodes(padded_codes, seen);
    sum = sum + ScaledSquares(BlockSquares(padded_codes), LoadScale(scales));
  }
  *norm = sum;
  return !SawForbidden(seen);
}

HWY_INLINE void AccumulateBlock(const uint8_t* codes, float scale, float weight, float* sum) {
  const Floats d;
  const auto factor = hn::Set(d, scale);
  const auto share = hn::Set(d, weight);
  for (size_t i = 0; i < kHalf; i += hn::Lanes(d)) {
    const auto product = hn::Mul(share, LowValues(d, codes + i, factor));
    hn::StoreU(hn::Add(hn::LoadU(d, sum + i), product), d, sum + i);
  }
  for (size_t i = 0; i < kHalf; i += hn::Lanes(d)) {
    float* const upper = sum + kHalf + i;
    const auto product = hn::Mul(share, HighValues(d, codes + i, factor));
    hn::StoreU(hn::Add(hn::LoadU(d, upper), product), d, upper);
  }
}

void DecodeAccumulate(const uint8_t* scales, const uint8_t* codes, size_t elements, float weight,
                      float* sum) {
  const size_t whole = elements / kBlock * kBlock;
  for (size_t i = 0; i < whole; i += kBlock, scales += sizeof(float)) {
    AccumulateBlock(codes + i / 2, LoadScale(scales), weight, sum + i);
  }
  const size_t tail = elements - whole;
  if (tail == 0) return;
  uint8_t padded_codes[kHalf];
  float padded_sum[kBlock] = {};
  UnpackTail(codes + whole / 2, tail, padded_codes);
  std::memcpy(padded_sum, sum + whole, tail * sizeof(float));
  AccumulateBlock(padded_codes, LoadScale(scales), weight, padded_sum);
  std::memcpy(sum + whole, padded_sum, tail * sizeof(float));
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

bool EncodeInt4(const float* values, size_t elements, const Rounding& rounding, uint8_t* scales,
                uint8_t* codes) {
  return HWY_DYNAMIC_DISPATCH(Encode)(values, elements, rounding, scales, codes);
}

bool DecodeInt4(const uint8_t* scales, const uint8_t* codes, size_t elements, float* values) {
  return HWY_DYNAMIC_DISPATCH(Decode)(scales, codes, elements, values);
}

bool HasForbiddenInt4Code(const uint8_t* codes, size_t bytes) {
  return HWY_DYNAMIC_DISPATCH(ScanCodes)(codes, bytes);
}

bool SquaredNormInt4(const uint8_t* scales, const uint8_t* codes, size_t elements, double* norm) {
  return HWY_DYNAMIC_DISPATCH(SquaredNorm)(scales, codes, elements, norm);
}

void DecodeAccumulateInt4(const uint8_t* scales, const uint8_t* codes, size_t elements,
                          float weight, float* sum) {
  HWY_DYNAMIC_DISPATCH(DecodeAccumulate)(scales, codes, elements, weight, sum);
}

}  // namespace atolld
#endif  // HWY_ONCE

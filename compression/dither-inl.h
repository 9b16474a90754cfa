// The dither of rounding.h for kernels; included once a target.
#include <cstddef>
#include <cstdint>

#include "compression/rounding.h"

#if defined(ATOLL_COMPRESSION_DITHER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATOLL_COMPRESSION_DITHER_INL_H_
#undef ATOLL_COMPRESSION_DITHER_INL_H_
#else
#define ATOLL_COMPRESSION_DITHER_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace atolld {
namespace HWY_NAMESPACE {

// A vector of this much, added to a float of magnitude below 2^22, leaves the float rounded to an
// integer (ties to even) in the low bits.
constexpr float kRoundingMagic = 12582912.0f;  // 1.5 * 2^23

// What rounds to nearest: nothing is added, and no clamp is needed.
struct Nearest {
  explicit Nearest(uint64_t) {}
  // `scaled` + kRoundingMagic, rounded; `index` is the first value's place in the chunk.
  template <class D>
  HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> Round(D d, hwy::HWY_NAMESPACE::Vec<D> scaled, size_t,
                                              float) const {
    namespace hn = hwy::HWY_NAMESPACE;
    return hn::Add(scaled, hn::Set(d, kRoundingMagic));
  }
};

// What rounds by a key. Codes are clamped to -limit to limit: the largest value of a block may
// exceed limit * scale by a few ulps.
struct Dithered {
  explicit Dithered(uint64_t key)
      : low(static_cast<uint32_t>(key)), high(static_cast<uint32_t>(key >> 32)) {}

  template <class D>
  HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> Round(D d, hwy::HWY_NAMESPACE::Vec<D> scaled, size_t index,
                                              float limit) const {
    namespace hn = hwy::HWY_NAMESPACE;
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto at = hn::Iota(du, static_cast<uint32_t>(index));
    auto hash = hn::Add(hn::Mul(at, hn::Set(du, 0x9e3779b9u)), hn::Set(du, low));
    hash = hn::Mul(hn::Xor(hash, hn::ShiftRight<16>(hash)), hn::Set(du, 0x85ebca6bu));
    hash = hn::Add(hash, hn::Set(du, high));
    hash = hn::Mul(hn::Xor(hash, hn::ShiftRight<13>(hash)), hn::Set(du, 0xc2b2ae35u));
    hash = hn::Xor(hash, hn::ShiftRight<16>(hash));
    // Exact: multiples of 2^-17 below 1.
    const auto whole = hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<16>(hash)));
    const auto dither = hn::Add(hn::Mul(whole, hn::Set(d, 0x1p-16f)), hn::Set(d, 0x1p-17f - 0.5f));
    const auto rounded = hn::Add(hn::Add(scaled, dither), hn::Set(d, kRoundingMagic));
    return hn::Min(hn::Max(rounded, hn::Set(d, kRoundingMagic - limit)),
                   hn::Set(d, kRoundingMagic + limit));
  }

  const uint32_t low;
  const uint32_t high;
};

}  // namespace HWY_NAMESPACE
}  // namespace atolld
HWY_AFTER_NAMESPACE();

#endif  // ATOLL_COMPRESSION_DITHER_INL_H_

#include "compression/scaled_kernels.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/scaled_kernels.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace atolld {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Adding this to a float of magnitude below 2^22 leaves the float rounded to an integer (ties to
// even) in the low bits.
constexpr float kRoundingMagic = 12582912.0f;  // 1.5 * 2^23

// The alignment that every allocator gives to a large vector. The stores are narrower than the
// target's vectors, but fill whole cache lines in order.
constexpr size_t kStreamAlignment = 16;

// Rounds to nearest: nothing is added, and no clamp is needed.
struct Nearest {
  // `scaled` + kRoundingMagic, rounded; `index` is the first value's place in the chunk.
  template <class D>
  HWY_INLINE hn::Vec<D> Round(D d, hn::Vec<D> scaled, size_t, float) const {
    return hn::Add(scaled, hn::Set(d, kRoundingMagic));
  }
};

// Rounds by a key. Codes are clamped to -limit to limit, since the largest value of a block may
// exceed limit * scale by a few ulps.
struct Dithered {
  explicit Dithered(uint64_t key)
      : low(static_cast<uint32_t>(key)), high(static_cast<uint32_t>(key >> 32)) {}

  template <class D>
  HWY_INLINE hn::Vec<D> Round(D d, hn::Vec<D> scaled, size_t index, float limit) const {
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

// The structs below have what differs between the forms, for a whole block at a time. `Codes` is
// the form in which the scan for forbidden codes reads codes; its result so far is a vector of that
// type. `begin` is a block's place in the chunk.

struct Int8 {
  static constexpr size_t kBlock = kInt8BlockElements;
  static constexpr size_t kBytes = kBlock;  // of codes
  static constexpr float kMost = 127.0f;
  static constexpr float kMaxScale = kInt8MaxScale;
  // At most a quarter of a block, so that four vectors a step divide it, however long a scalable
  // target's vectors are.
  using Floats = hn::CappedTag<float, kBlock / 4>;
  using Codes = hn::CappedTag<int8_t, kBlock>;

  template <class D>
  static HWY_INLINE hn::VFromD<D> Values(D d, const uint8_t* codes, hn::VFromD<D> scale) {
    const hn::Rebind<int8_t, D> d8;
    const hn::RebindToSigned<D> di;
    const auto code = hn::LoadU(d8, reinterpret_cast<const int8_t*>(codes));
    return hn::Mul(hn::ConvertTo(d, hn::PromoteTo(di, code)), scale);
  }

  // The low byte of a rounded value is its code.
  template <class Rounder>
  static HWY_INLINE void Quantize(const Rounder& rounder, size_t begin, const float* values,
                                  float inverse, uint8_t* codes) {
    const Floats d;
    const hn::RebindToUnsigned<Floats> du;
    const hn::Rebind<uint8_t, Floats> d8;
    const size_t lanes = hn::Lanes(d);
    const auto factor = hn::Set(d, inverse);
    for (size_t i = 0; i < kBlock; i += lanes) {
      const auto scaled = hn::Mul(hn::LoadU(d, values + i), factor);
      const auto rounded = rounder.Round(d, scaled, begin + i, kMost);
      hn::StoreU(hn::TruncateTo(d8, hn::BitCast(du, rounded)), d8, codes + i);
    }
  }

  static HWY_INLINE void Decode(const uint8_t* codes, float scale, float* values) {
    const Floats d;
    const size_t lanes = hn::Lanes(d);
    const auto factor = hn::Set(d, scale);
    for (size_t i = 0; i < kBlock; i += lanes) {
      hn::StoreU(Values(d, codes + i, factor), d, values + i);
    }
  }

  static HWY_INLINE void Accumulate(const uint8_t* codes, float scale, float weight, float* sum) {
    const Floats d;
    const size_t lanes = hn::Lanes(d);
    const auto factor = hn::Set(d, scale);
    const auto share = hn::Set(d, weight);
    for (size_t i = 0; i < kBlock; i += lanes) {
      const auto product = hn::Mul(share, Values(d, codes + i, factor));
      hn::StoreU(hn::Add(hn::LoadU(d, sum + i), product), d, sum + i);
    }
  }

  // The lowest codes so far.
  static HWY_INLINE hn::Vec<Codes> See(const uint8_t* codes, hn::Vec<Codes> lowest) {
    const Codes d;
    for (size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
      lowest = hn::Min(lowest, hn::LoadU(d, reinterpret_cast<const int8_t*>(codes + i)));
    }
    return lowest;
  }

  static HWY_INLINE bool SawForbidden(hn::Vec<Codes> lowest) {
    const Codes d;
    return !hn::AllFalse(d, hn::Eq(lowest, hn::Set(d, static_cast<int8_t>(-128))));
  }

  // At most 256 * 127 * 127: far below what an int32 lane holds, so the order of lanes is no
  // matter.
#if HWY_TARGET == HWY_SCALAR  // a vector of it has no pairs
  static HWY_INLINE int32_t Squares(const uint8_t* codes) {
    int32_t sum = 0;
    for (size_t i = 0; i < kBlock; ++i) {
      const int32_t code = static_cast<int8_t>(codes[i]);
      sum += code * code;
    }
    return sum;
  }
#else
  static HWY_INLINE int32_t Squares(const uint8_t* codes) {
    const hn::CappedTag<int32_t, kBlock / 4> d32;
    const hn::Repartition<int16_t, decltype(d32)> d16;
    const hn::Rebind<int8_t, decltype(d16)> d8;
    auto sum0 = hn::Zero(d32);
    auto sum1 = hn::Zero(d32);
    for (size_t i = 0; i < kBlock; i += hn::Lanes(d16)) {
      const auto code =
          hn::PromoteTo(d16, hn::LoadU(d8, reinterpret_cast<const int8_t*>(codes + i)));
      sum0 = hn::ReorderWidenMulAccumulate(d32, code, code, sum0, sum1);  // tidy: integer lanes
    }
    return hn::GetLane(hn::SumOfLanes(d32, hn::Add(sum0, sum1)));  // tidy: integer lanes
  }
#endif

  // Between the codes of a short block and those of a whole one.
  static HWY_INLINE void PackTail(const uint8_t* padded, size_t tail, uint8_t* codes) {
    std::memcpy(codes, padded, tail);
  }
  static HWY_INLINE void UnpackTail(const uint8_t* codes, size_t tail, uint8_t* padded) {
    std::memset(padded, 0, kBytes);
    std::memcpy(padded, codes, tail);
  }
};

struct Int4 {
  static constexpr size_t kBlock = kInt4BlockElements;
  static constexpr size_t kBytes = kBlock / 2;
  static constexpr float kMost = 7.0f;
  static constexpr float kMaxScale = kInt4MaxScale;
  using Floats = hn::CappedTag<float, kBlock / 4>;
  using Codes = hn::CappedTag<uint8_t, kBytes>;

  // The values of the low halves of as many bytes as D has lanes; of the high halves.
  template <class D>
  static HWY_INLINE hn::VFromD<D> LowValues(D d, const uint8_t* codes, hn::VFromD<D> scale) {
    const hn::Rebind<int8_t, D> d8;
    const hn::RebindToSigned<D> di;
    const auto both = hn::PromoteTo(di, hn::LoadU(d8, reinterpret_cast<const int8_t*>(codes)));
    return hn::Mul(hn::ConvertTo(d, hn::ShiftRight<28>(hn::ShiftLeft<28>(both))), scale);
  }

  template <class D>
  static HWY_INLINE hn::VFromD<D> HighValues(D d, const uint8_t* codes, hn::VFromD<D> scale) {
    const hn::Rebind<int8_t, D> d8;
    const hn::RebindToSigned<D> di;
    const auto both = hn::PromoteTo(di, hn::LoadU(d8, reinterpret_cast<const int8_t*>(codes)));
    return hn::Mul(hn::ConvertTo(d, hn::ShiftRight<4>(both)), scale);
  }

  // The low four bits of a rounded value are its code.
  template <class Rounder>
  static HWY_INLINE void Quantize(const Rounder& rounder, size_t begin, const float* values,
                                  float inverse, uint8_t* codes) {
    const Floats d;
    const hn::RebindToUnsigned<Floats> du;
    const hn::Rebind<uint8_t, Floats> d8;
    const size_t lanes = hn::Lanes(d);
    const auto factor = hn::Set(d, inverse);
    const auto nibble = hn::Set(du, 15);
    for (size_t i = 0; i < kBytes; i += lanes) {
      const auto scaled0 = hn::Mul(hn::LoadU(d, values + i), factor);
      const auto scaled1 = hn::Mul(hn::LoadU(d, values + kBytes + i), factor);
      const auto low = hn::BitCast(du, rounder.Round(d, scaled0, begin + i, kMost));
      const auto high = hn::BitCast(du, rounder.Round(d, scaled1, begin + kBytes + i, kMost));
      // Of the byte that is kept, the shift has cleared the low half.
      const auto both = hn::Or(hn::And(low, nibble), hn::ShiftLeft<4>(high));
      hn::StoreU(hn::TruncateTo(d8, both), d8, codes + i);
    }
  }

  // Low halves first, then high ones: so values are stored in ascending order, which is faster by
  // two fifths where they lie across cache lines.
  static HWY_INLINE void Decode(const uint8_t* codes, float scale, float* values) {
    const Floats d;
    const auto factor = hn::Set(d, scale);
    for (size_t i = 0; i < kBytes; i += hn::Lanes(d)) {
      hn::StoreU(LowValues(d, codes + i, factor), d, values + i);
    }
    for (size_t i = 0; i < kBytes; i += hn::Lanes(d)) {
      hn::StoreU(HighValues(d, codes + i, factor), d, values + kBytes + i);
    }
  }

  static HWY_INLINE void Accumulate(const uint8_t* codes, float scale, float weight, float* sum) {
    const Floats d;
    const auto factor = hn::Set(d, scale);
    const auto share = hn::Set(d, weight);
    for (size_t i = 0; i < kBytes; i += hn::Lanes(d)) {
      const auto product = hn::Mul(share, LowValues(d, codes + i, factor));
      hn::StoreU(hn::Add(hn::LoadU(d, sum + i), product), d, sum + i);
    }
    for (size_t i = 0; i < kBytes; i += hn::Lanes(d)) {
      float* const upper = sum + kBytes + i;
      const auto product = hn::Mul(share, HighValues(d, codes + i, factor));
      hn::StoreU(hn::Add(hn::LoadU(d, upper), product), d, upper);
    }
  }

  // What was seen so far: its bits 3 and 7 are set somewhere exactly if a half of a byte was -8.
  // Each half x ^ 8 of a byte is 0 then, and (x - 1) & ~x has the top bit of x exactly where x is
  // 0: a borrow comes from a lower half that is 0 itself.
  static HWY_INLINE hn::Vec<Codes> See(const uint8_t* codes, hn::Vec<Codes> seen) {
    const Codes d;
    const auto forbidden = hn::Set(d, 0x88);
    const auto ones = hn::Set(d, 0x11);
    for (size_t i = 0; i < kBytes; i += hn::Lanes(d)) {
      const auto both = hn::Xor(hn::LoadU(d, codes + i), forbidden);
      seen = hn::Or(seen, hn::AndNot(both, hn::Sub(both, ones)));
    }
    return seen;
  }

  static HWY_INLINE bool SawForbidden(hn::Vec<Codes> seen) {
    const Codes d;
    return !hn::AllTrue(d, hn::Eq(hn::And(seen, hn::Set(d, 0x88)), hn::Zero(d)));
  }

  // At most 64 * 7 * 7: far below what an int32 lane holds, so the order of lanes is no matter.
#if HWY_TARGET == HWY_SCALAR  // a vector of it has no pairs
  static HWY_INLINE int32_t Squares(const uint8_t* codes) {
    int32_t sum = 0;
    for (size_t i = 0; i < kBytes; ++i) {
      const int32_t high = static_cast<int8_t>(codes[i]) >> 4;
      const int32_t low = static_cast<int8_t>(codes[i] << 4) >> 4;
      sum += low * low + high * high;
    }
    return sum;
  }
#else
  static HWY_INLINE int32_t Squares(const uint8_t* codes) {
    const hn::CappedTag<int32_t, kBytes / 4> d32;
    const hn::Repartition<int16_t, decltype(d32)> d16;
    const hn::Rebind<int8_t, decltype(d16)> d8;
    auto sum0 = hn::Zero(d32);
    auto sum1 = hn::Zero(d32);
    for (size_t i = 0; i < kBytes; i += hn::Lanes(d16)) {
      const auto both =
          hn::PromoteTo(d16, hn::LoadU(d8, reinterpret_cast<const int8_t*>(codes + i)));
      const auto low = hn::ShiftRight<12>(hn::ShiftLeft<12>(both));
      const auto high = hn::ShiftRight<4>(both);
      sum0 = hn::ReorderWidenMulAccumulate(d32, low, low, sum0, sum1);    // tidy: integer lanes
      sum0 = hn::ReorderWidenMulAccumulate(d32, high, high, sum0, sum1);  // tidy: integer lanes
    }
    return hn::GetLane(hn::SumOfLanes(d32, hn::Add(sum0, sum1)));  // tidy: integer lanes
  }
#endif

  // A short block lies differently: its high halves begin at ceil(tail / 2).
  static HWY_INLINE void PackTail(const uint8_t* padded, size_t tail, uint8_t* codes) {
    const size_t bytes = CodeBytes(ScaledForm::kInt4, tail);
    const auto code = [padded](size_t i) {
      return i < kBytes ? padded[i] & 15 : padded[i - kBytes] >> 4;
    };
    for (size_t j = 0; j < bytes; ++j) {
      const int high = j + bytes < tail ? code(j + bytes) : 0;
      codes[j] = static_cast<uint8_t>(code(j) | high << 4);
    }
  }

  static HWY_INLINE void UnpackTail(const uint8_t* codes, size_t tail, uint8_t* padded) {
    const size_t bytes = CodeBytes(ScaledForm::kInt4, tail);
    std::memset(padded, 0, kBytes);
    for (size_t i = 0; i < tail; ++i) {
      const int code = i < bytes ? codes[i] & 15 : codes[i - bytes] >> 4;
      uint8_t& at = padded[i % kBytes];
      at = static_cast<uint8_t>(at | (i < kBytes ? code : code << 4));
    }
  }
};

// Returns the bytes of the codes of `elements` values in whole blocks.
template <class Form>
HWY_INLINE size_t BytesOf(size_t elements) {
  return elements / (Form::kBlock / Form::kBytes);
}

HWY_INLINE float LoadScale(const uint8_t* bytes) {
  float scale;
  std::memcpy(&scale, bytes, sizeof(scale));
  return scale;
}

template <class Form>
HWY_INLINE int32_t BlockMagnitude(const float* values) {
  const typename Form::Floats d;
  const hn::RebindToSigned<typename Form::Floats> di;
  const size_t lanes = hn::Lanes(d);
  const auto magnitude = hn::Set(di, 0x7fffffff);
  auto max0 = hn::Zero(di);
  auto max1 = hn::Zero(di);
  for (size_t i = 0; i < Form::kBlock; i += 2 * lanes) {
    const auto bits0 = hn::BitCast(di, hn::LoadU(d, values + i));
    const auto bits1 = hn::BitCast(di, hn::LoadU(d, values + i + lanes));
    max0 = hn::Max(max0, hn::And(bits0, magnitude));
    max1 = hn::Max(max1, hn::And(bits1, magnitude));
  }
  return hn::GetLane(hn::MaxOfLanes(di, hn::Max(max0, max1)));
}

template <class Form, class Rounder>
HWY_INLINE bool EncodeBlock(const Rounder& rounder, size_t begin, const float* values,
                            uint8_t* scale_bytes, uint8_t* codes) {
  const int32_t magnitude = BlockMagnitude<Form>(values);
  if (magnitude >= 0x7f800000) return false;
  float absmax;
  std::memcpy(&absmax, &magnitude, sizeof(absmax));
  float scale = std::min(absmax / Form::kMost, Form::kMaxScale);
  float inverse = 0.0f;
  if (scale < 0x1p-100f) {
    scale = 0.0f;
  } else {
    inverse = 1.0f / scale;
  }
  std::memcpy(scale_bytes, &scale, sizeof(scale));
  Form::Quantize(rounder, begin, values, inverse, codes);
  return true;
}

template <class Form, class Rounder>
HWY_INLINE bool EncodeBlocks(const Rounder& rounder, const float* values, size_t elements,
                             uint8_t* scales, uint8_t* codes) {
  const size_t whole = elements / Form::kBlock * Form::kBlock;
  for (size_t i = 0; i < whole; i += Form::kBlock, scales += sizeof(float)) {
    if (!EncodeBlock<Form>(rounder, i, values + i, scales, codes + BytesOf<Form>(i))) return false;
  }
  const size_t tail = elements - whole;
  if (tail == 0) return true;
  // Zeros change neither the maximum nor the other codes.
  float padded_values[Form::kBlock] = {};
  uint8_t padded_codes[Form::kBytes];
  std::memcpy(padded_values, values + whole, tail * sizeof(float));
  if (!EncodeBlock<Form>(rounder, whole, padded_values, scales, padded_codes)) return false;
  Form::PackTail(padded_codes, tail, codes + BytesOf<Form>(whole));
  return true;
}

template <class Form>
bool Encode(const float* values, size_t elements, const uint64_t* key, uint8_t* scales,
            uint8_t* codes) {
  return key != nullptr ? EncodeBlocks<Form>(Dithered(*key), values, elements, scales, codes)
                        : EncodeBlocks<Form>(Nearest(), values, elements, scales, codes);
}

// Like Int8::Decode, but writes past the caches. `values` must be aligned to kStreamAlignment.
HWY_INLINE void StreamBlock(const uint8_t* codes, float scale, float* values) {
  const hn::CappedTag<float, kStreamAlignment / sizeof(float)> d;
  alignas(kStreamAlignment) float block[Int8::kBlock];
  Int8::Decode(codes, scale, block);
  for (size_t i = 0; i < Int8::kBlock; i += hn::Lanes(d)) {
    hn::Stream(hn::Load(d, block + i), d, values + i);
  }
}

// Handles the short block at the end. Returns what the scan has seen.
template <class Form>
HWY_INLINE hn::Vec<typename Form::Codes> DecodeTail(const uint8_t* codes, float scale, size_t tail,
                                                    hn::Vec<typename Form::Codes> seen,
                                                    float* values) {
  uint8_t padded_codes[Form::kBytes];
  float padded_values[Form::kBlock];
  Form::UnpackTail(codes, tail, padded_codes);
  Form::Decode(padded_codes, scale, padded_values);
  std::memcpy(values, padded_values, tail * sizeof(float));
  return Form::See(padded_codes, seen);
}

template <class Form>
bool Decode(const uint8_t* scales, const uint8_t* codes, size_t elements, float* values) {
  const size_t whole = elements / Form::kBlock * Form::kBlock;
  auto seen = hn::Zero(typename Form::Codes());
  for (size_t i = 0; i < whole; i += Form::kBlock, scales += sizeof(float)) {
    const uint8_t* const block = codes + BytesOf<Form>(i);
    seen = Form::See(block, seen);
    Form::Decode(block, LoadScale(scales), values + i);
  }
  const size_t tail = elements - whole;
  if (tail != 0) {
    seen = DecodeTail<Form>(codes + BytesOf<Form>(whole), LoadScale(scales), tail, seen,
                            values + whole);
  }
  return !Form::SawForbidden(seen);
}

bool StreamInt8(const uint8_t* scales, const uint8_t* codes, size_t elements, float* values) {
  const size_t whole = elements / Int8::kBlock * Int8::kBlock;
  auto seen = hn::Zero(Int8::Codes());
  for (size_t i = 0; i < whole; i += Int8::kBlock, scales += sizeof(float)) {
    seen = Int8::See(codes + i, seen);
    StreamBlock(codes + i, LoadScale(scales), values + i);
  }
  hwy::FlushStream();
  const size_t tail = elements - whole;
  if (tail != 0) {
    seen = DecodeTail<Int8>(codes + whole, LoadScale(scales), tail, seen, values + whole);
  }
  return !Int8::SawForbidden(seen);
}

template <class Form>
bool Scan(const uint8_t* codes, size_t bytes) {
  const size_t whole = bytes / Form::kBytes * Form::kBytes;
  auto seen = hn::Zero(typename Form::Codes());
  for (size_t i = 0; i < whole; i += Form::kBytes) seen = Form::See(codes + i, seen);
  uint8_t padded_codes[Form::kBytes] = {};
  if (bytes != whole) std::memcpy(padded_codes, codes + whole, bytes - whole);
  return Form::SawForbidden(Form::See(padded_codes, seen));
}

// `squares` is the sum of the squares of a block's codes. Only the last product is rounded.
HWY_INLINE double ScaledSquares(int32_t squares, float scale) {
  const double exact = static_cast<double>(scale);
  return (exact * exact) * static_cast<double>(squares);
}

template <class Form>
bool SquaredNorm(const uint8_t* scales, const uint8_t* codes, size_t elements, double* norm) {
  const size_t whole = elements / Form::kBlock * Form::kBlock;
  auto seen = hn::Zero(typename Form::Codes());
  double sum = 0;
  for (size_t i = 0; i < whole; i += Form::kBlock, scales += sizeof(float)) {
    const uint8_t* const block = codes + BytesOf<Form>(i);
    seen = Form::See(block, seen);
    sum = sum + ScaledSquares(Form::Squares(block), LoadScale(scales));
  }
  const size_t tail = elements - whole;
  if (tail != 0) {
    uint8_t padded_codes[Form::kBytes];
    Form::UnpackTail(codes + BytesOf<Form>(whole), tail, padded_codes);
    seen = Form::See(padded_codes, seen);
    sum = sum + ScaledSquares(Form::Squares(padded_codes), LoadScale(scales));
  }
  *norm = sum;
  return !Form::SawForbidden(seen);
}

template <class Form>
void Accumulate(const uint8_t* scales, const uint8_t* codes, size_t elements, float weight,
                float* sum) {
  const size_t whole = elements / Form::kBlock * Form::kBlock;
  for (size_t i = 0; i < whole; i += Form::kBlock, scales += sizeof(float)) {
    Form::Accumulate(codes + BytesOf<Form>(i), LoadScale(scales), weight, sum + i);
  }
  const size_t tail = elements - whole;
  if (tail == 0) return;
  uint8_t padded_codes[Form::kBytes];
  float padded_sum[Form::kBlock] = {};
  Form::UnpackTail(codes + BytesOf<Form>(whole), tail, padded_codes);
  std::memcpy(padded_sum, sum + whole, tail * sizeof(float));
  Form::Accumulate(padded_codes, LoadScale(scales), weight, padded_sum);
  std::memcpy(sum + whole, padded_sum, tail * sizeof(float));
}

// Computes one block of the sum, which stays in registers until all terms are in it.
HWY_INLINE void SumBlock(const Int8Term* terms, size_t count, size_t block, float factor,
                         float* sum) {
  const Int8::Floats d;
  const size_t lanes = hn::Lanes(d);
  const size_t begin = block * Int8::kBlock;
  for (size_t i = 0; i < Int8::kBlock; i += 4 * lanes) {
    auto sum0 = hn::Zero(d);
    auto sum1 = hn::Zero(d);
    auto sum2 = hn::Zero(d);
    auto sum3 = hn::Zero(d);
    for (size_t t = 0; t < count; ++t) {
      const uint8_t* codes = terms[t].codes + begin + i;
      const auto scale = hn::Set(d, LoadScale(terms[t].scales + block * sizeof(float)));
      const auto share = hn::Set(d, terms[t].weight);
      sum0 = hn::Add(sum0, hn::Mul(share, Int8::Values(d, codes, scale)));
      sum1 = hn::Add(sum1, hn::Mul(share, Int8::Values(d, codes + lanes, scale)));
      sum2 = hn::Add(sum2, hn::Mul(share, Int8::Values(d, codes + 2 * lanes, scale)));
      sum3 = hn::Add(sum3, hn::Mul(share, Int8::Values(d, codes + 3 * lanes, scale)));
    }
    const auto scaled = hn::Set(d, factor);
    hn::StoreU(hn::Mul(sum0, scaled), d, sum + i);
    hn::StoreU(hn::Mul(sum1, scaled), d, sum + i + lanes);
    hn::StoreU(hn::Mul(sum2, scaled), d, sum + i + 2 * lanes);
    hn::StoreU(hn::Mul(sum3, scaled), d, sum + i + 3 * lanes);
  }
}

bool DecodeSum(const Int8Term* terms, size_t count, size_t elements, float factor, float* sum) {
  const size_t whole = elements / Int8::kBlock;
  auto seen = hn::Zero(Int8::Codes());
  for (size_t block = 0; block < whole; ++block) {
    const size_t begin = block * Int8::kBlock;
    for (size_t t = 0; t < count; ++t) seen = Int8::See(terms[t].codes + begin, seen);
    SumBlock(terms, count, block, factor, sum + begin);
  }
  const size_t begin = whole * Int8::kBlock;
  const size_t tail = elements - begin;
  if (tail != 0) {
    float padded_sum[Int8::kBlock] = {};
    for (size_t t = 0; t < count; ++t) {
      uint8_t padded_codes[Int8::kBytes];
      Int8::UnpackTail(terms[t].codes + begin, tail, padded_codes);
      seen = Int8::See(padded_codes, seen);
      Int8::Accumulate(padded_codes, LoadScale(terms[t].scales + whole * sizeof(float)),
                       terms[t].weight, padded_sum);
    }
    for (size_t i = 0; i < tail; ++i) sum[begin + i] = padded_sum[i] * factor;
  }
  return !Int8::SawForbidden(seen);
}

bool EncodeForm(ScaledForm form, const float* values, size_t elements, const uint64_t* key,
                uint8_t* scales, uint8_t* codes) {
  return form == ScaledForm::kInt8 ? Encode<Int8>(values, elements, key, scales, codes)
                                   : Encode<Int4>(values, elements, key, scales, codes);
}

bool DecodeForm(ScaledForm form, const uint8_t* scales, const uint8_t* codes, size_t elements,
                ScaledStore store, float* values) {
  if (form == ScaledForm::kInt4) return Decode<Int4>(scales, codes, elements, values);
  const bool aligned = reinterpret_cast<uintptr_t>(values) % kStreamAlignment == 0;
  return store == ScaledStore::kStreamed && aligned ? StreamInt8(scales, codes, elements, values)
                                                    : Decode<Int8>(scales, codes, elements, values);
}

bool ScanForm(ScaledForm form, const uint8_t* codes, size_t bytes) {
  return form == ScaledForm::kInt8 ? Scan<Int8>(codes, bytes) : Scan<Int4>(codes, bytes);
}

bool NormForm(ScaledForm form, const uint8_t* scales, const uint8_t* codes, size_t elements,
              double* norm) {
  return form == ScaledForm::kInt8 ? SquaredNorm<Int8>(scales, codes, elements, norm)
                                   : SquaredNorm<Int4>(scales, codes, elements, norm);
}

void AccumulateForm(ScaledForm form, const uint8_t* scales, const uint8_t* codes, size_t elements,
                    float weight, float* sum) {
  form == ScaledForm::kInt8 ? Accumulate<Int8>(scales, codes, elements, weight, sum)
                            : Accumulate<Int4>(scales, codes, elements, weight, sum);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace atolld
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace atolld {

HWY_EXPORT(EncodeForm);
HWY_EXPORT(DecodeForm);
HWY_EXPORT(ScanForm);
HWY_EXPORT(NormForm);
HWY_EXPORT(AccumulateForm);
HWY_EXPORT(DecodeSum);

bool EncodeScaled(ScaledForm form, const float* values, size_t elements, const uint64_t* key,
                  uint8_t* scales, uint8_t* codes) {
  return HWY_DYNAMIC_DISPATCH(EncodeForm)(form, values, elements, key, scales, codes);
}

bool DecodeScaled(ScaledForm form, const uint8_t* scales, const uint8_t* codes, size_t elements,
                  ScaledStore store, float* values) {
  return HWY_DYNAMIC_DISPATCH(DecodeForm)(form, scales, codes, elements, store, values);
}

bool HasForbiddenCode(ScaledForm form, const uint8_t* codes, size_t bytes) {
  return HWY_DYNAMIC_DISPATCH(ScanForm)(form, codes, bytes);
}

bool SquaredNormScaled(ScaledForm form, const uint8_t* scales, const uint8_t* codes,
                       size_t elements, double* norm) {
  return HWY_DYNAMIC_DISPATCH(NormForm)(form, scales, codes, elements, norm);
}

void DecodeAccumulateScaled(ScaledForm form, const uint8_t* scales, const uint8_t* codes,
                            size_t elements, float weight, float* sum) {
  HWY_DYNAMIC_DISPATCH(AccumulateForm)(form, scales, codes, elements, weight, sum);
}

bool DecodeSumInt8(const Int8Term* terms, size_t count, size_t elements, float factor, float* sum) {
  return HWY_DYNAMIC_DISPATCH(DecodeSum)(terms, count, elements, factor, sum);
}

}  // namespace atolld
#endif  // HWY_ONCE

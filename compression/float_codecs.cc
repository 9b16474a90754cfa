#include "compression/float_codecs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/float_codecs.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace atolld {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
// The rest of a span after its whole vectors goes through the same operations, one lane at a time.
using OneFloat = hn::CappedTag<float, 1>;

template <class D>
using Ints = hn::RebindToSigned<D>;
template <class D>
using IntsOf = hn::Vec<Ints<D>>;

// Both forms below have 16 bits: sign, exponent, mantissa. `magnitude` is a float's bits without
// its sign.

struct Fp16 {
  static constexpr int32_t kInfinity = 0x7c00;

  template <class D>
  static HWY_INLINE IntsOf<D> Narrow(D d, IntsOf<D> magnitude) {
    const Ints<D> di;
    // Below 2^-14 halves are multiples of 2^-24, which is the last place of 0.5: adding that
    // rounds.
    const auto half = hn::Set(d, 0.5f);
    const auto tiny =
        hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), half)), hn::BitCast(di, half));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 1));
    // Exponents are biased by 15 instead of 127; the carry of the rounding may raise the exponent.
    const auto rounding = hn::Add(odd, hn::Set(di, 0xfff - (112 << 23)));
    const auto normal = hn::ShiftRight<13>(hn::Add(magnitude, rounding));
    const auto is_tiny = hn::Lt(magnitude, hn::Set(di, 113 << 23));
    return hn::IfThenElse(is_tiny, tiny, hn::Min(normal, hn::Set(di, kInfinity - 1)));
  }

  template <class D>
  static HWY_INLINE IntsOf<D> Widen(D d, IntsOf<D> half) {
    const Ints<D> di;
    const auto shifted = hn::ShiftLeft<13>(half);
    const auto normal = hn::Add(shifted, hn::Set(di, 112 << 23));
    // Without the leading bit: as if it were 2^-14 more, less that.
    const auto leading = hn::Set(di, 113 << 23);
    const auto tiny = hn::Sub(hn::BitCast(d, hn::Add(shifted, leading)), hn::BitCast(d, leading));
    return hn::IfThenElse(hn::Lt(half, hn::Set(di, 0x400)), hn::BitCast(di, tiny), normal);
  }
};

struct Bf16 {
  static constexpr int32_t kInfinity = 0x7f80;

  template <class D>
  static HWY_INLINE IntsOf<D> Narrow(D, IntsOf<D> magnitude) {
    const Ints<D> di;
    const auto odd = hn::And(hn::ShiftRight<16>(magnitude), hn::Set(di, 1));
    const auto rounding = hn::Add(odd, hn::Set(di, 0x7fff));
    // The sum may reach the sign bit's neighbour, never the sign: magnitudes are below infinity's.
    return hn::Min(hn::ShiftRight<16>(hn::Add(magnitude, rounding)), hn::Set(di, kInfinity - 1));
  }

  template <class D>
  static HWY_INLINE IntsOf<D> Widen(D, IntsOf<D> half) {
    return hn::ShiftLeft<16>(half);
  }
};

// Halves need no alignment, so a vector of halves is accessed as bytes; the target of single values
// has no vectors of bytes.
template <class D16>
HWY_INLINE void StoreHalves(D16, hn::VFromD<D16> halves, uint8_t* bytes) {
#if HWY_TARGET == HWY_SCALAR
  const uint16_t half = hn::GetLane(halves);
  std::memcpy(bytes, &half, sizeof(half));
#else
  const hn::Repartition<uint8_t, D16> d8;
  hn::StoreU(hn::BitCast(d8, halves), d8, bytes);
#endif
}

template <class D>
HWY_INLINE IntsOf<D> LoadHalves(D, const uint8_t* bytes) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> du;
#if HWY_TARGET == HWY_SCALAR
  uint16_t half;
  std::memcpy(&half, bytes, sizeof(half));
  const auto halves = hn::Set(d16, half);
#else
  const hn::Repartition<uint8_t, decltype(d16)> d8;
  const auto halves = hn::BitCast(d16, hn::LoadU(d8, bytes));
#endif
  return hn::BitCast(Ints<D>(), hn::PromoteTo(du, halves));
}

// Returns the magnitudes, so that the caller sees NaN and infinity.
template <class Form, class D>
HWY_INLINE IntsOf<D> EncodeLanes(D d, const float* values, uint8_t* bytes) {
  const Ints<D> di;
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::BitCast(di, hn::LoadU(d, values));
  const auto magnitude = hn::And(bits, hn::Set(di, 0x7fffffff));
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(di, 0x8000));
  const auto half = hn::Or(Form::Narrow(d, magnitude), sign);
  StoreHalves(d16, hn::TruncateTo(d16, hn::BitCast(du, half)), bytes);
  return magnitude;
}

template <class Form, class D>
HWY_INLINE hn::Vec<D> Widened(D d, IntsOf<D> halves) {
  const Ints<D> di;
  const auto sign = hn::ShiftLeft<16>(hn::And(halves, hn::Set(di, 0x8000)));
  const auto magnitude = Form::Widen(d, hn::And(halves, hn::Set(di, 0x7fff)));
  return hn::BitCast(d, hn::Or(magnitude, sign));
}

template <class D>
HWY_INLINE IntsOf<D> MagnitudeOf(D, IntsOf<D> halves) {
  return hn::And(halves, hn::Set(Ints<D>(), 0x7fff));
}

template <class Form>
bool Encode(const float* values, size_t elements, uint8_t* bytes) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  auto max = hn::Zero(Ints<Floats>());
  size_t i = 0;
  for (; i + lanes <= elements; i += lanes) {
    max = hn::Max(max, EncodeLanes<Form>(d, values + i, bytes + 2 * i));
  }
  int32_t largest = hn::GetLane(hn::MaxOfLanes(Ints<Floats>(), max));
  for (; i < elements; ++i) {
    const auto one = EncodeLanes<Form>(OneFloat(), values + i, bytes + 2 * i);
    largest = std::max(largest, static_cast<int32_t>(hn::GetLane(one)));
  }
  return largest < 0x7f800000;
}

template <class Form>
bool Decode(const uint8_t* bytes, size_t elements, float* values) {
  const Floats d;
  const OneFloat one;
  const size_t lanes = hn::Lanes(d);
  auto max = hn::Zero(Ints<Floats>());
  size_t i = 0;
  for (; i + lanes <= elements; i += lanes) {
    const auto halves = LoadHalves(d, bytes + 2 * i);
    max = hn::Max(max, MagnitudeOf(d, halves));
    hn::StoreU(Widened<Form>(d, halves), d, values + i);
  }
  int32_t largest = hn::GetLane(hn::MaxOfLanes(Ints<Floats>(), max));
  for (; i < elements; ++i) {
    const auto halves = LoadHalves(one, bytes + 2 * i);
    largest = std::max(largest, static_cast<int32_t>(hn::GetLane(MagnitudeOf(one, halves))));
    hn::StoreU(Widened<Form>(one, halves), one, values + i);
  }
  return largest < Form::kInfinity;
}

template <class Form>
bool Scan(const uint8_t* bytes, size_t elements) {
  const Floats d;
  const OneFloat one;
  const size_t lanes = hn::Lanes(d);
  auto max = hn::Zero(Ints<Floats>());
  size_t i = 0;
  for (; i + lanes <= elements; i += lanes) {
    max = hn::Max(max, MagnitudeOf(d, LoadHalves(d, bytes + 2 * i)));
  }
  int32_t largest = hn::GetLane(hn::MaxOfLanes(Ints<Floats>(), max));
  for (; i < elements; ++i) {
    const auto magnitude = MagnitudeOf(one, LoadHalves(one, bytes + 2 * i));
    largest = std::max(largest, static_cast<int32_t>(hn::GetLane(magnitude)));
  }
  return largest < Form::kInfinity;
}

template <class Form, class D>
HWY_INLINE void AccumulateLanes(D d, const uint8_t* bytes, float weight, float* sum) {
  const auto product = hn::Mul(hn::Set(d, weight), Widened<Form>(d, LoadHalves(d, bytes)));
  hn::StoreU(hn::Add(hn::LoadU(d, sum), product), d, sum);
}

template <class Form>
void Accumulate(const uint8_t* bytes, size_t elements, float weight, float* sum) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= elements; i += lanes) {
    AccumulateLanes<Form>(d, bytes + 2 * i, weight, sum + i);
  }
  for (; i < elements; ++i) AccumulateLanes<Form>(OneFloat(), bytes + 2 * i, weight, sum + i);
}

bool EncodeForm(HalfForm form, const float* values, size_t elements, uint8_t* bytes) {
  return form == HalfForm::kFp16 ? Encode<Fp16>(values, elements, bytes)
                                 : Encode<Bf16>(values, elements, bytes);
}

bool DecodeForm(HalfForm form, const uint8_t* bytes, size_t elements, float* values) {
  return form == HalfForm::kFp16 ? Decode<Fp16>(bytes, elements, values)
                                 : Decode<Bf16>(bytes, elements, values);
}

bool ScanForm(HalfForm form, const uint8_t* bytes, size_t elements) {
  return form == HalfForm::kFp16 ? Scan<Fp16>(bytes, elements) : Scan<Bf16>(bytes, elements);
}

void AccumulateForm(HalfForm form, const uint8_t* bytes, size_t elements, float weight,
                    float* sum) {
  form == HalfForm::kFp16 ? Accumulate<Fp16>(bytes, elements, weight, sum)
                          : Accumulate<Bf16>(bytes, elements, weight, sum);
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
HWY_EXPORT(AccumulateForm);

bool EncodeHalves(HalfForm form, const float* values, size_t elements, uint8_t* bytes) {
  return HWY_DYNAMIC_DISPATCH(EncodeForm)(form, values, elements, bytes);
}

bool DecodeHalves(HalfForm form, const uint8_t* bytes, size_t elements, float* values) {
  return HWY_DYNAMIC_DISPATCH(DecodeForm)(form, bytes, elements, values);
}

bool HalvesFinite(HalfForm form, const uint8_t* bytes, size_t elements) {
  return HWY_DYNAMIC_DISPATCH(ScanForm)(form, bytes, elements);
}

void DecodeAccumulateHalves(HalfForm form, const uint8_t* bytes, size_t elements, float weight,
                            float* sum) {
  HWY_DYNAMIC_DISPATCH(AccumulateForm)(form, bytes, elements, weight, sum);
}

namespace {

#if !defined(ABSL_IS_LITTLE_ENDIAN)
#error "Encoded floats are little-endian and are copied as they lie in memory"
#endif

// Values are checked and copied piece by piece, so that the second access to a value finds it in
// the first-level cache.
constexpr size_t kPieceElements = 1024;

absl::Status FirstHalfNotFinite(HalfForm form, absl::Span<const uint8_t> bytes) {
  size_t i = 0;
  while (2 * i < bytes.size() && HalvesFinite(form, bytes.data() + 2 * i, 1)) ++i;
  return absl::InvalidArgumentError(absl::StrCat("value ", i, " is not finite"));
}

}  // namespace

absl::StatusOr<size_t> Fp32Codec::Encode(absl::Span<const float> values,
                                         absl::Span<uint8_t> out) const {
  const size_t needed = MaxEncodedBytes(values.size());
  if (out.size() < needed) return OutputTooSmall(out.size(), needed);
  for (size_t i = 0; i < values.size(); i += kPieceElements) {
    const size_t piece = std::min(kPieceElements, values.size() - i);
    if (!AllFinite(values.data() + i, piece)) return FirstNotFinite(values, i);
    std::memcpy(out.data() + i * sizeof(float), values.data() + i, piece * sizeof(float));
  }
  return needed;
}

absl::Status Fp32Codec::Check(absl::Span<const uint8_t> bytes, size_t elements) const {
  const size_t needed = MaxEncodedBytes(elements);
  if (bytes.size() != needed) return WrongLength(bytes.size(), needed, elements);
  // The bytes need not be aligned for floats.
  float piece_values[kPieceElements];
  for (size_t i = 0; i < elements; i += kPieceElements) {
    const size_t piece = std::min(kPieceElements, elements - i);
    std::memcpy(piece_values, bytes.data() + i * sizeof(float), piece * sizeof(float));
    if (!AllFinite(piece_values, piece)) return FirstNotFinite({piece_values, piece}, 0, i);
  }
  return absl::OkStatus();
}

absl::Status Fp32Codec::Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const {
  const size_t needed = MaxEncodedBytes(values.size());
  if (bytes.size() != needed) return WrongLength(bytes.size(), needed, values.size());
  for (size_t i = 0; i < values.size(); i += kPieceElements) {
    const size_t piece = std::min(kPieceElements, values.size() - i);
    std::memcpy(values.data() + i, bytes.data() + i * sizeof(float), piece * sizeof(float));
    if (!AllFinite(values.data() + i, piece)) return FirstNotFinite(values, i);
  }
  return absl::OkStatus();
}

absl::Status Fp32Codec::DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                         absl::Span<float> sum) const {
  if (!AllFinite(&weight, 1)) return WeightNotFinite();
  RETURN_IF_ERROR(Check(bytes, sum.size()));
  float piece_values[kPieceElements];
  for (size_t i = 0; i < sum.size(); i += kPieceElements) {
    const size_t piece = std::min(kPieceElements, sum.size() - i);
    std::memcpy(piece_values, bytes.data() + i * sizeof(float), piece * sizeof(float));
    AccumulateScaled(piece_values, piece, weight, sum.data() + i);
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> HalfCodec::Encode(absl::Span<const float> values,
                                         absl::Span<uint8_t> out) const {
  const size_t needed = MaxEncodedBytes(values.size());
  if (out.size() < needed) return OutputTooSmall(out.size(), needed);
  if (!EncodeHalves(form_, values.data(), values.size(), out.data())) {
    return FirstNotFinite(values, 0);
  }
  return needed;
}

absl::Status HalfCodec::Check(absl::Span<const uint8_t> bytes, size_t elements) const {
  const size_t needed = MaxEncodedBytes(elements);
  if (bytes.size() != needed) return WrongLength(bytes.size(), needed, elements);
  if (!HalvesFinite(form_, bytes.data(), elements)) return FirstHalfNotFinite(form_, bytes);
  return absl::OkStatus();
}

absl::Status HalfCodec::Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const {
  const size_t needed = MaxEncodedBytes(values.size());
  if (bytes.size() != needed) return WrongLength(bytes.size(), needed, values.size());
  if (!DecodeHalves(form_, bytes.data(), values.size(), values.data())) {
    return FirstHalfNotFinite(form_, bytes);
  }
  return absl::OkStatus();
}

absl::Status HalfCodec::DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                         absl::Span<float> sum) const {
  if (!AllFinite(&weight, 1)) return WeightNotFinite();
  RETURN_IF_ERROR(Check(bytes, sum.size()));
  DecodeAccumulateHalves(form_, bytes.data(), sum.size(), weight, sum.data());
  return absl::OkStatus();
}

}  // namespace atolld
#endif  // HWY_ONCE

#include "compression/int4_codec.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "compression/codec_errors.h"
#include "compression/fp32_kernels.h"
#include "compression/int4_kernels.h"

namespace atolld {
namespace {

absl::Status FirstForbiddenInt4Code(const uint8_t* codes, size_t elements) {
  const size_t bytes = Int4CodeBytes(elements);
  size_t i = 0;
  while (i < bytes && !HasForbiddenInt4Code(codes + i, 1)) ++i;
  return absl::InvalidArgumentError(absl::StrCat("byte ", i, " of the codes holds a -8"));
}

absl::Status CheckInt4Shape(absl::Span<const uint8_t> bytes, size_t elements) {
  if (bytes.size() != Int4Bytes(elements))
    return WrongLength(bytes.size(), Int4Bytes(elements), elements);
  if (elements % 2 == 1 && bytes.back() >> 4 != 0) {
    return absl::InvalidArgumentError("the unused half of the last byte is not 0");
  }
  return CheckScales(bytes.data(), Int4Blocks(elements), kInt4MaxScale);
}

absl::StatusOr<size_t> EncodeInt4Chunk(absl::Span<const float> values, const Rounding& rounding,
                                       absl::Span<uint8_t> out) {
  const size_t needed = Int4Bytes(values.size());
  if (out.size() < needed) return OutputTooSmall(out.size(), needed);
  if (values.empty()) return needed;
  uint8_t* codes = out.data() + Int4Blocks(values.size()) * sizeof(float);
  if (!EncodeInt4(values.data(), values.size(), rounding, out.data(), codes)) {
    return FirstNotFinite(values, 0);
  }
  return needed;
}

}  // namespace

absl::StatusOr<size_t> Int4Codec::Encode(absl::Span<const float> values,
                                         absl::Span<uint8_t> out) const {
  return EncodeInt4Chunk(values, Rounding(), out);
}

absl::StatusOr<size_t> Int4Codec::EncodeStochastic(absl::Span<const float> values, uint64_t key,
                                                   absl::Span<uint8_t> out) const {
  return EncodeInt4Chunk(values, Rounding{true, key}, out);
}

absl::Status Int4Codec::Check(absl::Span<const uint8_t> bytes, size_t elements) const {
  const absl::Status shape = CheckInt4Shape(bytes, elements);
  if (!shape.ok()) return shape;
  const uint8_t* codes = bytes.data() + Int4Blocks(elements) * sizeof(float);
  if (HasForbiddenInt4Code(codes, Int4CodeBytes(elements))) {
    return FirstForbiddenInt4Code(codes, elements);
  }
  return absl::OkStatus();
}

absl::Status Int4Codec::Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const {
  const absl::Status shape = CheckInt4Shape(bytes, values.size());
  if (!shape.ok() || values.empty()) return shape;
  const uint8_t* codes = bytes.data() + Int4Blocks(values.size()) * sizeof(float);
  if (!DecodeInt4(bytes.data(), codes, values.size(), values.data())) {
    return FirstForbiddenInt4Code(codes, values.size());
  }
  return absl::OkStatus();
}

absl::StatusOr<double> Int4Codec::SquaredNorm(absl::Span<const uint8_t> bytes,
                                              size_t elements) const {
  const absl::Status shape = CheckInt4Shape(bytes, elements);
  if (!shape.ok()) return shape;
  const uint8_t* codes = bytes.data() + Int4Blocks(elements) * sizeof(float);
  double norm = 0;
  if (!SquaredNormInt4(bytes.data(), codes, elements, &norm)) {
    return FirstForbiddenInt4Code(codes, elements);
  }
  return norm;
}

absl::Status Int4Codec::DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                         absl::Span<float> sum) const {
  if (!AllFinite(&weight, 1)) return WeightNotFinite();
  const absl::Status checked = Check(bytes, sum.size());
  if (!checked.ok() || sum.empty()) return checked;
  const uint8_t* codes = bytes.data() + Int4Blocks(sum.size()) * sizeof(float);
  DecodeAccumulateInt4(bytes.data(), codes, sum.size(), weight, sum.data());
  return absl::OkStatus();
}

}  // namespace atolld

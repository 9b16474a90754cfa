#include "compression/int8_codec.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/codec_errors.h"
#include "compression/fp32_kernels.h"
#include "compression/int8_kernels.h"

namespace atolld {
namespace {

absl::Status FirstForbiddenCode(const uint8_t* codes, size_t elements) {
  size_t i = 0;
  while (i < elements && codes[i] != 0x80) ++i;
  return absl::InvalidArgumentError(absl::StrCat("code ", i, " is -128"));
}

absl::Status CheckShape(absl::Span<const uint8_t> bytes, size_t elements) {
  if (bytes.size() != Int8Bytes(elements))
    return WrongLength(bytes.size(), Int8Bytes(elements), elements);
  return CheckScales(bytes.data(), Int8Blocks(elements), kInt8MaxScale);
}

absl::Status DecodeChunk(absl::Span<const uint8_t> bytes, Int8Store store,
                         absl::Span<float> values) {
  const absl::Status shape = CheckShape(bytes, values.size());
  if (!shape.ok() || values.empty()) return shape;
  const uint8_t* codes = bytes.data() + Int8Blocks(values.size()) * sizeof(float);
  if (!DecodeInt8(bytes.data(), codes, values.size(), store, values.data())) {
    return FirstForbiddenCode(codes, values.size());
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> EncodeChunk(absl::Span<const float> values, const Rounding& rounding,
                                   absl::Span<uint8_t> out) {
  const size_t needed = Int8Bytes(values.size());
  if (out.size() < needed) return OutputTooSmall(out.size(), needed);
  if (values.empty()) return needed;
  uint8_t* codes = out.data() + Int8Blocks(values.size()) * sizeof(float);
  if (!EncodeInt8(values.data(), values.size(), rounding, out.data(), codes)) {
    return FirstNotFinite(values, 0);
  }
  return needed;
}

}  // namespace

absl::StatusOr<size_t> Int8Codec::Encode(absl::Span<const float> values,
                                         absl::Span<uint8_t> out) const {
  return EncodeChunk(values, Rounding(), out);
}

absl::StatusOr<size_t> Int8Codec::EncodeStochastic(absl::Span<const float> values, uint64_t key,
                                                   absl::Span<uint8_t> out) const {
  return EncodeChunk(values, Rounding{true, key}, out);
}

absl::Status Int8Codec::Check(absl::Span<const uint8_t> bytes, size_t elements) const {
  const absl::Status shape = CheckShape(bytes, elements);
  if (!shape.ok()) return shape;
  const uint8_t* codes = bytes.data() + Int8Blocks(elements) * sizeof(float);
  if (HasForbiddenInt8Code(codes, elements)) return FirstForbiddenCode(codes, elements);
  return absl::OkStatus();
}

absl::Status Int8Codec::Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const {
  return DecodeChunk(bytes, Int8Store::kCached, values);
}

absl::Status Int8Codec::DecodeToMemory(absl::Span<const uint8_t> bytes,
                                       absl::Span<float> values) const {
  return DecodeChunk(bytes, Int8Store::kStreamed, values);
}

absl::StatusOr<double> Int8Codec::SquaredNorm(absl::Span<const uint8_t> bytes,
                                              size_t elements) const {
  const absl::Status shape = CheckShape(bytes, elements);
  if (!shape.ok()) return shape;
  const uint8_t* codes = bytes.data() + Int8Blocks(elements) * sizeof(float);
  double norm = 0;
  if (!SquaredNormInt8(bytes.data(), codes, elements, &norm)) {
    return FirstForbiddenCode(codes, elements);
  }
  return norm;
}

absl::Status Int8Codec::DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                         absl::Span<float> sum) const {
  if (!AllFinite(&weight, 1)) return WeightNotFinite();
  const absl::Status checked = Check(bytes, sum.size());
  if (!checked.ok() || sum.empty()) return checked;
  const uint8_t* codes = bytes.data() + Int8Blocks(sum.size()) * sizeof(float);
  DecodeAccumulateInt8(bytes.data(), codes, sum.size(), weight, sum.data());
  return absl::OkStatus();
}

absl::Status Int8Codec::DecodeSum(absl::Span<const WeightedChunk> chunks, float factor,
                                  absl::Span<float> sum) const {
  const size_t scale_bytes = Int8Blocks(sum.size()) * sizeof(float);
  std::vector<Int8Term> terms;
  terms.reserve(chunks.size());
  for (const WeightedChunk& chunk : chunks) {
    if (!AllFinite(&chunk.weight, 1)) return WeightNotFinite();
    const absl::Status shape = CheckShape(chunk.bytes, sum.size());
    if (!shape.ok()) return shape;
    terms.push_back({chunk.bytes.data(), chunk.bytes.data() + scale_bytes, chunk.weight});
  }
  if (sum.empty() || DecodeSumInt8(terms.data(), terms.size(), sum.size(), factor, sum.data())) {
    return absl::OkStatus();
  }
  for (const WeightedChunk& chunk : chunks) {
    const absl::Status checked = Check(chunk.bytes, sum.size());
    if (!checked.ok()) return checked;
  }
  return absl::OkStatus();
}

}  // namespace atolld

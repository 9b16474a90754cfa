#include "compression/int8_codec.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/codec_errors.h"
#include "compression/fp32_kernels.h"
#include "compression/int8_kernels.h"

namespace atolld {
namespace {

// Whole blocks, and so few that they stay in the nearest cache until they are encoded.
constexpr size_t kSumElements = 16 * kInt8BlockElements;

absl::Status FirstForbiddenInt8Code(const uint8_t* codes, size_t elements) {
  size_t i = 0;
  while (i < elements && codes[i] != 0x80) ++i;
  return absl::InvalidArgumentError(absl::StrCat("code ", i, " is -128"));
}

absl::Status CheckInt8Shape(absl::Span<const uint8_t> bytes, size_t elements) {
  if (bytes.size() != Int8Bytes(elements))
    return WrongLength(bytes.size(), Int8Bytes(elements), elements);
  return CheckScales(bytes.data(), Int8Blocks(elements), kInt8MaxScale);
}

absl::Status DecodeChunk(absl::Span<const uint8_t> bytes, Int8Store store,
                         absl::Span<float> values) {
  const absl::Status shape = CheckInt8Shape(bytes, values.size());
  if (!shape.ok() || values.empty()) return shape;
  const uint8_t* codes = bytes.data() + Int8Blocks(values.size()) * sizeof(float);
  if (!DecodeInt8(bytes.data(), codes, values.size(), store, values.data())) {
    return FirstForbiddenInt8Code(codes, values.size());
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> EncodeInt8Chunk(absl::Span<const float> values, const Rounding& rounding,
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

// Of several chunks, at least one of which holds such a code.
absl::Status FirstForbiddenInt8Code(absl::Span<const WeightedChunk> chunks, size_t elements) {
  absl::Status found;
  for (const WeightedChunk& chunk : chunks) {
    const uint8_t* const codes = chunk.bytes.data() + Int8Blocks(elements) * sizeof(float);
    if (HasForbiddenInt8Code(codes, elements)) found = FirstForbiddenInt8Code(codes, elements);
    if (!found.ok()) break;
  }
  return found;
}

absl::StatusOr<std::vector<Int8Term>> TermsOf(absl::Span<const WeightedChunk> chunks,
                                              size_t elements) {
  std::vector<Int8Term> terms;
  terms.reserve(chunks.size());
  for (const WeightedChunk& chunk : chunks) {
    if (!AllFinite(&chunk.weight, 1)) return WeightNotFinite();
    const absl::Status shape = CheckInt8Shape(chunk.bytes, elements);
    if (!shape.ok()) return shape;
    const uint8_t* const scales = chunk.bytes.data();
    terms.push_back({scales, scales + Int8Blocks(elements) * sizeof(float), chunk.weight});
  }
  return terms;
}

}  // namespace

absl::StatusOr<size_t> Int8Codec::Encode(absl::Span<const float> values,
                                         absl::Span<uint8_t> out) const {
  return EncodeInt8Chunk(values, Rounding(), out);
}

absl::StatusOr<size_t> Int8Codec::EncodeStochastic(absl::Span<const float> values, uint64_t key,
                                                   absl::Span<uint8_t> out) const {
  return EncodeInt8Chunk(values, Rounding{true, key}, out);
}

absl::Status Int8Codec::Check(absl::Span<const uint8_t> bytes, size_t elements) const {
  const absl::Status shape = CheckInt8Shape(bytes, elements);
  if (!shape.ok()) return shape;
  const uint8_t* codes = bytes.data() + Int8Blocks(elements) * sizeof(float);
  if (HasForbiddenInt8Code(codes, elements)) return FirstForbiddenInt8Code(codes, elements);
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
  const absl::Status shape = CheckInt8Shape(bytes, elements);
  if (!shape.ok()) return shape;
  const uint8_t* codes = bytes.data() + Int8Blocks(elements) * sizeof(float);
  double norm = 0;
  if (!SquaredNormInt8(bytes.data(), codes, elements, &norm)) {
    return FirstForbiddenInt8Code(codes, elements);
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
  absl::StatusOr<std::vector<Int8Term>> terms = TermsOf(chunks, sum.size());
  if (!terms.ok()) return terms.status();
  if (DecodeSumInt8(terms->data(), terms->size(), sum.size(), factor, sum.data())) {
    return absl::OkStatus();
  }
  return FirstForbiddenInt8Code(chunks, sum.size());
}

absl::StatusOr<size_t> Int8Codec::EncodeSum(absl::Span<const WeightedChunk> chunks, float factor,
                                            size_t elements, absl::Span<uint8_t> out) const {
  const size_t needed = Int8Bytes(elements);
  if (out.size() < needed) return OutputTooSmall(out.size(), needed);
  absl::StatusOr<std::vector<Int8Term>> terms = TermsOf(chunks, elements);
  if (!terms.ok()) return terms.status();
  uint8_t* scales = out.data();
  uint8_t* codes = out.data() + Int8Blocks(elements) * sizeof(float);
  const std::unique_ptr<float[]> values(new float[kSumElements]);
  for (size_t begin = 0; begin < elements; begin += kSumElements) {
    const size_t part = std::min(kSumElements, elements - begin);
    if (!DecodeSumInt8(terms->data(), terms->size(), part, factor, values.get())) {
      return FirstForbiddenInt8Code(chunks, elements);
    }
    if (!EncodeInt8(values.get(), part, Rounding(), scales, codes)) {
      return FirstNotFinite(absl::MakeConstSpan(values.get(), part), 0, begin);
    }
    scales += Int8Blocks(part) * sizeof(float);
    codes += part;
    for (Int8Term& term : *terms) {
      term.scales += Int8Blocks(part) * sizeof(float);
      term.codes += part;
    }
  }
  return needed;
}

}  // namespace atolld

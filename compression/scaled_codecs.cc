#include "compression/scaled_codecs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/simd.h"

namespace atolld {
namespace {

// A number of whole blocks, so few that they stay in the nearest cache until they are encoded.
constexpr size_t kSumElements = 16 * kInt8BlockElements;

// Names the place of the code that no encoder writes. There must be one.
absl::Status FirstForbiddenCode(ScaledForm form, const uint8_t* codes, size_t elements) {
  const size_t bytes = CodeBytes(form, elements);
  size_t i = 0;
  while (i < bytes && !HasForbiddenCode(form, codes + i, 1)) ++i;
  return absl::InvalidArgumentError(form == ScaledForm::kInt8
                                        ? absl::StrCat("code ", i, " is -128")
                                        : absl::StrCat("byte ", i, " of the codes holds a -8"));
}

absl::Status CheckScaledShape(ScaledForm form, absl::Span<const uint8_t> bytes, size_t elements) {
  const size_t scale_bytes = ScaleBytes(form, elements);
  const size_t needed = scale_bytes + CodeBytes(form, elements);
  if (bytes.size() != needed) return WrongLength(bytes.size(), needed, elements);
  if (form == ScaledForm::kInt4 && elements % 2 == 1 && bytes.back() >> 4 != 0) {
    return absl::InvalidArgumentError("the unused half of the last byte is not 0");
  }
  return CheckScales(bytes.data(), scale_bytes / sizeof(float), MaxScale(form));
}

absl::StatusOr<size_t> EncodeScaledChunk(ScaledForm form, absl::Span<const float> values,
                                         const uint64_t* key, absl::Span<uint8_t> out) {
  const size_t scale_bytes = ScaleBytes(form, values.size());
  const size_t needed = scale_bytes + CodeBytes(form, values.size());
  if (out.size() < needed) return OutputTooSmall(out.size(), needed);
  if (values.empty()) return needed;
  if (!EncodeScaled(form, values.data(), values.size(), key, out.data(),
                    out.data() + scale_bytes)) {
    return FirstNotFinite(values, 0);
  }
  return needed;
}

// Like FirstForbiddenCode, for several chunks, at least one of which holds such a code.
absl::Status FirstForbiddenInt8Code(absl::Span<const WeightedChunk> chunks, size_t elements) {
  absl::Status found;
  for (const WeightedChunk& chunk : chunks) {
    const uint8_t* const codes = chunk.bytes.data() + ScaleBytes(ScaledForm::kInt8, elements);
    if (HasForbiddenCode(ScaledForm::kInt8, codes, elements)) {
      found = FirstForbiddenCode(ScaledForm::kInt8, codes, elements);
    }
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
    RETURN_IF_ERROR(CheckScaledShape(ScaledForm::kInt8, chunk.bytes, elements));
    const uint8_t* const scales = chunk.bytes.data();
    terms.push_back({scales, scales + ScaleBytes(ScaledForm::kInt8, elements), chunk.weight});
  }
  return terms;
}

}  // namespace

absl::StatusOr<size_t> ScaledCodec::Encode(absl::Span<const float> values,
                                           absl::Span<uint8_t> out) const {
  return EncodeScaledChunk(form_, values, nullptr, out);
}

absl::StatusOr<size_t> ScaledCodec::EncodeStochastic(absl::Span<const float> values, uint64_t key,
                                                     absl::Span<uint8_t> out) const {
  return EncodeScaledChunk(form_, values, &key, out);
}

absl::Status ScaledCodec::Check(absl::Span<const uint8_t> bytes, size_t elements) const {
  RETURN_IF_ERROR(CheckScaledShape(form_, bytes, elements));
  const uint8_t* codes = bytes.data() + ScaleBytes(form_, elements);
  if (HasForbiddenCode(form_, codes, CodeBytes(form_, elements))) {
    return FirstForbiddenCode(form_, codes, elements);
  }
  return absl::OkStatus();
}

absl::Status ScaledCodec::DecodeChunk(absl::Span<const uint8_t> bytes, ScaledStore store,
                                      absl::Span<float> values) const {
  const absl::Status shape = CheckScaledShape(form_, bytes, values.size());
  if (!shape.ok() || values.empty()) return shape;
  const uint8_t* codes = bytes.data() + ScaleBytes(form_, values.size());
  if (!DecodeScaled(form_, bytes.data(), codes, values.size(), store, values.data())) {
    return FirstForbiddenCode(form_, codes, values.size());
  }
  return absl::OkStatus();
}

absl::Status ScaledCodec::Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const {
  return DecodeChunk(bytes, ScaledStore::kCached, values);
}

absl::StatusOr<double> ScaledCodec::SquaredNorm(absl::Span<const uint8_t> bytes,
                                                size_t elements) const {
  RETURN_IF_ERROR(CheckScaledShape(form_, bytes, elements));
  const uint8_t* codes = bytes.data() + ScaleBytes(form_, elements);
  double norm = 0;
  if (!SquaredNormScaled(form_, bytes.data(), codes, elements, &norm)) {
    return FirstForbiddenCode(form_, codes, elements);
  }
  return norm;
}

absl::Status ScaledCodec::DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                           absl::Span<float> sum) const {
  if (!AllFinite(&weight, 1)) return WeightNotFinite();
  const absl::Status checked = Check(bytes, sum.size());
  if (!checked.ok() || sum.empty()) return checked;
  const uint8_t* codes = bytes.data() + ScaleBytes(form_, sum.size());
  DecodeAccumulateScaled(form_, bytes.data(), codes, sum.size(), weight, sum.data());
  return absl::OkStatus();
}

absl::Status Int8Codec::DecodeToMemory(absl::Span<const uint8_t> bytes,
                                       absl::Span<float> values) const {
  return DecodeChunk(bytes, ScaledStore::kStreamed, values);
}

absl::Status Int8Codec::DecodeSum(absl::Span<const WeightedChunk> chunks, float factor,
                                  absl::Span<float> sum) const {
  ASSIGN_OR_RETURN(std::vector<Int8Term> terms, TermsOf(chunks, sum.size()));
  if (DecodeSumInt8(terms.data(), terms.size(), sum.size(), factor, sum.data())) {
    return absl::OkStatus();
  }
  return FirstForbiddenInt8Code(chunks, sum.size());
}

absl::StatusOr<size_t> Int8Codec::EncodeSum(absl::Span<const WeightedChunk> chunks, float factor,
                                            size_t elements, absl::Span<uint8_t> out) const {
  const size_t needed = MaxEncodedBytes(elements);
  if (out.size() < needed) return OutputTooSmall(out.size(), needed);
  ASSIGN_OR_RETURN(std::vector<Int8Term> terms, TermsOf(chunks, elements));
  uint8_t* scales = out.data();
  uint8_t* codes = out.data() + ScaleBytes(ScaledForm::kInt8, elements);
  const std::unique_ptr<float[]> values(new float[kSumElements]);
  for (size_t begin = 0; begin < elements; begin += kSumElements) {
    const size_t part = std::min(kSumElements, elements - begin);
    if (!DecodeSumInt8(terms.data(), terms.size(), part, factor, values.get())) {
      return FirstForbiddenInt8Code(chunks, elements);
    }
    if (!EncodeScaled(ScaledForm::kInt8, values.get(), part, nullptr, scales, codes)) {
      return FirstNotFinite(absl::MakeConstSpan(values.get(), part), 0, begin);
    }
    const size_t part_scales = ScaleBytes(ScaledForm::kInt8, part);
    scales += part_scales;
    codes += part;
    for (Int8Term& term : terms) {
      term.scales += part_scales;
      term.codes += part;
    }
  }
  return needed;
}

}  // namespace atolld

#include "compression/codec.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/simd.h"

namespace atolld {
absl::StatusOr<size_t> Codec::EncodeMean(absl::Span<const float> values,
                                         absl::Span<uint8_t> out) const {
  return Encode(values, out);
}

absl::StatusOr<size_t> Codec::EncodeStochastic(absl::Span<const float>, uint64_t,
                                               absl::Span<uint8_t>) const {
  return absl::InvalidArgumentError(absl::StrCat(name(), " has no stochastic rounding"));
}

absl::Status Codec::DecodeToMemory(absl::Span<const uint8_t> bytes,
                                   absl::Span<float> values) const {
  return Decode(bytes, values);
}

absl::StatusOr<double> Codec::SquaredNorm(absl::Span<const uint8_t>, size_t) const {
  return absl::InvalidArgumentError(absl::StrCat(name(), " has no codes to take a norm of"));
}

absl::Status Codec::DecodeSum(absl::Span<const WeightedChunk> chunks, float factor,
                              absl::Span<float> sum) const {
  std::fill(sum.begin(), sum.end(), 0.0f);
  for (const WeightedChunk& chunk : chunks) {
    RETURN_IF_ERROR(DecodeAccumulate(chunk.bytes, chunk.weight, sum));
  }
  for (float& value : sum) value = value * factor;
  return absl::OkStatus();
}

absl::StatusOr<size_t> Codec::EncodeSum(absl::Span<const WeightedChunk> chunks, float factor,
                                        size_t elements, absl::Span<uint8_t> out) const {
  const std::unique_ptr<float[]> values(new float[elements]);
  const absl::Span<float> sum = absl::MakeSpan(values.get(), elements);
  RETURN_IF_ERROR(DecodeSum(chunks, factor, sum));
  return EncodeMean(sum, out);
}

namespace {

#if !defined(ABSL_IS_LITTLE_ENDIAN)
#error "Scales are little-endian and are copied as they lie in memory"
#endif

constexpr uint32_t kLeastScaleBits = 0x0d800000;  // 2^-100

}  // namespace

absl::Status FirstNotFinite(absl::Span<const float> values, size_t begin, size_t offset) {
  size_t i = begin;
  while (i < values.size() && AllFinite(&values[i], 1)) ++i;
  return absl::InvalidArgumentError(absl::StrCat("value ", offset + i, " is not finite"));
}

absl::Status OutputTooSmall(size_t bytes, size_t needed) {
  return absl::InvalidArgumentError(
      absl::StrCat("the output has ", bytes, " bytes, encoding needs ", needed));
}

absl::Status WrongLength(size_t bytes, size_t needed, size_t elements) {
  return absl::InvalidArgumentError(
      absl::StrCat(bytes, " bytes do not hold ", elements, " values, which take ", needed));
}

absl::Status CheckScales(const uint8_t* scales, size_t blocks, float greatest) {
  uint32_t greatest_bits;
  std::memcpy(&greatest_bits, &greatest, sizeof(greatest_bits));
  for (size_t block = 0; block < blocks; ++block) {
    uint32_t bits;
    std::memcpy(&bits, scales + block * sizeof(bits), sizeof(bits));
    // Positive floats order as their bits do: what is too small, negative, infinite or NaN lies
    // outside.
    if (bits == 0 || (bits >= kLeastScaleBits && bits <= greatest_bits)) continue;
    float scale;
    std::memcpy(&scale, &bits, sizeof(scale));
    return absl::InvalidArgumentError(absl::StrCat("the scale of block ", block, " is ", scale,
                                                   ", not 0 or from 2^-100 to ", greatest));
  }
  return absl::OkStatus();
}

absl::Status WeightNotFinite() { return absl::InvalidArgumentError("the weight is not finite"); }

namespace {

uint64_t Mix(uint64_t state) {
  state += 0x9e3779b97f4a7c15;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
  state = (state ^ (state >> 27)) * 0x94d049bb133111eb;
  return state ^ (state >> 31);
}

}  // namespace

uint64_t RoundingKey(uint64_t seed, uint64_t occasion, uint64_t part) {
  return Mix(Mix(Mix(seed) ^ occasion) ^ part);
}

uint64_t ChunkKey(uint64_t key, uint64_t chunk) { return Mix(key ^ chunk); }

}  // namespace atolld

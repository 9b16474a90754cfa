#include "tests/bench/level_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

constexpr float kLeastScale = 0x1p-100f;

// Returns the lowest `count` values of a float format, from 0 on. Values with exponent 0 are
// subnormal.
std::vector<float> FloatLevels(size_t count, uint32_t mantissa_bits, int bias) {
  std::vector<float> levels;
  const size_t per_exponent = size_t{1} << mantissa_bits;
  for (size_t code = 0; code < count; ++code) {
    const int exponent = static_cast<int>(code / per_exponent);
    const size_t mantissa = code % per_exponent + (exponent > 0 ? per_exponent : 0);
    levels.push_back(std::ldexp(static_cast<float>(mantissa),
                                std::max(exponent, 1) - bias - static_cast<int>(mantissa_bits)));
  }
  return levels;
}

std::vector<float> IntegerLevels(uint32_t bits) {
  std::vector<float> levels;
  for (uint32_t code = 0; code < uint32_t{1} << (bits - 1); ++code) {
    levels.push_back(static_cast<float>(code));
  }
  return levels;
}

// Writes one code, which may extend into a second byte. Its bits must be 0 before.
void PutCode(uint8_t* codes, size_t index, uint32_t bits, uint32_t code) {
  const size_t at = index * bits;
  const uint32_t shifted = code << (at % 8);
  codes[at / 8] = static_cast<uint8_t>(codes[at / 8] | shifted);
  if (shifted > 0xff) codes[at / 8 + 1] = static_cast<uint8_t>(shifted >> 8);
}

uint32_t CodeAt(const uint8_t* codes, size_t index, uint32_t bits) {
  const size_t at = index * bits;
  uint32_t window = codes[at / 8];
  if (at % 8 + bits > 8) window |= uint32_t{codes[at / 8 + 1]} << 8;
  return (window >> (at % 8)) & ((uint32_t{1} << bits) - 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LevelCodec>> LevelCodec::Make(absl::string_view name) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(name, '@');
  absl::string_view digits = parts.first;
  uint64_t block = 0;
  uint32_t bits = 8;
  std::vector<float> levels;
  if (parts.first == "e4m3") {
    levels = FloatLevels(127, 3, 7);
  } else if (parts.first == "e5m2") {
    levels = FloatLevels(124, 2, 15);
  } else if (parts.first == "e2m1") {
    bits = 4;
    levels = FloatLevels(8, 1, 1);
  } else if (absl::ConsumePrefix(&digits, "int") && absl::SimpleAtoi(digits, &bits) && bits >= 2 &&
             bits <= 8) {
    levels = IntegerLevels(bits);
  }
  if (levels.empty() || !absl::SimpleAtoi(parts.second, &block) || block == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' is not a format and a block size, such as 'e4m3@256'"));
  }
  return std::unique_ptr<LevelCodec>(new LevelCodec(name, bits, block, std::move(levels)));
}

LevelCodec::LevelCodec(absl::string_view name, uint32_t bits, size_t block,
                       std::vector<float> levels)
    : name_(name), bits_(bits), block_(block), levels_(std::move(levels)) {
  for (size_t i = 0; i + 1 < levels_.size(); ++i) {
    middles_.push_back((levels_[i] + levels_[i + 1]) / 2);
  }
}

size_t LevelCodec::ScaleBytes(size_t elements) const {
  return (elements + block_ - 1) / block_ * sizeof(float);
}

size_t LevelCodec::MaxEncodedBytes(size_t elements) const {
  return ScaleBytes(elements) + (elements * bits_ + 7) / 8;
}

uint32_t LevelCodec::NearestLevel(float magnitude) const {
  const auto above = std::lower_bound(middles_.begin(), middles_.end(), magnitude);
  uint32_t level = static_cast<uint32_t>(above - middles_.begin());
  if (above != middles_.end() && *above == magnitude && level % 2 == 1) ++level;
  return level;
}

absl::StatusOr<size_t> LevelCodec::Encode(absl::Span<const float> values,
                                          absl::Span<uint8_t> out) const {
  const size_t needed = MaxEncodedBytes(values.size());
  if (out.size() < needed) return OutputTooSmall(out.size(), needed);
  std::memset(out.data(), 0, needed);
  uint8_t* const codes = out.data() + ScaleBytes(values.size());
  for (size_t begin = 0; begin < values.size(); begin += block_) {
    const absl::Span<const float> block = values.subspan(begin, block_);
    float most = 0;
    for (size_t i = 0; i < block.size(); ++i) {
      if (!std::isfinite(block[i])) return FirstNotFinite(values, begin + i);
      most = std::max(most, std::fabs(block[i]));
    }
    const float scale = most / levels_.back();
    if (scale < kLeastScale) continue;
    std::memcpy(out.data() + begin / block_ * sizeof(float), &scale, sizeof(scale));
    const float inverse = 1 / scale;
    for (size_t i = 0; i < block.size(); ++i) {
      const uint32_t sign = block[i] < 0 ? uint32_t{1} << (bits_ - 1) : 0;
      PutCode(codes, begin + i, bits_, sign | NearestLevel(std::fabs(block[i]) * inverse));
    }
  }
  return needed;
}

absl::Status LevelCodec::Check(absl::Span<const uint8_t> bytes, size_t elements) const {
  const size_t needed = MaxEncodedBytes(elements);
  return bytes.size() == needed ? absl::OkStatus() : WrongLength(bytes.size(), needed, elements);
}

absl::Status LevelCodec::Decode(absl::Span<const uint8_t> bytes, absl::Span<float> values) const {
  std::fill(values.begin(), values.end(), 0.0f);
  return DecodeAccumulate(bytes, 1, values);
}

absl::Status LevelCodec::DecodeAccumulate(absl::Span<const uint8_t> bytes, float weight,
                                          absl::Span<float> sum) const {
  RETURN_IF_ERROR(Check(bytes, sum.size()));
  const uint8_t* const codes = bytes.data() + ScaleBytes(sum.size());
  const uint32_t sign = uint32_t{1} << (bits_ - 1);
  float scale = 0;
  for (size_t i = 0; i < sum.size(); ++i) {
    if (i % block_ == 0) {
      std::memcpy(&scale, bytes.data() + i / block_ * sizeof(float), sizeof(scale));
    }
    const uint32_t code = CodeAt(codes, i, bits_);
    const float value = levels_[code & (sign - 1)] * scale;
    sum[i] = sum[i] + weight * ((code & sign) != 0 ? -value : value);
  }
  return absl::OkStatus();
}

}  // namespace atolld

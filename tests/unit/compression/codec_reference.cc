#include "tests/unit/compression/codec_reference.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstring>

namespace atolld {
namespace {

void AppendFloat(float value, std::vector<uint8_t>* bytes) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  for (int i = 0; i < 4; ++i) bytes->push_back(static_cast<uint8_t>(bits >> (8 * i)));
}

float FloatAt(absl::Span<const uint8_t> bytes, size_t at) {
  const uint32_t bits = bytes[at] | bytes[at + 1] << 8 | bytes[at + 2] << 16 |
                        static_cast<uint32_t>(bytes[at + 3]) << 24;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// A binary float of 16 bits: so many of mantissa, and the exponent of its smallest normal number.
struct Half {
  int mantissa;
  int lowest;
};

uint16_t ReferenceHalf(const Half& form, float value) {
  const double magnitude = std::fabs(static_cast<double>(value));
  const int infinity = (1 << 15) - (1 << form.mantissa);  // the exponent's bits all set
  int bits = 0;
  if (magnitude != 0) {
    // What is halved until the mantissa is a whole number of 2^mantissa to 2^(mantissa + 1).
    const int exponent = std::max(std::ilogb(magnitude), form.lowest);
    const double places = std::ldexp(magnitude, form.mantissa - exponent);
    // Without its leading bit where there is one; a carry raises the exponent by itself.
    bits = static_cast<int>(std::nearbyint(places)) + ((exponent - form.lowest) << form.mantissa);
    bits = std::min(bits, infinity - 1);
  }
  return static_cast<uint16_t>(bits | (std::signbit(value) ? 0x8000 : 0));
}

float ReferenceHalfValue(const Half& form, int bits) {
  const int exponent = (bits & 0x7fff) >> form.mantissa;
  const int mantissa = bits & ((1 << form.mantissa) - 1);
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, form.lowest - form.mantissa)
                                         : std::ldexp(mantissa + (1 << form.mantissa),
                                                      form.lowest + exponent - 1 - form.mantissa);
  return static_cast<float>((bits & 0x8000) != 0 ? -magnitude : magnitude);
}

Half FormOf(const std::string& codec) { return codec == "fp16" ? Half{10, -14} : Half{7, -126}; }

// int8 and int4: codes from -limit to limit, times a scale a block.
struct Linear {
  size_t block;
  float limit;
};

Linear LinearOf(const std::string& codec) {
  return codec == "int8" ? Linear{256, 127.0f} : Linear{64, 7.0f};
}

// The largest scale whose limit-fold is finite, found by stepping down from what division gives.
float LargestScale(float limit) {
  float scale = std::nextafter(FLT_MAX / limit, FLT_MAX);
  while (std::isinf(limit * scale)) scale = std::nextafter(scale, 0.0f);
  return scale;
}

// Above -1/2 and below 1/2, by the value's place in the chunk.
float Dither(uint64_t key, size_t place) {
  const auto low = static_cast<uint32_t>(key);
  const auto high = static_cast<uint32_t>(key >> 32);
  uint32_t hash = static_cast<uint32_t>(place) * 0x9e3779b9u + low;
  hash = (hash ^ hash >> 16) * 0x85ebca6bu + high;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
  hash = hash ^ hash >> 16;
  return static_cast<float>((hash >> 16) + 0.5) / 65536.0f - 0.5f;
}

// Scales, and the code of every value; `key` is nullptr where rounding is to nearest even.
std::vector<uint8_t> LinearCodes(const Linear& form, absl::Span<const float> values,
                                 const uint64_t* key, std::vector<int>* codes) {
  std::vector<uint8_t> scales;
  for (size_t begin = 0; begin < values.size(); begin += form.block) {
    const absl::Span<const float> block = values.subspan(begin, form.block);
    float absmax = 0;
    for (const float value : block) absmax = std::max(absmax, std::fabs(value));
    float scale = std::min(absmax / form.limit, LargestScale(form.limit));
    if (scale < std::ldexp(1.0f, -100)) scale = 0;
    const float inverse = scale == 0 ? 0 : 1.0f / scale;
    AppendFloat(scale, &scales);
    for (size_t i = 0; i < block.size(); ++i) {
      float scaled = block[i] * inverse;
      if (key != nullptr) scaled = scaled + Dither(*key, begin + i);
      const auto limit = static_cast<long>(form.limit);
      // Ties to even in the default rounding mode.
      codes->push_back(static_cast<int>(std::min(std::max(std::lrint(scaled), -limit), limit)));
    }
  }
  return scales;
}

std::vector<uint8_t> EncodeLinear(const Linear& form, absl::Span<const float> values,
                                  const uint64_t* key) {
  std::vector<int> codes;
  std::vector<uint8_t> bytes = LinearCodes(form, values, key, &codes);
  for (size_t begin = 0; begin < codes.size(); begin += form.block) {
    const size_t count = std::min(form.block, codes.size() - begin);
    // int4: the low halves of the bytes hold the block's first codes, the high ones the rest.
    const size_t length = form.limit == 7.0f ? (count + 1) / 2 : count;
    for (size_t i = 0; i < length; ++i) {
      int byte = codes[begin + i];
      if (form.limit == 7.0f) byte &= 15;
      if (i + length < count) byte |= (codes[begin + i + length] & 15) << 4;
      bytes.push_back(static_cast<uint8_t>(byte));
    }
  }
  return bytes;
}

struct LinearBlock {
  float scale;
  std::vector<int> codes;
};

std::vector<LinearBlock> LinearBlocks(const Linear& form, absl::Span<const uint8_t> bytes,
                                      size_t elements) {
  size_t at = (elements + form.block - 1) / form.block * 4;
  std::vector<LinearBlock> blocks;
  for (size_t begin = 0; begin < elements; begin += form.block) {
    LinearBlock block{FloatAt(bytes, begin / form.block * 4), {}};
    const size_t count = std::min(form.block, elements - begin);
    const size_t length = form.limit == 7.0f ? (count + 1) / 2 : count;
    for (size_t i = 0; i < count; ++i) {
      int code = bytes[at + i % length];
      if (form.limit == 7.0f) {
        code = i < length ? code & 15 : code >> 4;
        code = code < 8 ? code : code - 16;
      } else {
        code = code < 128 ? code : code - 256;
      }
      block.codes.push_back(code);
    }
    at += length;
    blocks.push_back(std::move(block));
  }
  return blocks;
}

std::vector<float> DecodeLinear(const Linear& form, absl::Span<const uint8_t> bytes,
                                size_t elements) {
  std::vector<float> values;
  for (const LinearBlock& block : LinearBlocks(form, bytes, elements)) {
    for (const int code : block.codes) values.push_back(static_cast<float>(code) * block.scale);
  }
  return values;
}

constexpr size_t kInt2Block = 4096;

float Sum16(const std::vector<float>& values) {
  std::vector<float> partial(16, 0.0f);
  for (size_t i = 0; i < values.size(); ++i) partial[i % 16] = partial[i % 16] + values[i];
  for (size_t width = 8; width > 0; width /= 2) {
    for (size_t l = 0; l < width; ++l) partial[l] = partial[l] + partial[l + width];
  }
  return partial[0];
}

std::vector<uint8_t> EncodeInt2Reference(absl::Span<const float> values) {
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> packed;
  for (size_t begin = 0; begin < values.size(); begin += kInt2Block) {
    const std::vector<int> codes = ReferenceInt2Codes(values.subspan(begin, kInt2Block), &bytes);
    std::vector<uint8_t> quarter((codes.size() + 3) / 4);
    for (size_t i = 0; i < codes.size(); ++i) {
      uint8_t& byte = quarter[i % quarter.size()];
      byte = static_cast<uint8_t>(byte | codes[i] << (2 * (i / quarter.size())));
    }
    packed.insert(packed.end(), quarter.begin(), quarter.end());
  }
  bytes.insert(bytes.end(), packed.begin(), packed.end());
  return bytes;
}

std::vector<float> DecodeInt2Reference(absl::Span<const uint8_t> bytes, size_t elements) {
  const size_t blocks = (elements + kInt2Block - 1) / kInt2Block;
  std::vector<float> values;
  for (size_t begin = 0; begin < elements; begin += kInt2Block) {
    const size_t count = std::min(kInt2Block, elements - begin);
    const size_t quarter = (count + 3) / 4;
    for (size_t i = 0; i < count; ++i) {
      const int byte = bytes[blocks * 16 + begin / 4 + i % quarter];
      const size_t code = static_cast<size_t>(byte >> (2 * (i / quarter)) & 3);
      values.push_back(FloatAt(bytes, begin / kInt2Block * 16 + 4 * code));
    }
  }
  return values;
}

uint64_t Mix(uint64_t state) {
  state += 0x9e3779b97f4a7c15;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
  state = (state ^ (state >> 27)) * 0x94d049bb133111eb;
  return state ^ (state >> 31);
}

}  // namespace

uint64_t ReferenceKey(uint64_t seed, uint64_t occasion, uint64_t part, uint64_t chunk) {
  uint64_t key = seed;
  for (const uint64_t next : {occasion, part, chunk}) key = Mix(key) ^ next;
  return Mix(key);
}

std::vector<int> ReferenceInt2Codes(absl::Span<const float> block, std::vector<uint8_t>* codebook) {
  float absmax = 0;
  for (const float value : block) absmax = std::max(absmax, std::fabs(value));
  std::vector<int> codes(block.size(), 0);
  if (absmax < std::ldexp(1.0f, -100)) {
    for (int b = 0; b < 4; ++b) AppendFloat(0, codebook);
    return codes;
  }
  const int exponent = std::min(std::ilogb(absmax), 126);
  std::vector<float> scaled;
  for (const float value : block) scaled.push_back(value * std::ldexp(1.0f, -exponent));
  const auto count = static_cast<float>(block.size());
  const float mean = Sum16(scaled) / count;
  std::vector<float> squares;
  for (const float y : scaled) {
    const float centred = y - mean;
    squares.push_back(centred * centred);
  }
  const float variance = Sum16(squares) / std::max(count - 1, 1.0f);
  const float sigma = std::sqrt(variance);
  const float wide = 2.25f * sigma;
  const float narrow = 0.75f * sigma;
  for (size_t i = 0; i < block.size(); ++i) {
    for (const float edge : {mean - wide, mean - narrow, mean + narrow}) {
      if (scaled[i] >= edge) ++codes[i];
    }
  }
  for (int b = 0; b < 4; ++b) {
    std::vector<float> of_bin(block.size(), 0.0f);
    float members = 0;
    for (size_t i = 0; i < block.size(); ++i) {
      if (codes[i] != b) continue;
      of_bin[i] = scaled[i];
      ++members;
    }
    float entry = members == 0 ? 0 : Sum16(of_bin) / members;
    entry = entry * std::ldexp(1.0f, exponent);
    entry = std::min(std::max(entry, -absmax), absmax);
    AppendFloat(std::fabs(entry) < std::ldexp(1.0f, -100) ? 0 : entry, codebook);
  }
  return codes;
}

std::vector<uint8_t> ReferenceEncode(const std::string& codec, absl::Span<const float> values) {
  if (codec == "int4" || codec == "int8") return EncodeLinear(LinearOf(codec), values, nullptr);
  if (codec == "int2") return EncodeInt2Reference(values);
  if (codec == "topk") return ReferenceTopkEncode(values, false);
  std::vector<uint8_t> bytes;
  for (const float value : values) {
    if (codec == "fp32") {
      AppendFloat(value, &bytes);
      continue;
    }
    const uint16_t half = ReferenceHalf(FormOf(codec), value);
    bytes.push_back(static_cast<uint8_t>(half));
    bytes.push_back(static_cast<uint8_t>(half >> 8));
  }
  return bytes;
}

std::vector<uint8_t> ReferenceEncodeMean(const std::string& codec, absl::Span<const float> values) {
  return codec == "topk" ? ReferenceTopkEncode(values, true) : ReferenceEncode(codec, values);
}

std::vector<uint8_t> ReferenceEncodeStochastic(const std::string& codec,
                                               absl::Span<const float> values, uint64_t key) {
  return EncodeLinear(LinearOf(codec), values, &key);
}

std::vector<float> ReferenceDecode(const std::string& codec, absl::Span<const uint8_t> bytes,
                                   size_t elements) {
  if (codec == "int4" || codec == "int8") return DecodeLinear(LinearOf(codec), bytes, elements);
  if (codec == "int2") return DecodeInt2Reference(bytes, elements);
  if (codec == "topk") return ReferenceTopkDecode(bytes, elements);
  std::vector<float> values;
  for (size_t i = 0; i < elements; ++i) {
    values.push_back(codec == "fp32"
                         ? FloatAt(bytes, 4 * i)
                         : ReferenceHalfValue(FormOf(codec), bytes[2 * i] | bytes[2 * i + 1] << 8));
  }
  return values;
}

double ReferenceSquaredNorm(const std::string& codec, absl::Span<const uint8_t> bytes,
                            size_t elements) {
  double norm = 0;
  for (const LinearBlock& block : LinearBlocks(LinearOf(codec), bytes, elements)) {
    int squares = 0;
    for (const int code : block.codes) squares += code * code;
    const double scale = block.scale;
    const volatile double part = scale * scale * squares;
    norm = norm + part;
  }
  return norm;
}

}  // namespace atolld

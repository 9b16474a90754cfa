// The topk format, written and read bit by bit.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numeric>

#include "tests/unit/compression/codec_reference.h"

namespace atolld {
namespace {

constexpr size_t kBlock = 4096;

size_t Kept(size_t elements) { return (elements + 63) / 64; }

// Bits in the order in which the format numbers them: the low bits of a byte first.
void AppendBits(size_t value, int bits, std::vector<bool>* to) {
  for (int i = 0; i < bits; ++i) to->push_back((value >> i & 1) != 0);
}

size_t TakeBits(absl::Span<const uint8_t> bytes, size_t* at, int bits) {
  size_t value = 0;
  for (int i = 0; i < bits; ++i, ++*at) {
    value |= static_cast<size_t>(bytes[*at / 8] >> (*at % 8) & 1) << i;
  }
  return value;
}

void AppendBytes(const std::vector<bool>& bits, std::vector<uint8_t>* to) {
  const size_t begin = to->size();
  to->resize(begin + (bits.size() + 7) / 8);
  for (size_t i = 0; i < bits.size(); ++i) {
    uint8_t& byte = (*to)[begin + i / 8];
    byte = static_cast<uint8_t>(byte | (bits[i] ? 1 : 0) << (i % 8));
  }
}

bool IsList(size_t count, size_t elements) { return (12 * count + 7) / 8 <= (elements + 7) / 8; }

// The places of what is sent of a block, ascending.
std::vector<size_t> Chosen(absl::Span<const float> block, bool mean) {
  std::vector<size_t> places;
  for (size_t i = 0; i < block.size(); ++i) {
    if (block[i] != 0) places.push_back(i);
  }
  if (mean) return places;
  std::stable_sort(places.begin(), places.end(), [block](size_t a, size_t b) {
    return std::fabs(block[a]) > std::fabs(block[b]);
  });
  if (places.empty() || std::fabs(block[places[0]]) < std::ldexp(1.0f, -100)) return {};
  places.resize(std::min(places.size(), Kept(block.size())));
  std::sort(places.begin(), places.end());
  return places;
}

void AppendPlaces(const std::vector<size_t>& places, size_t elements, std::vector<uint8_t>* bytes) {
  std::vector<bool> bits;
  if (IsList(places.size(), elements)) {
    for (const size_t place : places) AppendBits(place, 12, &bits);
  } else {
    bits.resize(elements);
    for (const size_t place : places) bits[place] = true;
  }
  AppendBytes(bits, bytes);
}

void AppendCodes(absl::Span<const float> values, std::vector<uint8_t>* bytes) {
  const std::vector<int> codes = ReferenceInt2Codes(values, bytes);
  const size_t quarter = (codes.size() + 3) / 4;
  const size_t begin = bytes->size();
  bytes->resize(begin + quarter);
  for (size_t i = 0; i < codes.size(); ++i) {
    uint8_t& byte = (*bytes)[begin + i % quarter];
    byte = static_cast<uint8_t>(byte | codes[i] << (2 * (i / quarter)));
  }
}

}  // namespace

std::vector<uint8_t> ReferenceTopkEncode(absl::Span<const float> values, bool mean) {
  std::vector<uint8_t> bytes;
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const absl::Span<const float> block = values.subspan(begin, kBlock);
    const std::vector<size_t> places = Chosen(block, mean);
    const size_t header = places.empty() ? 0 : places.size() + (mean ? 1 << 13 : 0);
    bytes.push_back(static_cast<uint8_t>(header));
    bytes.push_back(static_cast<uint8_t>(header >> 8));
    if (places.empty()) continue;
    AppendPlaces(places, block.size(), &bytes);
    std::vector<float> sent;
    for (const size_t place : places) sent.push_back(block[place]);
    if (mean) {
      const std::vector<uint8_t> halves = ReferenceEncode("bf16", sent);
      bytes.insert(bytes.end(), halves.begin(), halves.end());
    } else {
      AppendCodes(sent, &bytes);
    }
  }
  return bytes;
}

std::vector<float> ReferenceTopkDecode(absl::Span<const uint8_t> bytes, size_t elements) {
  std::vector<float> values(elements, 0.0f);
  for (size_t begin = 0; begin < elements; begin += kBlock) {
    const size_t count = std::min(kBlock, elements - begin);
    size_t bit = 0;
    const size_t header = TakeBits(bytes, &bit, 16);
    bytes.remove_prefix(2);
    const size_t sent = header & 0x1fff;
    if (sent == 0) continue;
    bit = 0;
    std::vector<size_t> places;
    const bool is_list = IsList(sent, count);
    for (size_t i = 0; is_list && i < sent; ++i) places.push_back(TakeBits(bytes, &bit, 12));
    for (size_t i = 0; !is_list && i < count; ++i) {
      if (TakeBits(bytes, &bit, 1) != 0) places.push_back(i);
    }
    bytes.remove_prefix((bit + 7) / 8);
    const bool mean = (header >> 13) != 0;
    const size_t length = mean ? 2 * sent : 16 + (sent + 3) / 4;
    const std::vector<float> decoded =
        ReferenceDecode(mean ? "bf16" : "int2", bytes.first(length), sent);
    for (size_t i = 0; i < sent; ++i) values[begin + places[i]] = decoded[i];
    bytes.remove_prefix(length);
  }
  return values;
}

}  // namespace atolld

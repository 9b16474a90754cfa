// Bitmaps of contributors in their wire format: bit i of a bitmap is bit i % 8 of byte i / 8. Pure.
// May be called from any thread.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace atolld {

inline bool BitAt(absl::string_view bitmap, size_t i) {
  return i / 8 < bitmap.size() && ((static_cast<uint8_t>(bitmap[i / 8]) >> (i % 8)) & 1) != 0;
}

inline void SetBit(std::string* bitmap, size_t i) {
  (*bitmap)[i / 8] = static_cast<char>(static_cast<uint8_t>((*bitmap)[i / 8]) | (1u << (i % 8)));
}

inline void ClearBit(std::string* bitmap, size_t i) {
  (*bitmap)[i / 8] = static_cast<char>(static_cast<uint8_t>((*bitmap)[i / 8]) & ~(1u << (i % 8)));
}

inline size_t BitmapBytes(size_t bits) { return (bits + 7) / 8; }

// Returns true if the bitmap has the right length for `bits` bits, has at least one bit set, and
// has no bit set beyond them.
inline bool ValidBitmap(absl::string_view bitmap, size_t bits) {
  if (bitmap.size() != BitmapBytes(bits)) return false;
  const bool beyond = bits % 8 != 0 && (static_cast<uint8_t>(bitmap.back()) >> (bits % 8)) != 0;
  return !beyond && bitmap.find_first_not_of('\0') != absl::string_view::npos;
}

// Returns true if a bit is set in both bitmaps.
inline bool Overlap(absl::string_view a, absl::string_view b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if ((static_cast<uint8_t>(a[i]) & static_cast<uint8_t>(b[i])) != 0) return true;
  }
  return false;
}

// Sets the bits of `more` in `bitmap`. Both must have the same length.
inline void UniteBits(absl::string_view more, std::string* bitmap) {
  for (size_t i = 0; i < bitmap->size() && i < more.size(); ++i) {
    (*bitmap)[i] =
        static_cast<char>(static_cast<uint8_t>((*bitmap)[i]) | static_cast<uint8_t>(more[i]));
  }
}

// Clears the bits of `less` in `bitmap`. Both must have the same length.
inline void RemoveBits(absl::string_view less, std::string* bitmap) {
  for (size_t i = 0; i < bitmap->size() && i < less.size(); ++i) {
    (*bitmap)[i] =
        static_cast<char>(static_cast<uint8_t>((*bitmap)[i]) & ~static_cast<uint8_t>(less[i]));
  }
}

// Returns true if `whole` has every bit of `part`.
inline bool Contains(absl::string_view whole, absl::string_view part) {
  for (size_t i = 0; i < part.size(); ++i) {
    const uint8_t there = i < whole.size() ? static_cast<uint8_t>(whole[i]) : uint8_t{0};
    if ((static_cast<uint8_t>(part[i]) & ~there) != 0) return false;
  }
  return true;
}

inline size_t CountBits(absl::string_view bitmap) {
  size_t count = 0;
  for (const char byte : bitmap) count += std::bitset<8>(static_cast<uint8_t>(byte)).count();
  return count;
}

// Returns the position of the lowest bit that is set, or the number of bits if no bit is set.
inline size_t LowestBit(absl::string_view bitmap) {
  size_t i = 8 * std::min(bitmap.find_first_not_of('\0'), bitmap.size());
  while (i < bitmap.size() * 8 && !BitAt(bitmap, i)) ++i;
  return i;
}

// Returns true if the parts are disjoint subsets of `whole`, in ascending order of their lowest
// bits. `whole` must be valid for `bits` bits.
template <typename Bitmaps>
bool ValidParts(const Bitmaps& parts, absl::string_view whole, size_t bits) {
  std::string seen(BitmapBytes(bits), '\0');
  size_t last = 0;
  for (const std::string& part : parts) {
    if (!ValidBitmap(part, bits) || Overlap(part, seen)) return false;
    if (LowestBit(part) < last) return false;
    if (!Contains(whole, part)) return false;
    last = LowestBit(part);
    UniteBits(part, &seen);
  }
  return true;
}

// Returns a bitmap of `bits` bits in which only `bit` is set.
inline std::string SingleBit(size_t bits, uint32_t bit) {
  std::string bitmap(BitmapBytes(bits), '\0');
  SetBit(&bitmap, bit);
  return bitmap;
}

}  // namespace atolld

// Bitmaps of contributors as they travel: bit i is byte i / 8, bit i % 8. Pure functions.
#pragma once

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

inline size_t BitmapBytes(size_t bits) { return (bits + 7) / 8; }

// Of the right length for `bits`, at least one bit set, none beyond.
inline bool ValidBitmap(absl::string_view bitmap, size_t bits) {
  if (bitmap.size() != BitmapBytes(bits)) return false;
  bool any = false;
  for (size_t i = 0; i < bitmap.size() * 8; ++i) {
    if (!BitAt(bitmap, i)) continue;
    if (i >= bits) return false;
    any = true;
  }
  return any;
}

}  // namespace atolld

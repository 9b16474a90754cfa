// A row of token ids as they lie in memory or in a mapped file: little-endian, 1, 2, 4 or 8 bytes
// each, at any alignment. Borrows; immutable; any thread.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace atolld {

class TokenSpan {
 public:
  TokenSpan() = default;
  // `width` is 1, 2, 4 or 8 and divides bytes.size().
  TokenSpan(absl::Span<const uint8_t> bytes, uint32_t width) : bytes_(bytes), width_(width) {}

  uint64_t size() const { return bytes_.size() / width_; }
  uint32_t width() const { return width_; }
  absl::Span<const uint8_t> bytes() const { return bytes_; }

  TokenSpan First(uint64_t count) const { return {bytes_.first(count * width_), width_}; }
  TokenSpan From(uint64_t first) const { return {bytes_.subspan(first * width_), width_}; }

  // Fills `out` with the tokens from `first` on; they must be there.
  void Read(uint64_t first, absl::Span<int64_t> out) const;

  // The index of the first id that is `limit` or more; size() if there is none. A negative id of a
  // signed file reads as a huge one.
  uint64_t FindAtLeast(uint64_t limit) const;

  // The largest id; 0 of none.
  uint64_t Largest() const;

  uint64_t at(uint64_t index) const;

 private:
  absl::Span<const uint8_t> bytes_;
  uint32_t width_ = 1;
};

// How many of `tokens` train; the tail validates.
inline uint64_t TrainTokens(uint64_t tokens, double validation_fraction) {
  return static_cast<uint64_t>(static_cast<double>(tokens) * (1.0 - validation_fraction));
}

}  // namespace atolld

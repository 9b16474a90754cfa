// Token ids in memory and in files. Files of other programs can be read, and their headers are
// checked:
//
//   nanoGPT's .bin    ids without a header, usually uint16; the file does not contain their width
//   llm.c's .bin      a header of 256 int32, then the ids. The header has a magic number
//                     (20240520 for uint16 ids, 20240801 for uint32 ids), the version (1, or
//                     also 7 for uint32 ids) and the number of tokens.
//   NumPy's .npy      an array with one dimension, of type u1, u2, u4, i4, u8 or i8, little-endian
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/base/file_io.h"

namespace atolld {

// A row of little-endian token ids of 1, 2, 4 or 8 bytes each, at any alignment, stored in one or
// more consecutive parts. Does not own the bytes. Immutable except for Append. May be used from any
// thread.
class TokenSpan {
 public:
  TokenSpan() = default;
  // `width` is 1, 2, 4 or 8, and divides bytes.size().
  TokenSpan(absl::Span<const uint8_t> bytes, uint32_t width);

  // Appends the ids of `more`, which must have the same width unless this row is empty.
  void Append(const TokenSpan& more);

  uint64_t size() const { return size_; }
  uint32_t width() const { return width_; }
  const std::vector<absl::Span<const uint8_t>>& parts() const { return parts_; }

  TokenSpan First(uint64_t count) const { return Cut(0, count); }
  TokenSpan From(uint64_t first) const { return Cut(first, size_ - first); }

  // Fills `out` with the tokens that begin at index `first`. The row must have enough tokens.
  void Read(uint64_t first, absl::Span<int64_t> out) const;

  // Returns the index of the first id that is at least `limit`, or size() if there is none. A
  // negative id of a signed type is read as a very large id.
  uint64_t FindAtLeast(uint64_t limit) const;

  // Returns the largest id; 0 if there are no tokens.
  uint64_t Largest() const;

  uint64_t at(uint64_t index) const;

 private:
  TokenSpan Cut(uint64_t first, uint64_t count) const;

  std::vector<absl::Span<const uint8_t>> parts_;
  std::vector<uint64_t> ends_;  // The end of each part, in tokens from the row's start.
  uint64_t size_ = 0;
  uint32_t width_ = 1;
};

// Returns how many of `count` tokens or conversations are for training; the rest at the end is for
// validation. `least` are for training whatever the fraction, if there are so many.
inline uint64_t TrainShare(uint64_t count, double validation_fraction, uint64_t least) {
  const auto share =
      static_cast<uint64_t>(static_cast<double>(count) * (1.0 - validation_fraction));
  return std::max(share, std::min(least, count));
}

// Returns how many of `tokens` tokens are for training. From fewer than two nothing is learnt.
inline uint64_t TrainTokens(uint64_t tokens, double validation_fraction) {
  return TrainShare(tokens, validation_fraction, 2);
}

struct TokenFile {
  MappedFile file;
  TokenSpan tokens;
};

struct TokenFileOptions {
  // The number of bytes of an id in a file without a header; 0 means 2, if the file and the
  // vocabulary allow it.
  uint32_t width = 0;
  uint64_t vocabulary = 0;  // The size of the model's vocabulary; 0 means unknown.
};

// Opens a file, whose format is recognised by the ending of its name (.npy) and by its magic
// number. Fails with INVALID_ARGUMENT if the header is malformed, the length is not a whole number
// of tokens or differs from the header, or there are no tokens; the message names the file and the
// byte. Also fails if the file has no header, `width` is 0 and the ids cannot have 16 bits, because
// the vocabulary is above 65,536 or because of the values in the file.
absl::StatusOr<TokenFile> OpenTokenFile(const std::string& path,
                                        const TokenFileOptions& options = {});

// Opens a file of ids without a header. Fails with INVALID_ARGUMENT if its length is not a whole
// number of ids.
absl::StatusOr<TokenFile> OpenBareTokens(const std::string& path, uint32_t width);

// Fails with INVALID_ARGUMENT if an id is not below `vocabulary`; the message names the file and
// the byte.
absl::Status CheckIds(const std::string& path, const TokenFile& file, uint64_t vocabulary);

// Appends each id as `width` little-endian bytes. Every id must fit into this width.
void AppendTokens(const std::vector<uint32_t>& tokens, uint32_t width, std::string* out);

}  // namespace atolld

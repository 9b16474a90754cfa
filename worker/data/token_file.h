// Token ids as they lie in memory and in files, and the files of them that other programs write:
// what their headers say, checked.
//
//   nanoGPT's .bin    bare ids, usually uint16; they do not say how wide they are
//   llm.c's .bin      256 int32 of header: magic 20240520 (uint16 behind) or 20240801 (uint32),
//                     version 1 (or 7, of the second), number of tokens; then the ids
//   NumPy's .npy      one dimension of u1, u2, u4, i4, u8 or i8, little-endian
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/base/file_io.h"

namespace atolld {

// A row of token ids: little-endian, 1, 2, 4 or 8 bytes each, at any alignment, in one part or in
// several that follow each other. Borrows; immutable but for Append; any thread.
class TokenSpan {
 public:
  TokenSpan() = default;
  // `width` is 1, 2, 4 or 8 and divides bytes.size().
  TokenSpan(absl::Span<const uint8_t> bytes, uint32_t width);

  // `more` has this one's width, or this one is empty.
  void Append(const TokenSpan& more);

  uint64_t size() const { return size_; }
  uint32_t width() const { return width_; }
  const std::vector<absl::Span<const uint8_t>>& parts() const { return parts_; }

  TokenSpan First(uint64_t count) const { return Cut(0, count); }
  TokenSpan From(uint64_t first) const { return Cut(first, size_ - first); }

  // Fills `out` with the tokens from `first` on; they must be there.
  void Read(uint64_t first, absl::Span<int64_t> out) const;

  // The index of the first id that is `limit` or more; size() if there is none. A negative id of a
  // signed file reads as a huge one.
  uint64_t FindAtLeast(uint64_t limit) const;

  // The largest id; 0 of none.
  uint64_t Largest() const;

  uint64_t at(uint64_t index) const;

 private:
  TokenSpan Cut(uint64_t first, uint64_t count) const;

  std::vector<absl::Span<const uint8_t>> parts_;
  std::vector<uint64_t> ends_;  // of each part, in tokens from the row's begin
  uint64_t size_ = 0;
  uint32_t width_ = 1;
};

// How many of `tokens` train; the tail validates.
inline uint64_t TrainTokens(uint64_t tokens, double validation_fraction) {
  return static_cast<uint64_t>(static_cast<double>(tokens) * (1.0 - validation_fraction));
}

struct TokenFile {
  MappedFile file;
  TokenSpan tokens;
};

struct TokenFileOptions {
  uint32_t width = 0;       // bytes of a bare id; 0: 2, if the file and the vocabulary allow it
  uint64_t vocabulary = 0;  // of the model; 0: not known
};

// Which of them it is, the name's ending (.npy) and the magic number say. INVALID_ARGUMENT, with
// file and byte: a header that is none, a length that is not a whole number of tokens or not what
// the header says, no token at all; bare ids of no named width that a vocabulary above 65,536 or
// their own look says are not of 16 bits.
absl::StatusOr<TokenFile> OpenTokenFile(const std::string& path,
                                        const TokenFileOptions& options = {});

// A file of bare ids. INVALID_ARGUMENT: its length is not a whole number of them.
absl::StatusOr<TokenFile> OpenBareTokens(const std::string& path, uint32_t width);

// INVALID_ARGUMENT, with file and byte: an id is not below `vocabulary`.
absl::Status CheckIds(const std::string& path, const TokenFile& file, uint64_t vocabulary);

// Appends each id as `width` little-endian bytes; all must fit.
void AppendTokens(const std::vector<uint32_t>& tokens, uint32_t width, std::string* out);

}  // namespace atolld

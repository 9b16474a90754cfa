// Files of token ids that other programs write: what their headers say, checked.
//
//   nanoGPT's .bin    bare uint16
//   llm.c's .bin      256 int32 of header: magic 20240520 (uint16 behind) or 20240801 (uint32),
//                     version 1 (or 7, of the second), number of tokens; then the ids
//   NumPy's .npy      one dimension of u1, u2, u4, i4, u8 or i8, little-endian
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/data/mapped_file.h"
#include "worker/data/token_span.h"

namespace atolld {

struct TokenFile {
  MappedFile file;
  TokenSpan tokens;
};

// Which of them it is, the name's ending (.npy) and the magic number say. INVALID_ARGUMENT, with
// file and byte: a header that is none, a length that is not a whole number of tokens or not what
// the header says, no token at all.
absl::StatusOr<TokenFile> OpenTokenFile(const std::string& path);

// A file of bare ids. INVALID_ARGUMENT: its length is not a whole number of them.
absl::StatusOr<TokenFile> OpenBareTokens(const std::string& path, uint32_t width);

// INVALID_ARGUMENT, with file and byte: an id is not below `vocabulary`.
absl::Status CheckIds(const std::string& path, const TokenFile& file, uint64_t vocabulary);

}  // namespace atolld

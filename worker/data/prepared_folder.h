// A folder that `atoll data prepare` makes: data.json, train.bin, validation.bin and the
// tokenizer's file.
//
// The .bin files are bare little-endian token ids of `width` bytes, as nanoGPT's are of two.
// data.json is written last: a folder that has it is whole.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/token_span.h"

namespace atolld {

inline constexpr char kDataFile[] = "data.json";
inline constexpr char kTrainFile[] = "train.bin";
inline constexpr char kValidationFile[] = "validation.bin";

struct PreparedInfo {
  std::string tokenizer;         // its kind
  std::string tokenizer_digest;  // 32 bytes; empty for "bytes"
  uint32_t vocabulary = 0;
  uint32_t width = 0;
  uint64_t train_tokens = 0;
  uint64_t validation_tokens = 0;
  std::string content_digest;  // 32 bytes: SHA-256 of train.bin and then validation.bin
  double validation_fraction = 0;
  std::string field;  // of lines of JSON
  std::string source_path;
  uint64_t source_files = 0;
  uint64_t source_bytes = 0;
};

// NOT_FOUND: there is no data.json. INVALID_ARGUMENT: it is not well-formed; names what is wrong.
absl::StatusOr<PreparedInfo> ReadPreparedInfo(const std::string& folder);

// The text of data.json.
std::string FormatPreparedInfo(const PreparedInfo& info);

// 1, 2 or 4: the fewest bytes that hold every id.
uint32_t WidthFor(uint64_t vocabulary);

// How a run names its data. Bytes that are split as the run would split them have the SHA-256 of
// the text; any others a digest of the content, the place of the split and the tokenizer.
std::string DataDigest(const TokenSpan& train, const TokenSpan& validation,
                       const std::string& content_digest, const std::string& tokenizer_digest,
                       double validation_fraction);

}  // namespace atolld

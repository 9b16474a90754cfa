// Makes prepared folders from text, for `atoll data prepare`. Such a folder has data.json,
// train.bin, validation.bin and the tokenizer's file.
//
// The .bin files hold only little-endian token ids of `width` bytes each, without a header, like
// nanoGPT's files. data.json is written last, so a folder that has it is complete.
//
// The text is cut into pieces, and small pieces are batched. Threads encode each batch into a file
// of its own under DIR/pieces, written durably under a temporary name and then renamed. When all
// batches exist, they are concatenated, and data.json is written. If a preparation is killed at any
// time, it can be continued by calling it again with the same arguments, and the result has the
// same bytes: a batch is reused only if it was made from the same bytes of text with the same
// settings. Blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/token_file.h"

namespace atolld {

inline constexpr char kDataFile[] = "data.json";
inline constexpr char kTrainFile[] = "train.bin";
inline constexpr char kValidationFile[] = "validation.bin";

struct PreparedInfo {
  std::string tokenizer;  // The kind of the tokenizer.
  // The SHA-256 of the tokenizer's file, 32 bytes; empty for "bytes".
  std::string tokenizer_digest;
  uint32_t vocabulary = 0;
  uint32_t width = 0;
  uint64_t train_tokens = 0;
  uint64_t validation_tokens = 0;
  std::string content_digest;  // 32 bytes: the SHA-256 of train.bin followed by validation.bin.
  double validation_fraction = 0;
  std::string field;        // The field of JSON records that has the text.
  std::string kind;         // The kind of the text; see TextOptions.
  std::string end_of_text;  // The token between two documents; if empty, a newline is between them.
  bool skip_bad_lines = false;
  uint64_t bad_lines = 0;  // The number of bad lines that were skipped.
  std::string source_path;
  uint64_t source_files = 0;
  uint64_t source_bytes = 0;
};

// Reads data.json. Fails with NOT_FOUND if the folder has no data.json, and with INVALID_ARGUMENT
// if it is malformed; the message says what is wrong.
absl::StatusOr<PreparedInfo> ReadPreparedInfo(const std::string& folder);

// Returns the text of data.json.
std::string FormatPreparedInfo(const PreparedInfo& info);

// Returns the smallest width that can hold every id of the vocabulary: 1, 2 or 4 bytes.
uint32_t WidthFor(uint64_t vocabulary);

// Returns the SHA-256 of the training split followed by the validation split.
std::string ContentDigest(const TokenSpan& train, const TokenSpan& validation);

// Returns the digest by which a run identifies its data. If the tokens are the bytes of a text, and
// are split where the run would split them, it is the SHA-256 of the text. Otherwise it is a digest
// of the content, the place of the split and the tokenizer.
std::string DataDigest(const TokenSpan& train, const TokenSpan& validation,
                       const std::string& content_digest, const std::string& tokenizer_digest,
                       double validation_fraction);

struct PrepareOptions {
  std::string input;   // A file or a folder of text or of JSON records.
  std::string output;  // The prepared folder, which is created if it is missing.
  std::string tokenizer = "bytes";
  std::string kind = "text";  // The kind of the input; see TextOptions.
  std::string field;
  std::string end_of_text;  // The token between two documents; see LoadTokenizer.
  bool skip_bad_lines = false;
  double validation_fraction = 0.1;
  uint32_t threads = 1;

  // Called from one thread at a time. `done` is the number of bytes of text encoded so far, `all`
  // the number of bytes of the whole text, and `found` the number of bytes that an earlier call had
  // already encoded.
  std::function<void(uint64_t done, uint64_t all, uint64_t found)> progress;
};

struct Prepared {
  PreparedInfo info;
  std::vector<std::string> notes;  // Sentences for the data's owner; see TokenSource::notes().
};

// Makes the prepared folder. Fails with the errors of TokenSource::Open for text, and with
// FAILED_PRECONDITION if the folder belongs to another preparation or holds other files.
absl::StatusOr<Prepared> PrepareData(const PrepareOptions& options);

}  // namespace atolld

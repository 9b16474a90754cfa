// Prepared folders: what `atoll data prepare` makes of text, and how it does. A folder has
// data.json, train.bin, validation.bin and the tokenizer's file.
//
// The .bin files are bare little-endian token ids of `width` bytes, as nanoGPT's are of two.
// data.json is written last: a folder that has it is whole.
//
// The text is cut into pieces, small ones are taken together, and threads encode them, each batch
// into a file of its own under DIR/pieces, written durably under another name and then renamed.
// When all are there they are put together, and data.json is written last. Killed at any instant
// and called again with the same arguments it goes on, and ends with the same bytes: a batch counts
// only if it was made of the same bytes of text with the same settings. Blocking.
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
  std::string tokenizer;         // its kind
  std::string tokenizer_digest;  // 32 bytes; empty for "bytes"
  uint32_t vocabulary = 0;
  uint32_t width = 0;
  uint64_t train_tokens = 0;
  uint64_t validation_tokens = 0;
  std::string content_digest;  // 32 bytes: SHA-256 of train.bin and then validation.bin
  double validation_fraction = 0;
  std::string field;        // of lines of JSON
  std::string kind;         // of the text: as TextOptions
  std::string end_of_text;  // the token between two documents; empty: a newline
  bool skip_bad_lines = false;
  uint64_t bad_lines = 0;  // that were skipped
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

// SHA-256 of one split and then the other.
std::string ContentDigest(const TokenSpan& train, const TokenSpan& validation);

// How a run names its data. Bytes that are split as the run would split them have the SHA-256 of
// the text; any others a digest of the content, the place of the split and the tokenizer.
std::string DataDigest(const TokenSpan& train, const TokenSpan& validation,
                       const std::string& content_digest, const std::string& tokenizer_digest,
                       double validation_fraction);

struct PrepareOptions {
  std::string input;   // a file or a folder of text, or of lines of JSON
  std::string output;  // a folder; made where it is not there
  std::string tokenizer = "bytes";
  std::string kind = "text";  // as TextOptions
  std::string field;
  std::string end_of_text;  // as LoadTokenizer
  bool skip_bad_lines = false;
  double validation_fraction = 0.1;
  uint32_t threads = 1;

  // Called from one thread at a time: bytes of text encoded so far, of all, and of these the ones
  // that an earlier call had done.
  std::function<void(uint64_t done, uint64_t all, uint64_t found)> progress;
};

struct Prepared {
  PreparedInfo info;
  std::vector<std::string> notes;  // as TokenSource's
};

// INVALID_ARGUMENT: as TokenSource::Open says of text. FAILED_PRECONDITION: the folder is another
// preparation's, or holds other files.
absl::StatusOr<Prepared> PrepareData(const PrepareOptions& options);

}  // namespace atolld

// The files of text from which data is made, and their division into pieces that can be encoded
// independently.
//
// A file has one of three forms: prose, which is one document; lines of JSON, each of which is a
// document; or a JSON array, each element of which is a document. The form is recognised by the
// file's name and content. Files with the endings .jsonl, .ndjson and .json are JSON; if the
// options name a field, all files are. A file of another form, such as a table, is refused rather
// than read as prose. Text compressed with gzip or zstd is unpacked once. The places at which text
// is cut depend only on the text, so the tokens do not depend on the number of threads. A file is
// opened only when it is read, so there may be any number of files. The functions may be called
// from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/base/file_io.h"
#include "worker/data/tokenizer.h"
#include "worker/data/unpacked_text.h"

namespace atolld {

enum class TextForm { kProse, kLines, kArray };

struct TextFile {
  std::string path;
  uint64_t size = 0;
  TextForm form = TextForm::kProse;
  // The unpacked content of all compressed files; null if this file is not compressed.
  std::shared_ptr<const UnpackedText> unpacked;
  uint64_t unpacked_at = 0;  // The offset of this file's content in `unpacked`.
};

struct TextOptions {
  // "jsonl" means that every file is JSON; "chat" that every file is JSON and its records are
  // conversations; "plain" that every file is prose, whatever its name; "text" that names and
  // content decide.
  std::string kind = "text";
  std::string field;  // The field of JSON records that has the text; if empty, "text".
  bool skip_bad_lines = false;
  bool has_template = false;  // For conversations; see ChatOfRecord.
};

struct TextFiles {
  std::vector<TextFile> files;
  uint64_t bytes = 0;              // The number of bytes in all files.
  std::vector<std::string> notes;  // A sentence for each kind of entry that was left out.
};

// Fails with NOT_FOUND if the path does not exist; with INVALID_ARGUMENT if a folder has no files,
// all files are empty, or a file is not text of a known form; and with the errors of
// ListDataFolder.
absl::StatusOr<TextFiles> OpenTextFiles(const std::string& path, const TextOptions& options);

// The bytes of a file, which are valid as long as this object exists.
class MappedText {
 public:
  absl::Span<const uint8_t> bytes() const { return bytes_; }

 private:
  friend absl::StatusOr<MappedText> MapText(const TextFile& file);

  MappedFile mapped_;
  std::shared_ptr<const UnpackedText> unpacked_;
  absl::Span<const uint8_t> bytes_;
};

// Maps a file. Fails with FAILED_PRECONDITION if the file's size has changed.
absl::StatusOr<MappedText> MapText(const TextFile& file);

struct TextPiece {
  size_t file = 0;
  uint64_t first = 0;  // The offset of the piece in the file.
  uint64_t size = 0;
};

inline constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

// Cuts every file into pieces of `piece_bytes` or slightly more, at places where `tokenizer` allows
// it.
absl::StatusOr<std::vector<TextPiece>> CutText(const std::vector<TextFile>& files,
                                               const Tokenizer& tokenizer,
                                               uint64_t piece_bytes = kPieceBytes);

// The lines without valid text, which are skipped if the options say so.
struct BadLines {
  uint64_t count = 0;
  // Descriptions of the first few bad lines, each with its place and error.
  std::vector<std::string> first;
  bool text_seen = false;  // True once a document that is not empty has been read.

  void Add(const BadLines& more);
  // Returns a sentence, for example "12 bad lines were skipped: ...".
  std::string Describe() const;
};

// Calls `take` with the text of each document of a piece: the whole document, or for prose the part
// of it that is in the piece. Fails with INVALID_ARGUMENT if the text is not UTF-8, or if a record
// is not a JSON object or has no text in the field; the message names the file and the line or
// byte. If the options say that bad lines are skipped, they are counted in `bad` instead.
absl::Status ForEachDocument(const TextFile& file, const TextPiece& piece,
                             const TextOptions& options, BadLines* bad,
                             const std::function<absl::Status(absl::string_view)>& take);

// Appends the tokens of a piece. The tokenizer's separator precedes every document except the first
// document of the whole data.
absl::Status EncodePiece(const std::vector<TextFile>& files, const TextPiece& piece,
                         const TextOptions& options, const Tokenizer& tokenizer, Encoder& encoder,
                         BadLines* bad, std::vector<uint32_t>* out);

// Returns the distinct characters of all documents and of the newline between them, in ascending
// order.
absl::StatusOr<std::vector<uint32_t>> CharactersOf(const std::vector<TextFile>& files,
                                                   const TextOptions& options);

}  // namespace atolld

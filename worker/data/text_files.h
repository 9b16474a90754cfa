// The text that data is made of: files, cut into pieces that can be encoded on their own.
//
// A file is prose, one document; or lines of JSON, a document each; or a JSON array with a document
// an element. Names and content say which (.jsonl, .ndjson and .json are JSON; so are all where a
// field is named). What is neither, a table for instance, is refused by name rather than taken for
// prose. Text that is compressed with gzip or zstd is what it holds, and unpacked once. Where the
// pieces are cut depends on the text alone, so that any number of threads gives the same tokens.
// Files are opened when they are read, so that there may be any number of them. Any thread.
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
  std::shared_ptr<const UnpackedText> unpacked;  // where it was compressed: all such files together
  uint64_t unpacked_at = 0;                      // its first byte there
};

struct TextOptions {
  // "jsonl": all is JSON; "chat": all is JSON, and records are conversations; "plain": all is
  // prose, whatever it is called.
  std::string kind = "text";
  std::string field;  // of JSON; empty: "text"
  bool skip_bad_lines = false;
  bool has_template = false;  // of conversations: ChatOfRecord
};

struct TextFiles {
  std::vector<TextFile> files;
  uint64_t bytes = 0;              // of them all
  std::vector<std::string> notes;  // what was left out, a sentence each
};

// NOT_FOUND: no such path. INVALID_ARGUMENT: a folder without files, nothing in any of them, or a
// file that is no text of a form that is known here. Otherwise as ListDataFolder.
absl::StatusOr<TextFiles> OpenTextFiles(const std::string& path, const TextOptions& options);

// A file's bytes, as long as this lives.
class MappedText {
 public:
  absl::Span<const uint8_t> bytes() const { return bytes_; }

 private:
  friend absl::StatusOr<MappedText> MapText(const TextFile& file);

  MappedFile mapped_;
  std::shared_ptr<const UnpackedText> unpacked_;
  absl::Span<const uint8_t> bytes_;
};

// FAILED_PRECONDITION: it has not the size any more that it had.
absl::StatusOr<MappedText> MapText(const TextFile& file);

struct TextPiece {
  size_t file = 0;
  uint64_t first = 0;  // byte of the file
  uint64_t size = 0;
};

inline constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

// Cuts every file into pieces of `piece_bytes` or a little more, where `tokenizer` lets it.
absl::StatusOr<std::vector<TextPiece>> CutText(const std::vector<TextFile>& files,
                                               const Tokenizer& tokenizer,
                                               uint64_t piece_bytes = kPieceBytes);

// Lines that hold no text, left out where the options say so.
struct BadLines {
  uint64_t count = 0;
  std::vector<std::string> first;  // the first few, each with its place and what is wrong with it
  bool text_seen = false;          // a document that is not empty

  void Add(const BadLines& more);
  // "12 bad lines were skipped: ...".
  std::string Describe() const;
};

// The characters of a piece's documents, each document whole or, of prose, the piece's part.
// INVALID_ARGUMENT, with file and line or byte: not UTF-8; a record that is no JSON object or has
// no text in the field. Where bad lines are skipped these are counted in `bad`.
absl::Status ForEachDocument(const TextFile& file, const TextPiece& piece,
                             const TextOptions& options, BadLines* bad,
                             const std::function<absl::Status(absl::string_view)>& take);

// Appends a piece's tokens. Before a document, the run's first apart, stands the tokenizer's
// separator.
absl::Status EncodePiece(const std::vector<TextFile>& files, const TextPiece& piece,
                         const TextOptions& options, const Tokenizer& tokenizer, Encoder& encoder,
                         BadLines* bad, std::vector<uint32_t>* out);

// The distinct characters of all documents and of the newline between them, ascending.
absl::StatusOr<std::vector<uint32_t>> CharactersOf(const std::vector<TextFile>& files,
                                                   const TextOptions& options);

}  // namespace atolld

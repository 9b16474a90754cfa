// The text that data is made of: files, cut into pieces that can be encoded on their own.
//
// A folder is all regular files under it, in the order of their paths. A file of lines of JSON
// (.jsonl, .ndjson, or any where a field is named) has a document a line, in that field; any other
// is one document. Where the pieces are cut depends on the text alone, so that any number of
// threads gives the same tokens. Immutable; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/base/file_io.h"
#include "worker/data/tokenizer.h"

namespace atolld {

struct TextFile {
  std::string path;  // for messages
  MappedFile file;
  bool lines_of_json = false;

  absl::string_view text() const {
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
  }
};

// NOT_FOUND: no such path. INVALID_ARGUMENT: a folder without files, or nothing in any of them.
// `field` as above; `json`: all are lines of JSON, whatever their names.
absl::StatusOr<std::vector<TextFile>> OpenTextFiles(const std::string& path,
                                                    const std::string& field, bool json);

struct TextPiece {
  size_t file = 0;
  uint64_t first = 0;  // byte of the file
  uint64_t size = 0;
};

inline constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

// Cuts every file into pieces of `piece_bytes` or a little more, where `tokenizer` lets it.
std::vector<TextPiece> CutText(const std::vector<TextFile>& files, const Tokenizer& tokenizer,
                               uint64_t piece_bytes = kPieceBytes);

// The characters of a piece's documents, each document whole or, of plain text, the piece's part.
// INVALID_ARGUMENT, with file and byte: not UTF-8; a line that is no JSON object or lacks the
// field.
absl::Status ForEachDocument(const TextFile& file, const TextPiece& piece, const std::string& field,
                             const std::function<absl::Status(absl::string_view)>& take);

// Appends a piece's tokens. Before a document, the run's first apart, stands end_of_text, or a
// newline where the tokenizer has no such token.
absl::Status EncodePiece(const std::vector<TextFile>& files, const TextPiece& piece,
                         const std::string& field, const Tokenizer& tokenizer, Encoder& encoder,
                         std::vector<uint32_t>* out);

// The distinct characters of all documents and of the newline between them, ascending.
absl::StatusOr<std::vector<uint32_t>> CharactersOf(const std::vector<TextFile>& files,
                                                   const std::string& field);

}  // namespace atolld

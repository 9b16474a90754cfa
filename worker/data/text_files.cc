#include "worker/data/text_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "compression/base/bytes.h"
#include "compression/base/status_macros.h"
#include "compression/base/utf8.h"
#include "compression/base/words.h"
#include "worker/data/chat_record.h"
#include "worker/data/folder_files.h"
#include "worker/data/json_record.h"
#include "worker/data/tokenizer.h"

namespace atolld {
namespace {

constexpr const char* kUsualField = "text";
constexpr uint64_t kSearch = uint64_t{1} << 20;  // for a good place to cut
constexpr uint32_t kMostCharacter = 0x110000;
constexpr size_t kHead = 4096;  // of a file: what it is, it says there
constexpr size_t kShownBadLines = 3;
constexpr size_t kTarMark = 257;                     // where a tar archive says that it is one
constexpr absl::string_view kMark = "\xef\xbb\xbf";  // a byte order mark in UTF-8

absl::string_view TextOf(const MappedText& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

absl::Status WrongText(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("data: ", path, " ", what));
}

// How files begin that do not hold text that could be read as it is.
struct Signature {
  absl::string_view begin;
  const char* what;
};
constexpr Signature kSignatures[] = {
    {"ARROW1", "is an Arrow table; write its text as lines of JSON (.jsonl)"},
    {{"Obj\x01", 4}, "is an Avro table; write its text as lines of JSON (.jsonl)"},
    {"SQLite format 3", "is an SQLite database; write its text as lines of JSON (.jsonl)"},
    {"\x89HDF", "is an HDF5 file; write its text as lines of JSON (.jsonl)"},
    {"%PDF-", "is a PDF; extract its text first"},
    {"\x1f\x8b", "is compressed twice, within by gzip; unpack it once"},
    {{"\x28\xb5\x2f\xfd", 4}, "is compressed twice, within by zstd; unpack it once"},
    {{"\xfd\x37zXZ", 5}, "is compressed with xz; unpack it with unxz first"},
    {"BZh9", "is compressed with bzip2; unpack it with bunzip2 first"},
    {{"\x04\x22\x4d\x18", 4}, "is compressed with lz4; unpack it with unlz4 first"},
    {{"PK\x03\x04", 4}, "is a zip archive; unpack it with unzip first"},
    {{"7z\xbc\xaf", 4}, "is a 7z archive; unpack it with 7z first"},
    {"\x93NUMPY", "is an array of NumPy's; name it .npy if it holds token ids"},
    {"\xff\xfe", "is UTF-16; turn it into UTF-8 (iconv -f UTF-16 -t UTF-8)"},
    {"\xfe\xff", "is UTF-16; turn it into UTF-8 (iconv -f UTF-16 -t UTF-8)"},
};

// Explains how to convert a Parquet table with Python and pyarrow; Debian has no C++ library for
// it.
absl::Status WrongParquet(const std::string& path) {
  return WrongText(
      path, absl::StrCat("is a Parquet table; make lines of JSON of it, with pyarrow: python3 -c "
                         "\"import json, sys, pyarrow.parquet as p; [print(json.dumps(row, "
                         "default=str)) for part in p.ParquetFile(sys.argv[1]).iter_batches() for "
                         "row in part.to_pylist()]\" ",
                         path, " > ", path, ".jsonl"));
}

absl::string_view WithoutSpace(absl::string_view text) {
  return absl::StripLeadingAsciiWhitespace(absl::StripPrefix(text, kMark));
}

// Returns the form of a file named .json, from the beginning of its content.
absl::StatusOr<TextForm> FormOfJson(const std::string& path, absl::string_view head) {
  const absl::string_view text = WithoutSpace(head);
  if (absl::StartsWith(text, "[")) return TextForm::kArray;
  if (absl::StartsWith(text, "{")) {
    // One line may be longer than what is looked at; a record that goes over lines is none.
    const size_t end = text.find('\n');
    if (end == absl::string_view::npos || IsJsonObject(text.substr(0, end))) {
      return TextForm::kLines;
    }
  }
  return WrongText(path,
                   "is JSON, but neither a list of records nor a record a line; write it as one of "
                   "them, or set [data] kind (--kind) to \"plain\" to train on it as it is");
}

// Refuses as prose what has the form of something else.
absl::Status CheckIsProse(const std::string& path, absl::string_view name, absl::string_view head) {
  for (const char* table : {".csv", ".tsv"}) {
    if (!absl::EndsWithIgnoreCase(name, table)) continue;
    return WrongText(path,
                     "is a table, not prose; write its text as lines of JSON (.jsonl), or set "
                     "[data] kind (--kind) to \"plain\" to train on it as it is");
  }
  const absl::string_view text = WithoutSpace(head);
  const absl::string_view record = absl::StripLeadingAsciiWhitespace(
      absl::StartsWith(text, "[") ? text.substr(1) : absl::string_view());
  const auto begins = [](absl::string_view object) {
    if (!absl::ConsumePrefix(&object, "{")) return false;
    return absl::StartsWith(absl::StripLeadingAsciiWhitespace(object), "\"") &&
           absl::StrContains(object, "\":");
  };
  if (!begins(text) && !begins(record)) return absl::OkStatus();
  return WrongText(path,
                   "looks like records of JSON, not like prose; set [data] kind (--kind) to "
                   "\"jsonl\" to train on their text, or to \"plain\" to train on it as it is");
}

std::string HeadOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(kHead, '\0');
  file.read(head.data(), kHead);
  head.resize(static_cast<size_t>(file.gcount()));
  return head;
}

// `name` is the file's name without the ending of its compression.
absl::StatusOr<TextForm> FormOf(const std::string& path, absl::string_view name,
                                absl::string_view head, const TextOptions& options) {
  if (absl::StartsWith(head, "PAR1")) return WrongParquet(path);
  for (const Signature& one : kSignatures) {
    if (absl::StartsWith(head, one.begin)) return WrongText(path, one.what);
  }
  if (head.size() > kTarMark && absl::StartsWith(head.substr(kTarMark), "ustar")) {
    return WrongText(path, "is a tar archive; unpack it with tar first");
  }
  if (options.kind == "plain" && options.field.empty()) return TextForm::kProse;
  const bool named = absl::EndsWith(name, ".jsonl") || absl::EndsWith(name, ".ndjson");
  if (named || options.kind == "jsonl" || options.kind == "chat" || !options.field.empty()) {
    return absl::StartsWith(WithoutSpace(head), "[") ? TextForm::kArray : TextForm::kLines;
  }
  if (absl::EndsWith(name, ".json") && !head.empty()) return FormOfJson(path, head);
  RETURN_IF_ERROR(CheckIsProse(path, name, head));
  return TextForm::kProse;
}

// Notes about prose that is trained on unchanged and contains what its owner may not want.
class OddProse {
 public:
  void Look(const std::string& path, absl::string_view head) {
    if (absl::StartsWith(head, kMark)) Count(path, &marked_);
    if (absl::StrContains(head, "\r\n")) Count(path, &carriage_returns_);
  }

  void AddNotes(std::vector<std::string>* notes) const {
    if (marked_.files > 0) {
      notes->push_back(absl::StrCat(marked_.Begin("begins", "begin"),
                                    " with a byte order mark, which is trained on; "
                                    "sed -i '1s/^\\xEF\\xBB\\xBF//' takes it out"));
    }
    if (carriage_returns_.files > 0) {
      notes->push_back(absl::StrCat(carriage_returns_.Begin("has", "have"),
                                    " lines that end in CR LF, which are trained on as they are; "
                                    "sed -i 's/\\r$//' makes them end in LF"));
    }
  }

 private:
  struct Kind {
    uint64_t files = 0;
    std::string first;
    std::string Begin(absl::string_view one, absl::string_view more) const {
      return files == 1 ? absl::StrCat(first, " ", one)
                        : absl::StrCat(files, " files (", first, ", ...) ", more);
    }
  };

  static void Count(const std::string& path, Kind* kind) {
    if (kind->files++ == 0) kind->first = path;
  }

  Kind marked_, carriage_returns_;
};

bool IsLetter(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)); }

// Returns where the piece of prose or of lines that should end at `wanted` or later ends.
uint64_t CutAfter(absl::string_view text, uint64_t wanted, bool lines, bool spaces) {
  if (wanted >= text.size()) return text.size();
  const uint64_t end = lines ? text.size() : std::min<uint64_t>(text.size(), wanted + kSearch);
  for (uint64_t at = wanted; at < end; ++at) {
    if (lines || !spaces) {
      if (text[at] == '\n') return at + 1;
    } else if (text[at] == ' ' && IsLetter(text[at - 1]) && at + 1 < end &&
               IsLetter(text[at + 1])) {
      return at;
    }
  }
  uint64_t at = end;
  while (at < text.size() && (text[at] & 0xc0) == 0x80) ++at;  // not inside a character
  return at;
}

// Returns where the piece of an array that begins at `first`, with an element or with the array,
// ends: after the comma of the last element that begins before `wanted`.
uint64_t CutArray(absl::string_view text, uint64_t first, uint64_t wanted) {
  size_t at = first == 0 ? text.find('[') + 1 : first;
  while (at < wanted) {
    const size_t end = EndOfElement(text, at);
    if (end == absl::string_view::npos || text[end] == ']') return text.size();
    at = end + 1;
  }
  return at;
}

// Returns what a text that continues with `rest`, and is not UTF-8, may be, and how to convert it
// to UTF-8. Latin-1 has no characters at 0x80 to 0x9f, and cp1252 has all but five there.
std::string WhatIfNotUtf8(absl::string_view rest) {
  constexpr size_t kLook = size_t{1} << 16;
  bool windows = false;
  for (const char c : rest.substr(0, kLook)) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte == 0x81 || byte == 0x8d || byte == 0x8f || byte == 0x90 || byte == 0x9d) return "";
    windows = windows || (byte >= 0x80 && byte < 0xa0);
  }
  return windows ? "; if it is Windows-1252 (cp1252), iconv -f CP1252 -t UTF-8 turns it into UTF-8"
                 : "; if it is Latin-1, iconv -f LATIN1 -t UTF-8 turns it into UTF-8";
}

// Reads one piece of a file of records.
class RecordReader {
 public:
  RecordReader(const TextFile& file, absl::string_view text, const TextOptions& options,
               BadLines* bad, const std::function<absl::Status(absl::string_view)>& take)
      : file_(file),
        text_(text),
        field_(options.field.empty() ? kUsualField : options.field),
        chat_(options.kind == "chat"),
        has_template_(options.has_template),
        skip_(options.skip_bad_lines),
        bad_(*bad),
        take_(take) {}

  absl::Status Lines(uint64_t first, uint64_t size) {
    for (const uint64_t end = first + size; first < end;) {
      const uint64_t stop = std::min<uint64_t>(text_.find('\n', first), end);
      RETURN_IF_ERROR(Take(first, stop));
      first = stop + 1;
    }
    return absl::OkStatus();
  }

  absl::Status Array(uint64_t first, uint64_t size) {
    const uint64_t end = first + size;
    size_t at = first == 0 ? text_.find('[') + 1 : first;
    while (at < end) {
      const size_t stop = EndOfElement(text_, at);
      if (stop == absl::string_view::npos) {
        return WrongText(
            file_.path, absl::StrCat("ends inside its array, in the element of line ", LineAt(at)));
      }
      RETURN_IF_ERROR(Take(at, stop));
      at = stop + 1;
      if (text_[stop] == ',') continue;
      if (absl::StripAsciiWhitespace(text_.substr(at)).empty()) return absl::OkStatus();
      return WrongText(file_.path, absl::StrCat("continues after its array at byte ", at));
    }
    return absl::OkStatus();
  }

 private:
  uint64_t LineAt(size_t at) const {
    at = std::min(text_.find_first_not_of(" \t\r\n", at), text_.size());
    const auto begin = text_.begin();
    return 1 +
           static_cast<uint64_t>(std::count(begin, begin + static_cast<std::ptrdiff_t>(at), '\n'));
  }

  absl::StatusOr<std::string> Read(absl::string_view record) const {
    if (const size_t bad = FindInvalidUtf8(record); bad != record.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("is not UTF-8 at its byte ", bad + 1, WhatIfNotUtf8(record.substr(bad))));
    }
    if (!chat_) return TextOfRecord(record, field_);
    RETURN_IF_ERROR(ChatOfRecord(record, has_template_).status());
    return std::string(record);
  }

  absl::Status Take(uint64_t first, uint64_t end) {
    absl::string_view record = text_.substr(first, end - first);
    if (first == 0) record = absl::StripPrefix(record, kMark);
    if (absl::StripAsciiWhitespace(record).empty()) return absl::OkStatus();
    const absl::StatusOr<std::string> text = Read(record);
    if (text.ok()) return take_(*text);
    if (skip_ && ++bad_.count > kShownBadLines) return absl::OkStatus();
    const std::string line = absl::StrCat("line ", LineAt(first), " ", text.status().message());
    if (!skip_) {
      return absl::InvalidArgumentError(
          absl::StrCat("data: ", file_.path, ": ", line,
                       " ([data] on_bad_line or --on-bad-line can skip such lines)"));
    }
    bad_.first.push_back(absl::StrCat(file_.path, ": ", line));
    return absl::OkStatus();
  }

  const TextFile& file_;
  const absl::string_view text_;  // of the whole file
  const std::string field_;
  const bool chat_, has_template_;
  const bool skip_;
  BadLines& bad_;
  const std::function<absl::Status(absl::string_view)>& take_;
};

absl::Status CheckProse(const TextFile& file, const TextPiece& piece, absl::string_view text) {
  if (const size_t bad = FindInvalidUtf8(text); bad != text.size()) {
    return WrongText(file.path, absl::StrCat("is not UTF-8 at byte ", piece.first + bad,
                                             WhatIfNotUtf8(text.substr(bad))));
  }
  const size_t null = text.find('\0');
  if (null == absl::string_view::npos) return absl::OkStatus();
  return WrongText(file.path, absl::StrCat("has a zero byte at byte ", piece.first + null,
                                           ", which no text has; it is binary, or UTF-16 without "
                                           "its mark"));
}

}  // namespace

void BadLines::Add(const BadLines& more) {
  count += more.count;
  text_seen = text_seen || more.text_seen;
  for (const std::string& line : more.first) {
    if (first.size() < kShownBadLines) first.push_back(line);
  }
}

std::string BadLines::Describe() const {
  return absl::StrCat(Counted(count, "bad line was skipped", "bad lines were skipped"),
                      first.empty() ? "" : ": ", absl::StrJoin(first, "; "),
                      count > first.size() && !first.empty() ? "; ..." : "");
}

namespace {

// Adds a file with its form and size; a compressed one is unpacked after the previous ones. Returns
// how its text begins.
absl::StatusOr<std::string> OpenTextFile(const TextOptions& options,
                                         std::shared_ptr<UnpackedText>* unpacked, TextFile* file) {
  struct stat info;
  if (::stat(file->path.c_str(), &info) != 0) {
    return absl::NotFoundError(absl::StrCat("data: ", file->path, ": ", std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) return WrongText(file->path, "is not a regular file");
  file->size = static_cast<uint64_t>(info.st_size);
  std::string head = HeadOf(file->path);
  absl::string_view name = file->path;
  if (UnpackedText::IsPacked(head)) {
    if (*unpacked == nullptr) {
      ASSIGN_OR_RETURN(*unpacked, UnpackedText::Make());
    }
    file->unpacked = *unpacked;
    file->unpacked_at = (*unpacked)->size();
    ASSIGN_OR_RETURN(file->size, (*unpacked)->Append(file->path));
    head = (*unpacked)->Read(file->unpacked_at, kHead);
    name = UnpackedText::NameOfContent(name);
  }
  ASSIGN_OR_RETURN(file->form, FormOf(file->path, name, head, options));
  return head;
}

}  // namespace

absl::StatusOr<TextFiles> OpenTextFiles(const std::string& path, const TextOptions& options) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    return absl::NotFoundError(absl::StrCat("data: ", path, ": ", std::strerror(errno)));
  }
  FolderFiles found{{path}, {}};
  if (S_ISDIR(info.st_mode)) {
    ASSIGN_OR_RETURN(found, ListDataFolder(path));
  }
  TextFiles text;
  OddProse odd;
  text.notes = std::move(found.notes);
  std::shared_ptr<UnpackedText> unpacked;
  for (std::string& name : found.paths) {
    TextFile file;
    file.path = std::move(name);
    ASSIGN_OR_RETURN(const std::string head, OpenTextFile(options, &unpacked, &file));
    if (file.form == TextForm::kProse) odd.Look(file.path, head);
    text.bytes += file.size;
    text.files.push_back(std::move(file));
  }
  if (unpacked != nullptr) RETURN_IF_ERROR(unpacked->Map());
  odd.AddNotes(&text.notes);
  if (text.bytes == 0) return absl::InvalidArgumentError(absl::StrCat("data: ", path, " is empty"));
  return text;
}

absl::StatusOr<MappedText> MapText(const TextFile& file) {
  MappedText text;
  if (file.unpacked != nullptr) {
    text.unpacked_ = file.unpacked;
    text.bytes_ = file.unpacked->bytes().subspan(file.unpacked_at, file.size);
    return text;
  }
  ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(file.path));
  text.mapped_ = std::move(mapped);
  text.bytes_ = text.mapped_.bytes();
  if (text.bytes_.size() == file.size) return text;
  return absl::FailedPreconditionError(
      absl::StrCat("data: ", file.path, " had ", Counted(file.size, "byte"), " and now has ",
                   text.bytes_.size(), "; it must not change while it is read: begin again"));
}

absl::StatusOr<std::vector<TextPiece>> CutText(const std::vector<TextFile>& files,
                                               const Tokenizer& tokenizer, uint64_t piece_bytes) {
  std::vector<TextPiece> pieces;
  for (size_t i = 0; i < files.size(); ++i) {
    const TextFile& file = files[i];
    if (file.size <= piece_bytes) {
      pieces.push_back({i, 0, file.size});
      continue;
    }
    ASSIGN_OR_RETURN(const MappedText mapped, MapText(file));
    const absl::string_view text = TextOf(mapped);
    for (uint64_t first = 0; first < text.size();) {
      const uint64_t wanted = first + piece_bytes;
      const uint64_t end =
          file.form == TextForm::kArray
              ? CutArray(text, first, wanted)
              : CutAfter(text, wanted, file.form == TextForm::kLines, tokenizer.CutsAtSpaces());
      pieces.push_back({i, first, end - first});
      first = end;
    }
  }
  return pieces;
}

absl::Status ForEachDocument(const TextFile& file, const TextPiece& piece,
                             const TextOptions& options, BadLines* bad,
                             const std::function<absl::Status(absl::string_view)>& take) {
  ASSIGN_OR_RETURN(const MappedText mapped, MapText(file));
  const absl::string_view text = TextOf(mapped);
  if (file.form == TextForm::kProse) {
    const absl::string_view part = text.substr(piece.first, piece.size);
    RETURN_IF_ERROR(CheckProse(file, piece, part));
    return take(part);
  }
  RecordReader reader(file, text, options, bad, take);
  return file.form == TextForm::kLines ? reader.Lines(piece.first, piece.size)
                                       : reader.Array(piece.first, piece.size);
}

absl::Status EncodePiece(const std::vector<TextFile>& files, const TextPiece& piece,
                         const TextOptions& options, const Tokenizer& tokenizer, Encoder& encoder,
                         BadLines* bad, std::vector<uint32_t>* out) {
  const TextFile& file = files[piece.file];
  bool first = piece.file == 0 && piece.first == 0;
  return ForEachDocument(file, piece, options, bad, [&](absl::string_view text) {
    bad->text_seen = bad->text_seen || !text.empty();
    const bool begins = file.form != TextForm::kProse || piece.first == 0;
    if (begins && !std::exchange(first, false)) {
      if (const auto end = tokenizer.separator().token) {
        out->push_back(*end);
      } else {
        RETURN_IF_ERROR(encoder.Encode("\n", out));
      }
    }
    return Annotate(encoder.Encode(text, out),
                    absl::StrCat("data: ", file.path, ": in the text at byte ", piece.first));
  });
}

absl::StatusOr<std::vector<uint32_t>> CharactersOf(const std::vector<TextFile>& files,
                                                   const TextOptions& options) {
  std::vector<bool> seen(kMostCharacter, false);
  uint64_t documents = 0;
  const auto note = [&](absl::string_view text) {
    if (documents++ > 0) seen['\n'] = true;
    for (size_t i = 0; i < text.size();) {
      const size_t length = Utf8Length(text.substr(i));
      seen[ReadUtf8(text.substr(i, length))] = true;
      i += length;
    }
    return absl::OkStatus();
  };
  for (size_t i = 0; i < files.size(); ++i) {
    BadLines bad;  // counted when the text is encoded
    RETURN_IF_ERROR(ForEachDocument(files[i], {i, 0, files[i].size}, options, &bad, note));
  }
  std::vector<uint32_t> characters;
  for (uint32_t character = 0; character < kMostCharacter; ++character) {
    if (seen[character]) characters.push_back(character);
  }
  return characters;
}

}  // namespace atolld

#include "worker/data/text_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/bytes.h"
#include "compression/base/status_macros.h"
#include "worker/data/tokenizer.h"

namespace atolld {
namespace {

constexpr const char* kUsualField = "text";
constexpr uint64_t kSearch = uint64_t{1} << 20;  // for a good place to cut
constexpr uint32_t kMostCharacter = 0x110000;

absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& path) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (auto it = std::filesystem::recursive_directory_iterator(path, error);
       !error && it != std::filesystem::recursive_directory_iterator(); it.increment(error)) {
    if (it->is_regular_file(error)) files.push_back(it->path());
    if (error) break;
  }
  if (error) {
    return absl::UnavailableError(absl::StrCat("data: listing ", path, ": ", error.message()));
  }
  if (files.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("data: folder ", path, " holds no files"));
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> names;
  for (const std::filesystem::path& file : files) names.push_back(file.string());
  return names;
}

bool IsLetter(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)); }

// Where the piece that is to end at `wanted` or later ends.
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

absl::Status DocumentsOfLines(const TextFile& file, const TextPiece& piece,
                              const std::string& field,
                              const std::function<absl::Status(absl::string_view)>& take) {
  const std::string& key = field.empty() ? kUsualField : field;
  const absl::string_view text = file.text().substr(piece.first, piece.size);
  for (size_t first = 0; first < text.size();) {
    const size_t end = std::min(text.find('\n', first), text.size());
    const absl::string_view line = text.substr(first, end - first);
    const auto wrong = [&](absl::string_view what) {
      return absl::InvalidArgumentError(
          absl::StrCat("data: ", file.path, ": the line at byte ", piece.first + first, " ", what));
    };
    if (!absl::StripAsciiWhitespace(line).empty()) {
      const nlohmann::json json =
          nlohmann::json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
      if (!json.is_object()) return wrong("is not a JSON object");
      const auto found = json.find(key);
      if (found == json.end() || !found->is_string()) {
        return wrong(absl::StrCat("has no text under \"", key, "\""));
      }
      const auto& document = found->get_ref<const std::string&>();
      RETURN_IF_ERROR(take(document));
    }
    first = end + 1;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TextFile>> OpenTextFiles(const std::string& path,
                                                    const std::string& field, bool json) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    return absl::NotFoundError(absl::StrCat("data: ", path, ": ", std::strerror(errno)));
  }
  std::vector<std::string> names = {path};
  if (S_ISDIR(info.st_mode)) {
    ASSIGN_OR_RETURN(names, ListFolder(path));
  }
  std::vector<TextFile> files;
  uint64_t bytes = 0;
  for (std::string& name : names) {
    TextFile file;
    ASSIGN_OR_RETURN(file.file, MappedFile::Open(name));
    file.lines_of_json =
        json || !field.empty() || absl::EndsWith(name, ".jsonl") || absl::EndsWith(name, ".ndjson");
    file.path = std::move(name);
    bytes += file.text().size();
    files.push_back(std::move(file));
  }
  if (bytes == 0) return absl::InvalidArgumentError(absl::StrCat("data: ", path, " is empty"));
  return files;
}

std::vector<TextPiece> CutText(const std::vector<TextFile>& files, const Tokenizer& tokenizer,
                               uint64_t piece_bytes) {
  std::vector<TextPiece> pieces;
  for (size_t i = 0; i < files.size(); ++i) {
    const absl::string_view text = files[i].text();
    uint64_t first = 0;
    do {
      const uint64_t end =
          CutAfter(text, first + piece_bytes, files[i].lines_of_json, tokenizer.CutsAtSpaces());
      pieces.push_back({i, first, end - first});
      first = end;
    } while (first < text.size());
  }
  return pieces;
}

absl::Status ForEachDocument(const TextFile& file, const TextPiece& piece, const std::string& field,
                             const std::function<absl::Status(absl::string_view)>& take) {
  const absl::string_view text = file.text().substr(piece.first, piece.size);
  if (const size_t bad = FindInvalidUtf8(BytesOf(text)); bad != text.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: ", file.path, " is not UTF-8 at byte ", piece.first + bad));
  }
  return file.lines_of_json ? DocumentsOfLines(file, piece, field, take) : take(text);
}

absl::Status EncodePiece(const std::vector<TextFile>& files, const TextPiece& piece,
                         const std::string& field, const Tokenizer& tokenizer, Encoder& encoder,
                         std::vector<uint32_t>* out) {
  const TextFile& file = files[piece.file];
  bool first = piece.file == 0 && piece.first == 0;
  return ForEachDocument(file, piece, field, [&](absl::string_view text) {
    const bool begins = file.lines_of_json || piece.first == 0;
    if (begins && !std::exchange(first, false)) {
      if (const auto end = tokenizer.end_of_text()) {
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
                                                   const std::string& field) {
  std::vector<bool> seen(kMostCharacter, false);
  uint64_t documents = 0;
  const auto note = [&](absl::string_view text) {
    if (documents++ > 0) seen['\n'] = true;
    const absl::Span<const uint8_t> bytes = BytesOf(text);
    for (size_t i = 0; i < bytes.size();) {
      const size_t length = Utf8Length(bytes.subspan(i));
      seen[ReadUtf8(bytes.subspan(i, length))] = true;
      i += length;
    }
    return absl::OkStatus();
  };
  for (size_t i = 0; i < files.size(); ++i) {
    const TextPiece whole = {i, 0, files[i].text().size()};
    RETURN_IF_ERROR(ForEachDocument(files[i], whole, field, note));
  }
  std::vector<uint32_t> characters;
  for (uint32_t character = 0; character < kMostCharacter; ++character) {
    if (seen[character]) characters.push_back(character);
  }
  return characters;
}

}  // namespace atolld

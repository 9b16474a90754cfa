#include "worker/data/piece_file.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compression/base/bytes.h"
#include "worker/base/file_io.h"
#include "worker/base/sha256.h"

namespace atolld {
namespace {

constexpr size_t kKeyBytes = 65;  // and a newline

}  // namespace

std::string PieceKey(absl::string_view settings, absl::Span<const uint8_t> text) {
  const std::string head = absl::StrCat(settings.size(), "\n", settings);
  return absl::BytesToHexString(Sha256().Add(head).Add(text).Finish());
}

absl::Status WritePiece(const std::string& path, const std::string& key,
                        const std::string& tokens) {
  const std::string head = key + "\n";
  return WriteFileDurably(path, {BytesOf(head), BytesOf(tokens)});
}

absl::optional<MappedFile> OpenPiece(const std::string& path, const std::string& key,
                                     absl::Span<const uint8_t>* tokens) {
  auto file = MappedFile::Open(path);
  if (!file.ok() || file->bytes().size() < kKeyBytes) return absl::nullopt;
  const absl::string_view head(reinterpret_cast<const char*>(file->bytes().data()), kKeyBytes);
  if (head != absl::StrCat(key, "\n")) return absl::nullopt;
  *tokens = file->bytes().subspan(kKeyBytes);
  return *std::move(file);
}

}  // namespace atolld

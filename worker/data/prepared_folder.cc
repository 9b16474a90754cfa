#include "worker/data/prepared_folder.h"

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "worker/base/file_io.h"
#include "worker/base/sha256.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

absl::Status Bad(const std::string& path, absl::string_view key, absl::string_view must_be) {
  return absl::InvalidArgumentError(
      absl::StrCat("data: ", path, ": \"", key, "\" must be ", must_be));
}

absl::Status Read(const std::string& path, const Json& json, const char* key, uint64_t* out) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_unsigned()) {
    return Bad(path, key, "a whole number, 0 or more");
  }
  *out = found->get<uint64_t>();
  return absl::OkStatus();
}

absl::Status Read(const std::string& path, const Json& json, const char* key, std::string* out) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) return Bad(path, key, "a text");
  *out = found->get<std::string>();
  return absl::OkStatus();
}

absl::Status ReadDigest(const std::string& path, const Json& json, const char* key,
                        std::string* out) {
  std::string hex;
  RETURN_IF_ERROR(Read(path, json, key, &hex));
  const bool digits = hex.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!digits || (hex.size() != 64 && !hex.empty())) return Bad(path, key, "64 hex digits");
  *out = Sha256FromHex(hex);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PreparedInfo> ReadPreparedInfo(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kDataFile);
  auto text = ReadWholeFile(path);
  RETURN_IF_ERROR(Annotate(text.status(), "data"));
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat("data: ", path, " is not a JSON object"));
  }
  PreparedInfo info;
  uint64_t format = 0, width = 0, vocabulary = 0;
  RETURN_IF_ERROR(Read(path, json, "format", &format));
  if (format != kFormat) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: ", path, " is of format ", format, "; this release reads ", kFormat));
  }
  RETURN_IF_ERROR(Read(path, json, "tokenizer", &info.tokenizer));
  RETURN_IF_ERROR(ReadDigest(path, json, "tokenizer_digest", &info.tokenizer_digest));
  RETURN_IF_ERROR(Read(path, json, "vocabulary", &vocabulary));
  RETURN_IF_ERROR(Read(path, json, "width", &width));
  if (vocabulary == 0 || vocabulary >> 32 != 0) return Bad(path, "vocabulary", "1 to 2^32 - 1");
  if (width != 1 && width != 2 && width != 4) return Bad(path, "width", "1, 2 or 4");
  info.vocabulary = static_cast<uint32_t>(vocabulary);
  info.width = static_cast<uint32_t>(width);
  RETURN_IF_ERROR(Read(path, json, "train_tokens", &info.train_tokens));
  RETURN_IF_ERROR(Read(path, json, "validation_tokens", &info.validation_tokens));
  RETURN_IF_ERROR(ReadDigest(path, json, "content_digest", &info.content_digest));
  const auto fraction = json.find("validation_fraction");
  if (fraction == json.end() || !fraction->is_number()) {
    return Bad(path, "validation_fraction", "a number");
  }
  info.validation_fraction = fraction->get<double>();
  RETURN_IF_ERROR(Read(path, json, "field", &info.field));
  RETURN_IF_ERROR(Read(path, json, "source_path", &info.source_path));
  RETURN_IF_ERROR(Read(path, json, "source_files", &info.source_files));
  RETURN_IF_ERROR(Read(path, json, "source_bytes", &info.source_bytes));
  return info;
}

std::string FormatPreparedInfo(const PreparedInfo& info) {
  const Json json = {{"format", kFormat},
                     {"tokenizer", info.tokenizer},
                     {"tokenizer_digest", absl::BytesToHexString(info.tokenizer_digest)},
                     {"vocabulary", info.vocabulary},
                     {"width", info.width},
                     {"train_tokens", info.train_tokens},
                     {"validation_tokens", info.validation_tokens},
                     {"content_digest", absl::BytesToHexString(info.content_digest)},
                     {"validation_fraction", info.validation_fraction},
                     {"field", info.field},
                     {"source_path", info.source_path},
                     {"source_files", info.source_files},
                     {"source_bytes", info.source_bytes}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

uint32_t WidthFor(uint64_t vocabulary) {
  return vocabulary <= 256 ? 1 : vocabulary <= 65536 ? 2 : 4;
}

std::string DataDigest(const TokenSpan& train, const TokenSpan& validation,
                       const std::string& content_digest, const std::string& tokenizer_digest,
                       double validation_fraction) {
  const uint64_t tokens = train.size() + validation.size();
  if (tokenizer_digest.empty() && train.width() == 1 &&
      train.size() == TrainTokens(tokens, validation_fraction)) {
    return content_digest;
  }
  return Sha256()
      .Add(absl::StrCat("atoll data 1\n", train.width(), " ", train.size(), " ", validation.size(),
                        " ", tokenizer_digest.size(), "\n"))
      .Add(content_digest)
      .Add(tokenizer_digest)
      .Finish();
}

}  // namespace atolld

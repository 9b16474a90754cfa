#include "worker/data/tokenizer_file.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "worker/base/file_io.h"
#include "worker/data/tokenizer_bpe.h"
#include "worker/data/tokenizer_sentencepiece.h"

namespace atolld {

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& spec) {
  if (spec.empty() || spec == "bytes") return MakeByteTokenizer();
  auto file = ReadWholeFile(spec);
  RETURN_IF_ERROR(Annotate(file.status(), "tokenizer"));
  return ParseTokenizer(spec, *std::move(file));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ParseTokenizer(const std::string& name,
                                                          std::string file) {
  const std::string where = absl::StrCat("tokenizer ", name);
  const auto first = file.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": the file is empty"));
  }
  auto tokenizer = [&]() -> absl::StatusOr<std::unique_ptr<Tokenizer>> {
    if (file[first] != '{') return MakeSentencePieceTokenizer(std::move(file));
    const nlohmann::json json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) return absl::InvalidArgumentError("it is not well-formed JSON");
    if (json.contains("characters")) return ParseCharTokenizer(json);
    return ParseBpeTokenizer(json, std::move(file));
  }();
  RETURN_IF_ERROR(Annotate(tokenizer.status(), where));
  return tokenizer;
}

std::string TokenizerFileName(const std::string& kind) {
  if (kind == "chars") return "characters.json";
  if (kind == "bpe") return "tokenizer.json";
  if (kind == "sentencepiece") return "tokenizer.model";
  return "";
}

}  // namespace atolld

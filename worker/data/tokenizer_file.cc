#include "worker/data/tokenizer_file.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compression/base/status_macros.h"
#include "worker/base/file_io.h"
#include "worker/data/tokenizer_json.h"
#include "worker/data/tokenizer_sentencepiece.h"

namespace atolld {

namespace {

namespace fs = std::filesystem;

// The files of which a folder's tokenizer is the first.
constexpr const char* kTokenizerFiles[] = {"tokenizer.json", "tokenizer.model", "characters.json"};

// Used if no file names it: the first of these that the tokenizer has.
constexpr const char* kEndsOfText[] = {"<|endoftext|>", "<|end_of_text|>", "</s>",    "<eos>",
                                       "[EOS]",         "<EOS>",           "<|eos|>", "<|im_end|>",
                                       "<end>",         "<|eot_id|>",      "<|end|>"};

// Returns the token that, according to the files in `folder`, ends a text; nullopt if they do not
// say it for this tokenizer.
absl::optional<uint32_t> EndSaidBy(const std::string& path, const Tokenizer& tokenizer) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return absl::nullopt;
  const nlohmann::json json =
      nlohmann::json::parse(ReadWholeFile(path).value_or(""), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::nullopt;
  if (const auto named = json.find("eos_token"); named != json.end()) {
    const nlohmann::json text =
        named->is_object() ? named->value("content", nlohmann::json()) : *named;
    if (text.is_string()) return tokenizer.IdOf(text.get<std::string>());
  }
  if (const auto numbered = json.find("eos_token_id"); numbered != json.end()) {
    const nlohmann::json id =
        numbered->is_array() && !numbered->empty() ? numbered->front() : *numbered;
    if (id.is_number_unsigned() && id.get<uint64_t>() < tokenizer.vocabulary()) {
      return id.get<uint32_t>();
    }
  }
  return absl::nullopt;
}

Separator SeparatorOf(const std::string& spec, const Tokenizer& tokenizer) {
  const auto made = [&](uint32_t token, std::string said_by) {
    std::string text = tokenizer.Written(token);
    if (text.empty()) text = tokenizer.Decode({token}).value_or("");
    return Separator{token, std::move(text), std::move(said_by)};
  };
  const fs::path folder = fs::path(spec).parent_path();
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json",
                           "generation_config.json", "config.json"}) {
    if (const auto token = EndSaidBy((folder / name).string(), tokenizer)) {
      return made(*token, name);
    }
  }
  if (const auto token = tokenizer.OwnEndOfText()) return made(*token, "the tokenizer's file");
  for (const char* name : kEndsOfText) {
    if (const auto token = tokenizer.IdOf(name)) return made(*token, "its name");
  }
  return {};
}

absl::Status SetSeparator(const std::string& spec, const std::string& end_of_text,
                          Tokenizer* tokenizer) {
  Separator separator;
  if (!end_of_text.empty()) {
    separator = {tokenizer->IdOf(end_of_text), end_of_text, "end_of_text"};
    if (!separator.token.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "end_of_text is \"", end_of_text, "\", and tokenizer ", spec,
          " has no such token; name one as its file writes it, \"</s>\" for instance"));
    }
  } else if (tokenizer->kind() != "bytes" && tokenizer->kind() != "chars") {
    separator = SeparatorOf(spec, *tokenizer);
  }
  tokenizer->set_separator(std::move(separator));
  return absl::OkStatus();
}

// Returns the tokenizer's file if `spec` is a folder, such as a model's.
absl::StatusOr<std::string> FileOf(const std::string& spec) {
  std::error_code error;
  if (!fs::is_directory(spec, error)) return spec;
  for (const char* name : kTokenizerFiles) {
    const fs::path file = fs::path(spec) / name;
    if (fs::is_regular_file(file, error)) return file.string();
  }
  return absl::NotFoundError(
      absl::StrCat("tokenizer: the folder ", spec,
                   " has no tokenizer.json, tokenizer.model or characters.json"));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ReadTokenizer(const std::string& spec) {
  auto file = ReadWholeFile(spec);
  RETURN_IF_ERROR(Annotate(file.status(), "tokenizer"));
  auto tokenizer = ParseTokenizer(spec, *std::move(file));
  const fs::path beside = fs::path(spec).parent_path() / "tokenizer.model";
  std::error_code error;
  if (!absl::IsInvalidArgument(tokenizer.status()) ||
      fs::path(spec).filename() != "tokenizer.json" || !fs::is_regular_file(beside, error)) {
    return tokenizer;
  }
  ASSIGN_OR_RETURN(std::string model, ReadWholeFile(beside.string()));
  auto other = ParseTokenizer(beside.string(), std::move(model));
  if (!other.ok()) return tokenizer.status();
  (*other)->set_note(
      absl::StrCat(tokenizer.status().message(), "; ", beside.string(), " is used in its place"));
  return other;
}

// Looks at the first line of a tiktoken file: a token in base64, a space and its rank.
bool IsTiktoken(absl::string_view text) {
  const absl::string_view line = text.substr(0, text.find('\n'));
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, ' ');
  std::string bytes;
  uint32_t rank = 0;
  return !parts.first.empty() && absl::Base64Unescape(parts.first, &bytes) &&
         absl::SimpleAtoi(parts.second, &rank);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& spec,
                                                         const std::string& end_of_text) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = MakeByteTokenizer();
  std::string file = spec;
  if (!spec.empty() && spec != "bytes") {
    ASSIGN_OR_RETURN(file, FileOf(spec));
    tokenizer = ReadTokenizer(file);
  }
  RETURN_IF_ERROR(tokenizer.status());
  RETURN_IF_ERROR(SetSeparator(file, end_of_text, tokenizer->get()));
  return tokenizer;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ParseTokenizer(const std::string& name,
                                                          std::string file) {
  const std::string where = absl::StrCat("tokenizer ", name);
  const size_t mark = absl::StartsWith(file, "\xef\xbb\xbf") ? 3 : 0;
  const auto first = file.find_first_not_of(" \t\r\n", mark);
  if (first == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": the file is empty"));
  }
  auto tokenizer = [&]() -> absl::StatusOr<std::unique_ptr<Tokenizer>> {
    if (IsTiktoken(absl::string_view(file).substr(first))) {
      return absl::InvalidArgumentError(
          "it is a tiktoken file, which has tokens and ranks and does not say how text is cut; "
          "take the tokenizer.json of the same model");
    }
    if (file[first] != '{') return MakeSentencePieceTokenizer(std::move(file));
    const nlohmann::json json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) return absl::InvalidArgumentError("it is not well-formed JSON");
    if (json.contains("characters")) return ParseCharTokenizer(json);
    if (!json.contains("model") && json.contains("vocab") && json["vocab"].is_array()) {
      return absl::InvalidArgumentError(
          "it is a tekken.json; take the tokenizer.json of the same model");
    }
    return ParseJsonTokenizer(json, std::move(file));
  }();
  RETURN_IF_ERROR(Annotate(tokenizer.status(), where));
  return tokenizer;
}

absl::Status CheckTokenizerBeside(absl::string_view key, const std::string& file,
                                  const Tokenizer* tokenizer) {
  if (file.empty() || tokenizer == nullptr) return absl::OkStatus();
  std::string there;  // The first of the folder's files.
  std::string its_digest;
  for (const char* name : kTokenizerFiles) {
    const fs::path path = fs::path(file).parent_path() / name;
    std::error_code error;
    if (!fs::is_regular_file(path, error)) continue;
    ASSIGN_OR_RETURN(const std::string content, ReadWholeFile(path.string()));
    const std::string digest = Sha256Stream().Add(content).Finish();
    if (digest == tokenizer->digest()) return absl::OkStatus();
    if (!there.empty()) continue;
    there = path.string();
    its_digest = digest;
  }
  if (there.empty()) return absl::OkStatus();
  const std::string& digest = tokenizer->digest();
  return absl::FailedPreconditionError(absl::StrCat(
      key, ": ", there, ", the tokenizer of ", file, ", has SHA-256 ",
      absl::BytesToHexString(its_digest), "; the data's tokenizer is \"", tokenizer->kind(), "\"",
      digest.empty() ? "" : ", SHA-256 ", absl::BytesToHexString(digest),
      ": set [data] tokenizer = ", "\"", there,
      "\" and prepare the data with it, or remove that file if it is not the model's"));
}

std::string TokenizerFileName(const std::string& kind) {
  if (kind == "chars") return "characters.json";
  if (kind == "bpe" || kind == "unigram") return "tokenizer.json";
  if (kind == "sentencepiece") return "tokenizer.model";
  return "";
}

}  // namespace atolld

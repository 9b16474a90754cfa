#include "worker/data/token_source.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/bytes.h"
#include "compression/base/status_macros.h"
#include "worker/base/file_io.h"
#include "worker/data/prepare.h"
#include "worker/data/text_files.h"
#include "worker/data/token_file.h"
#include "worker/data/tokenizer.h"
#include "worker/data/tokenizer_file.h"

namespace atolld {
namespace {

constexpr char kNanoGptValidation[] = "val.bin";

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

std::string In(const std::string& folder, absl::string_view name) {
  return absl::StrCat(folder, "/", name);
}

bool IsNanoGptFolder(const std::string& path) {
  return Exists(In(path, kTrainFile)) && Exists(In(path, kNanoGptValidation));
}

// What a path of kind "text" holds.
std::string KindOf(const std::string& path) {
  if (Exists(In(path, kDataFile)) && Exists(In(path, kTrainFile))) return "prepared";
  if (IsNanoGptFolder(path) || absl::EndsWith(path, ".bin")) return "bin";
  return absl::EndsWith(path, ".npy") ? "npy" : "text";
}

absl::Status CheckFraction(double fraction) {
  if (fraction >= 0 && fraction <= 0.5) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data.validation_fraction is ", fraction, "; it must be 0-0.5"));
}

absl::Status CheckVocabulary(const std::string& path, uint64_t tokenizer, uint64_t model) {
  if (tokenizer <= model) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("data: ", path, " has a vocabulary of ", tokenizer,
                                                 " tokens; the model's has ", model,
                                                 ": say [model] vocabulary where the run is made"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenSource>> TokenSource::Open(const std::string& path,
                                                               const Options& options) {
  RETURN_IF_ERROR(CheckFraction(options.validation_fraction));
  if (!Exists(path)) {
    return absl::NotFoundError(absl::StrCat("data: ", path, ": No such file or directory"));
  }
  std::unique_ptr<TokenSource> source(new TokenSource);
  const std::string kind = options.kind == "text" ? KindOf(path) : options.kind;
  if (kind == "prepared") {
    RETURN_IF_ERROR(source->OpenPrepared(path, options));
  } else if (kind == "bin" || kind == "npy") {
    RETURN_IF_ERROR(source->OpenTokens(path, options));
  } else if (kind == "text" || kind == "jsonl") {
    RETURN_IF_ERROR(source->OpenText(path, options));
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.kind \"", options.kind, "\" is not known; known: text, jsonl, bin, npy, prepared"));
  }
  if (source->digest_.empty()) source->Name(options);
  source->kind_ = kind;
  return source;
}

absl::StatusOr<std::unique_ptr<TokenSource>> TokenSource::FromText(std::string text,
                                                                   double validation_fraction) {
  RETURN_IF_ERROR(CheckFraction(validation_fraction));
  std::unique_ptr<TokenSource> source(new TokenSource);
  source->text_ = std::move(text);
  source->tokenizer_ = MakeByteTokenizer();
  source->kind_ = "text";
  Options options;
  options.validation_fraction = validation_fraction;
  const absl::Span<const uint8_t> bytes = BytesOf(source->text_);
  if (bytes.empty()) return absl::InvalidArgumentError("data: the text is empty");
  if (const size_t bad = FindInvalidUtf8(bytes); bad != bytes.size()) {
    return absl::InvalidArgumentError(absl::StrCat("data: the text is not UTF-8 at byte ", bad));
  }
  RETURN_IF_ERROR(source->Split(TokenSpan(bytes, 1), options));
  source->Name(options);
  return source;
}

absl::Status TokenSource::Split(const TokenSpan& all, const Options& options) {
  const uint64_t train = TrainTokens(all.size(), options.validation_fraction);
  train_ = all.First(train);
  validation_ = all.From(train);
  return absl::OkStatus();
}

void TokenSource::Name(const Options& options) {
  const std::string content = Sha256Stream().Add(train_.bytes()).Add(validation_.bytes()).Finish();
  digest_ = DataDigest(train_, validation_, content, tokenizer_ ? tokenizer_->digest() : "",
                       options.validation_fraction);
}

absl::Status TokenSource::OpenText(const std::string& path, const Options& options) {
  ASSIGN_OR_RETURN(std::vector<TextFile> files,
                   OpenTextFiles(path, options.field, options.kind == "jsonl"));
  if (options.tokenizer == "chars") {
    ASSIGN_OR_RETURN(const std::vector<uint32_t> characters, CharactersOf(files, options.field));
    auto tokenizer = MakeCharTokenizer(characters);
    RETURN_IF_ERROR(Annotate(tokenizer.status(), absl::StrCat("data: ", path)));
    tokenizer_ = *std::move(tokenizer);
  } else {
    ASSIGN_OR_RETURN(tokenizer_, LoadTokenizer(options.tokenizer));
  }
  RETURN_IF_ERROR(CheckVocabulary(path, tokenizer_->vocabulary(), options.vocabulary));
  const bool plain = files.size() == 1 && !files[0].lines_of_json && tokenizer_->kind() == "bytes";
  if (plain) {  // the commonest: nothing is copied
    const auto nothing = [](absl::string_view) { return absl::OkStatus(); };
    RETURN_IF_ERROR(
        ForEachDocument(files[0], {0, 0, files[0].text().size()}, options.field, nothing));
    files_.push_back(std::move(files[0].file));
    return Split(TokenSpan(files_[0].bytes(), 1), options);
  }
  const uint32_t width = WidthFor(tokenizer_->vocabulary());
  const std::unique_ptr<Encoder> encoder = tokenizer_->NewEncoder();
  std::vector<uint32_t> tokens;
  for (const TextPiece& piece : CutText(files, *tokenizer_)) {
    tokens.clear();
    RETURN_IF_ERROR(EncodePiece(files, piece, options.field, *tokenizer_, *encoder, &tokens));
    AppendTokens(tokens, width, &text_);
  }
  return Split(TokenSpan(BytesOf(text_), width), options);
}

absl::Status TokenSource::OpenTokens(const std::string& path, const Options& options) {
  if (options.tokenizer != "bytes" && options.tokenizer != "chars") {
    ASSIGN_OR_RETURN(tokenizer_, LoadTokenizer(options.tokenizer));
    RETURN_IF_ERROR(
        CheckVocabulary(options.tokenizer, tokenizer_->vocabulary(), options.vocabulary));
  }
  const auto open = [&](const std::string& name) -> absl::StatusOr<TokenSpan> {
    ASSIGN_OR_RETURN(TokenFile file, OpenTokenFile(name));
    RETURN_IF_ERROR(CheckIds(name, file, options.vocabulary));
    files_.push_back(std::move(file.file));
    return file.tokens;
  };
  if (!IsNanoGptFolder(path)) {
    ASSIGN_OR_RETURN(const TokenSpan all, open(path));
    return Split(all, options);
  }
  ASSIGN_OR_RETURN(train_, open(In(path, kTrainFile)));
  ASSIGN_OR_RETURN(validation_, open(In(path, kNanoGptValidation)));
  return absl::OkStatus();
}

absl::Status TokenSource::OpenPrepared(const std::string& path, const Options& options) {
  ASSIGN_OR_RETURN(const PreparedInfo info, ReadPreparedInfo(path));
  const std::string name = TokenizerFileName(info.tokenizer);
  ASSIGN_OR_RETURN(tokenizer_, LoadTokenizer(name.empty() ? "bytes" : In(path, name)));
  const auto differs = [&](absl::string_view file, absl::string_view what) {
    return absl::DataLossError(absl::StrCat("data: ", In(path, file), " is not what ", kDataFile,
                                            " names: ", what, "; prepare the folder anew"));
  };
  if (tokenizer_->digest() != info.tokenizer_digest) return differs(name, "its SHA-256 differs");
  RETURN_IF_ERROR(CheckVocabulary(path, info.vocabulary, options.vocabulary));
  const auto open = [&](const char* file, uint64_t tokens, TokenSpan* out) -> absl::Status {
    ASSIGN_OR_RETURN(TokenFile bare, OpenBareTokens(In(path, file), info.width));
    if (bare.tokens.size() != tokens) {
      return differs(file, absl::StrCat("it has ", bare.tokens.size(), " tokens, not ", tokens));
    }
    RETURN_IF_ERROR(CheckIds(In(path, file), bare, info.vocabulary));
    files_.push_back(std::move(bare.file));
    *out = bare.tokens;
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(open(kTrainFile, info.train_tokens, &train_));
  RETURN_IF_ERROR(open(kValidationFile, info.validation_tokens, &validation_));
  const std::string content = Sha256Stream().Add(train_.bytes()).Add(validation_.bytes()).Finish();
  if (content != info.content_digest) {
    return differs(kTrainFile, absl::StrCat("with ", kValidationFile, " its SHA-256 is ",
                                            absl::BytesToHexString(content)));
  }
  digest_ =
      DataDigest(train_, validation_, content, info.tokenizer_digest, options.validation_fraction);
  return absl::OkStatus();
}

}  // namespace atolld

#include "worker/data/token_source.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/bytes.h"
#include "compression/base/status_macros.h"
#include "compression/base/utf8.h"
#include "compression/base/words.h"
#include "worker/base/file_io.h"
#include "worker/data/folder_files.h"
#include "worker/data/prepare.h"
#include "worker/data/recurrence.h"
#include "worker/data/text_files.h"
#include "worker/data/token_file.h"
#include "worker/data/tokenizer.h"
#include "worker/data/tokenizer_file.h"

namespace atolld {
namespace {

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

std::string In(const std::string& folder, absl::string_view name) {
  return absl::StrCat(folder, "/", name);
}

// Returns what a path of kind "text" holds.
absl::StatusOr<std::string> KindOf(const std::string& path) {
  if (Exists(In(path, kDataFile)) && Exists(In(path, kTrainFile))) return std::string("prepared");
  if (absl::EndsWith(path, ".bin")) return std::string("bin");
  if (absl::EndsWith(path, ".npy")) return std::string("npy");
  ASSIGN_OR_RETURN(const bool shards, HoldsTokenShards(path));
  return std::string(shards ? "bin" : "text");
}

TextOptions TextOf(const TokenSource::Options& options) {
  return {options.kind, options.field, options.skip_bad_lines, !options.chat.template_name.empty()};
}

// Returns a note if the data is one token repeated; empty otherwise.
std::string NoteOfOneToken(const TokenSpan& train) {
  constexpr uint64_t kTogether = 4096;
  int64_t token = 0;
  if (train.size() < 2) return "";
  train.Read(0, absl::MakeSpan(&token, 1));
  for (uint64_t first = 0; first < train.size(); first += kTogether) {
    std::vector<int64_t> ids(std::min(kTogether, train.size() - first));
    train.Read(first, absl::MakeSpan(ids));
    if (std::any_of(ids.begin(), ids.end(), [&](int64_t id) { return id != token; })) return "";
  }
  return absl::StrCat("every training token is ", token, ": is this the data?");
}

absl::Status CheckFraction(double fraction) {
  if (fraction >= 0 && fraction <= 0.5) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data.validation_fraction is ", fraction, "; it must be 0-0.5"));
}

absl::Status CheckVocabulary(const std::string& path, uint64_t tokenizer, uint64_t model) {
  if (tokenizer <= model) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data: ", path, " has a vocabulary of ", Counted(tokenizer, "token"),
                   "; the model's has ", model, ": set [model] vocabulary where the run is made"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenSource>> TokenSource::Open(const std::string& path,
                                                               const Options& options) {
  RETURN_IF_ERROR(CheckFraction(options.validation_fraction));
  if (!Exists(path)) {
    return absl::NotFoundError(absl::StrCat("data: ", path, ": No such file or directory"));
  }
  std::unique_ptr<TokenSource> source(new TokenSource);
  std::string kind = options.kind;
  if (kind == "text") {
    ASSIGN_OR_RETURN(kind, KindOf(path));
  }
  if (kind == "prepared") {
    RETURN_IF_ERROR(source->OpenPrepared(path, options));
  } else if (kind == "bin" || kind == "npy") {
    RETURN_IF_ERROR(source->OpenTokens(path, options));
  } else if (kind == "text" || kind == "plain" || kind == "jsonl") {
    RETURN_IF_ERROR(source->OpenText(path, options));
  } else if (kind == "chat") {
    RETURN_IF_ERROR(source->OpenChat(path, options));
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("data.kind \"", options.kind,
                     "\" is not known; known: text, plain, jsonl, chat, bin, npy, prepared"));
  }
  source->kind_ = kind;
  source->NoteRecurring();
  if (!options.named) return source;
  if (source->digest_.empty()) source->Name(options);
  if (const std::string same = NoteOfOneToken(source->train_); !same.empty()) {
    source->notes_.push_back(same);
  }
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
  if (const size_t bad = FindInvalidUtf8(source->text_); bad != bytes.size()) {
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

absl::Status TokenSource::TakeTokenizer(const std::string& name, const Options& options) {
  tokenizer_ = options.ready;
  if (tokenizer_ != nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(tokenizer_, LoadTokenizer(name, options.end_of_text));
  return absl::OkStatus();
}

void TokenSource::NoteRecurring() {
  RecurrenceSearch search(RecurrenceSearch::LengthFor(tokenizer_.get()));
  search.Add(validation_, validation_marks());
  search.LookIn(train_, train_marks());
  const std::string note = search.Note("the validation part", "the training part");
  if (!note.empty()) notes_.push_back(note);
}

void TokenSource::Name(const Options& options) {
  const std::string content = ContentDigest(train_, validation_);
  digest_ = DataDigest(train_, validation_, content, tokenizer_ ? tokenizer_->digest() : "",
                       options.validation_fraction);
  if (options.kind != "chat") return;
  Sha256Stream chat;
  chat.Add(absl::StrCat("atoll conversations 1\n", digest_));
  for (const TokenMarks* marks : {&train_marks_, &validation_marks_}) {
    chat.Add(absl::StrCat("\n", absl::StrJoin(marks->begins, " "), "\n"));
    chat.Add(std::string(marks->learnt.begin(), marks->learnt.end()));
  }
  digest_ = chat.Finish();
}

absl::Status TokenSource::OpenText(const std::string& path, const Options& options) {
  ASSIGN_OR_RETURN(TextFiles text, OpenTextFiles(path, TextOf(options)));
  notes_ = std::move(text.notes);
  if (options.tokenizer == "chars") {
    ASSIGN_OR_RETURN(const std::vector<uint32_t> characters,
                     CharactersOf(text.files, TextOf(options)));
    auto tokenizer = MakeCharTokenizer(characters);
    RETURN_IF_ERROR(Annotate(tokenizer.status(), absl::StrCat("data: ", path)));
    tokenizer_ = *std::move(tokenizer);
  } else {
    RETURN_IF_ERROR(TakeTokenizer(options.tokenizer, options));
  }
  if (!tokenizer_->note().empty()) notes_.push_back(tokenizer_->note());
  RETURN_IF_ERROR(CheckVocabulary(path, tokenizer_->vocabulary(), options.vocabulary));
  const bool one = text.files.size() == 1 && text.files[0].form == TextForm::kProse;
  if (!one) {
    notes_.push_back(
        absl::StrCat("between two documents stands ", Describe(tokenizer_->separator())));
  }
  if (!one || tokenizer_->kind() != "bytes") return EncodeText(text.files, path, options);
  // The commonest: nothing is copied.
  BadLines none;
  const auto nothing = [](absl::string_view) { return absl::OkStatus(); };
  RETURN_IF_ERROR(
      ForEachDocument(text.files[0], {0, 0, text.files[0].size}, TextOf(options), &none, nothing));
  ASSIGN_OR_RETURN(mapped_text_, MapText(text.files[0]));
  return Split(TokenSpan(mapped_text_.bytes(), 1), options);
}

absl::Status TokenSource::OpenChat(const std::string& path, const Options& options) {
  if (options.tokenizer == "chars") {
    return absl::InvalidArgumentError(
        "data: conversations need a tokenizer's file, or \"bytes\" without a template, not "
        "\"chars\"");
  }
  const TextOptions how = TextOf(options);
  ASSIGN_OR_RETURN(const TextFiles text, OpenTextFiles(path, how));
  notes_ = text.notes;
  RETURN_IF_ERROR(TakeTokenizer(options.tokenizer, options));
  if (!tokenizer_->note().empty()) notes_.push_back(tokenizer_->note());
  RETURN_IF_ERROR(CheckVocabulary(path, tokenizer_->vocabulary(), options.vocabulary));
  ASSIGN_OR_RETURN(ConversationEncoder encoder,
                   ConversationEncoder::Make(*tokenizer_, options.chat));
  BadLines bad;
  for (const TextFile& file : text.files) {
    RETURN_IF_ERROR(
        ForEachDocument(file, {0, 0, file.size}, how, &bad, [&](absl::string_view record) {
          return Annotate(encoder.Add(record), absl::StrCat("data: ", file.path));
        }));
  }
  if (bad.count > 0) notes_.push_back(bad.Describe());
  const size_t conversations = encoder.marks().conversations();
  if (conversations == 0) {
    return absl::InvalidArgumentError(absl::StrCat("data: ", path, " holds no conversation",
                                                   bad.count > 0 ? ": " : "",
                                                   bad.count > 0 ? bad.Describe() : ""));
  }
  for (const std::string& note : encoder.notes()) notes_.push_back(note);
  const auto& learnt = encoder.marks().learnt;
  notes_.push_back(absl::StrCat(Counted(conversations, "conversation"), "; ",
                                std::count(learnt.begin(), learnt.end(), true), " of ",
                                Counted(learnt.size(), "token"), " are learnt"));
  text_ = std::move(encoder.bytes());
  return SplitChat(encoder.marks(), encoder.width(), options);
}

// Conversations are not divided; the last ones validate.
absl::Status TokenSource::SplitChat(const TokenMarks& marks, uint32_t width,
                                    const Options& options) {
  const size_t all = marks.conversations();
  const size_t train = TrainShare(all, options.validation_fraction, 1);
  train_marks_ = marks.Cut(0, train);
  validation_marks_ = marks.Cut(train, all);
  const TokenSpan tokens(BytesOf(text_), width);
  train_ = tokens.First(marks.begins[train]);
  validation_ = tokens.From(marks.begins[train]);
  return absl::OkStatus();
}

absl::Status TokenSource::EncodeText(const std::vector<TextFile>& files, const std::string& path,
                                     const Options& options) {
  const uint32_t width = WidthFor(tokenizer_->vocabulary());
  const std::unique_ptr<Encoder> encoder = tokenizer_->NewEncoder();
  std::vector<uint32_t> tokens;
  BadLines bad;
  ASSIGN_OR_RETURN(const std::vector<TextPiece> pieces, CutText(files, *tokenizer_));
  for (const TextPiece& piece : pieces) {
    tokens.clear();
    RETURN_IF_ERROR(
        EncodePiece(files, piece, TextOf(options), *tokenizer_, *encoder, &bad, &tokens));
    AppendTokens(tokens, width, &text_);
  }
  if (bad.count > 0) notes_.push_back(bad.Describe());
  if (!bad.text_seen) {
    return absl::InvalidArgumentError(absl::StrCat("data: ", path, " holds no text",
                                                   bad.count > 0 ? ": " : "",
                                                   bad.count > 0 ? bad.Describe() : ""));
  }
  return Split(TokenSpan(BytesOf(text_), width), options);
}

absl::Status TokenSource::AddTokens(const std::string& path, const Options& options,
                                    TokenSpan* to) {
  TokenFileOptions how;
  how.width = options.width;
  how.vocabulary = options.vocabulary == kAnyVocabulary ? 0 : options.vocabulary;
  ASSIGN_OR_RETURN(TokenFile file, OpenTokenFile(path, how));
  RETURN_IF_ERROR(CheckIds(path, file, options.vocabulary));
  if (to->size() > 0 && to->width() != file.tokens.width()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: ", path, " has ids of ", Counted(file.tokens.width(), "byte"),
                     ", and the files before it have ids of ", to->width(),
                     "; all files of a folder must have the same"));
  }
  files_.push_back(std::move(file.file));
  to->Append(file.tokens);
  return absl::OkStatus();
}

absl::Status TokenSource::OpenTokens(const std::string& path, const Options& options) {
  if (options.tokenizer != "bytes" && options.tokenizer != "chars") {
    RETURN_IF_ERROR(TakeTokenizer(options.tokenizer, options));
    if (!tokenizer_->note().empty()) notes_.push_back(tokenizer_->note());
    RETURN_IF_ERROR(
        CheckVocabulary(options.tokenizer, tokenizer_->vocabulary(), options.vocabulary));
  }
  TokenShards shards{{path}, {}, {}};
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    ASSIGN_OR_RETURN(shards, FindTokenShards(path));
  }
  notes_.insert(notes_.end(), shards.notes.begin(), shards.notes.end());
  for (const std::string& file : shards.train) {
    RETURN_IF_ERROR(AddTokens(file, options, &train_));
  }
  if (shards.validation.empty()) return Split(TokenSpan(train_), options);
  for (const std::string& file : shards.validation) {
    RETURN_IF_ERROR(AddTokens(file, options, &validation_));
  }
  if (validation_.width() == train_.width()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "data: ", path, ": the training files have ids of ", Counted(train_.width(), "byte"),
      ", the validation files of ", validation_.width()));
}

namespace {

// A tokenizer that is named together with a prepared folder must be the folder's. "bytes", which a
// config says by default, and a run's bare "file" name no tokenizer.
absl::Status CheckPreparedBy(const std::string& path, const PreparedInfo& info,
                             const TokenSource::Options& options) {
  std::string digest;
  if (options.ready != nullptr) {
    digest = options.ready->digest();
  } else if (options.tokenizer == "chars") {
    if (info.tokenizer == "chars") return absl::OkStatus();
  } else if (options.tokenizer == "bytes" || options.tokenizer == "file") {
    return absl::OkStatus();
  } else {
    ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> named, LoadTokenizer(options.tokenizer));
    digest = named->digest();
  }
  if (digest == info.tokenizer_digest) return absl::OkStatus();
  const auto shown = [](absl::string_view name, const std::string& sha) {
    return absl::StrCat("\"", name, "\"", sha.empty() ? "" : ", SHA-256 ",
                        absl::BytesToHexString(sha));
  };
  return absl::InvalidArgumentError(absl::StrCat(
      "data: ", path, " was prepared with tokenizer ", shown(info.tokenizer, info.tokenizer_digest),
      "; the one that is named ([data] tokenizer, --tokenizer) is ",
      shown(options.ready != nullptr ? options.ready->kind() : options.tokenizer, digest),
      ": leave it out, or prepare the text anew with it"));
}

}  // namespace

absl::Status TokenSource::OpenPrepared(const std::string& path, const Options& options) {
  ASSIGN_OR_RETURN(const PreparedInfo info, ReadPreparedInfo(path));
  RETURN_IF_ERROR(CheckPreparedBy(path, info, options));
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
      return differs(
          file, absl::StrCat("it has ", Counted(bare.tokens.size(), "token"), ", not ", tokens));
    }
    RETURN_IF_ERROR(CheckIds(In(path, file), bare, info.vocabulary));
    files_.push_back(std::move(bare.file));
    *out = bare.tokens;
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(open(kTrainFile, info.train_tokens, &train_));
  RETURN_IF_ERROR(open(kValidationFile, info.validation_tokens, &validation_));
  if (!options.named) return absl::OkStatus();
  const std::string content = ContentDigest(train_, validation_);
  if (content != info.content_digest) {
    return differs(kTrainFile, absl::StrCat("with ", kValidationFile, " its SHA-256 is ",
                                            absl::BytesToHexString(content)));
  }
  digest_ =
      DataDigest(train_, validation_, content, info.tokenizer_digest, options.validation_fraction);
  return absl::OkStatus();
}

}  // namespace atolld

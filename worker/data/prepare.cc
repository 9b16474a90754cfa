#include "worker/data/prepare.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "compression/base/bytes.h"
#include "compression/base/status_macros.h"
#include "worker/base/file_io.h"
#include "worker/data/text_files.h"
#include "worker/data/token_file.h"
#include "worker/data/tokenizer_file.h"

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
  *out = BytesOfHex(hex);
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
  // Younger keys: a folder of an older release has none of them.
  if (json.contains("kind")) {
    std::string on_bad_line;
    RETURN_IF_ERROR(Read(path, json, "kind", &info.kind));
    RETURN_IF_ERROR(Read(path, json, "end_of_text", &info.end_of_text));
    RETURN_IF_ERROR(Read(path, json, "on_bad_line", &on_bad_line));
    RETURN_IF_ERROR(Read(path, json, "bad_lines", &info.bad_lines));
    info.skip_bad_lines = on_bad_line == "skip";
  }
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
                     {"kind", info.kind},
                     {"end_of_text", info.end_of_text},
                     {"on_bad_line", info.skip_bad_lines ? "skip" : "stop"},
                     {"bad_lines", info.bad_lines},
                     {"source_path", info.source_path},
                     {"source_files", info.source_files},
                     {"source_bytes", info.source_bytes}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

uint32_t WidthFor(uint64_t vocabulary) {
  return vocabulary <= 256 ? 1 : vocabulary <= 65536 ? 2 : 4;
}

std::string ContentDigest(const TokenSpan& train, const TokenSpan& validation) {
  Sha256Stream content;
  for (const absl::Span<const uint8_t> part : train.parts()) content.Add(part);
  for (const absl::Span<const uint8_t> part : validation.parts()) content.Add(part);
  return content.Finish();
}

std::string DataDigest(const TokenSpan& train, const TokenSpan& validation,
                       const std::string& content_digest, const std::string& tokenizer_digest,
                       double validation_fraction) {
  const uint64_t tokens = train.size() + validation.size();
  if (tokenizer_digest.empty() && train.width() == 1 &&
      train.size() == TrainTokens(tokens, validation_fraction)) {
    return content_digest;
  }
  return Sha256Stream()
      .Add(absl::StrCat("atoll data 1\n", train.width(), " ", train.size(), " ", validation.size(),
                        " ", tokenizer_digest.size(), "\n"))
      .Add(content_digest)
      .Add(tokenizer_digest)
      .Finish();
}

namespace {

namespace fs = std::filesystem;

constexpr size_t kHeadBytes = 64 + 1 + 20 + 1;

// Consecutive pieces that are encoded into one file: there may be hundreds of thousands of small
// files, and each file that we write costs two syncs.
struct Batch {
  size_t first = 0, end = 0;  // pieces
  uint64_t bytes = 0;
};

std::vector<Batch> BatchesOf(const std::vector<TextPiece>& pieces) {
  std::vector<Batch> batches;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (batches.empty() || batches.back().bytes + pieces[i].size > kPieceBytes) {
      batches.push_back({i, i, 0});
    }
    batches.back().end = i + 1;
    batches.back().bytes += pieces[i].size;
  }
  return batches;
}

// Returns the first line of a batch's file: what it was made from, and how many bad lines were
// skipped.
std::string BatchHead(const std::string& key, uint64_t bad_lines) {
  return absl::StrFormat("%s %020d\n", key, bad_lines);
}

// Opens the file if it exists with this key, and sets `tokens` to its bytes after the head.
absl::optional<MappedFile> OpenBatch(const std::string& path, const std::string& key,
                                     absl::Span<const uint8_t>* tokens, uint64_t* bad_lines) {
  auto file = MappedFile::Open(path);
  if (!file.ok() || file->bytes().size() < kHeadBytes) return absl::nullopt;
  const absl::string_view head(reinterpret_cast<const char*>(file->bytes().data()), kHeadBytes);
  if (!absl::StartsWith(head, key) || !absl::SimpleAtoi(head.substr(key.size()), bad_lines)) {
    return absl::nullopt;
  }
  *tokens = file->bytes().subspan(kHeadBytes);
  return *std::move(file);
}

class Preparation {
 public:
  explicit Preparation(const PrepareOptions& options)
      : options_(options), pieces_folder_(absl::StrCat(options.output, "/pieces")) {}

  absl::StatusOr<Prepared> Run() {
    RETURN_IF_ERROR(OpenText());
    RETURN_IF_ERROR(MakeFolder());
    RETURN_IF_ERROR(EncodeAll());
    RETURN_IF_ERROR(PutTogether());
    return Prepared{info_, notes_};
  }

 private:
  absl::Status OpenText() {
    if (!(options_.validation_fraction >= 0 && options_.validation_fraction <= 0.5)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--validation-fraction is ", options_.validation_fraction, "; it must be 0-0.5"));
    }
    text_options_ = {options_.kind, options_.field, options_.skip_bad_lines, false};
    ASSIGN_OR_RETURN(text_, OpenTextFiles(options_.input, text_options_));
    if (options_.tokenizer == "chars") {
      ASSIGN_OR_RETURN(const std::vector<uint32_t> characters,
                       CharactersOf(text_.files, text_options_));
      ASSIGN_OR_RETURN(tokenizer_, MakeCharTokenizer(characters));
    } else {
      ASSIGN_OR_RETURN(tokenizer_, LoadTokenizer(options_.tokenizer, options_.end_of_text));
    }
    ASSIGN_OR_RETURN(pieces_, CutText(text_.files, *tokenizer_));
    batches_ = BatchesOf(pieces_);
    bad_.resize(batches_.size());
    notes_ = text_.notes;
    if (!tokenizer_->note().empty()) notes_.push_back(tokenizer_->note());
    notes_.push_back(
        absl::StrCat("between two documents stands ", Describe(tokenizer_->separator())));
    SetInfo();
    return absl::OkStatus();
  }

  void SetInfo() {
    info_.tokenizer = tokenizer_->kind();
    info_.tokenizer_digest = tokenizer_->digest();
    info_.vocabulary = tokenizer_->vocabulary();
    info_.width = WidthFor(info_.vocabulary);
    info_.validation_fraction = options_.validation_fraction;
    info_.field = options_.field;
    info_.kind = options_.kind;
    info_.end_of_text = tokenizer_->separator().text;
    info_.skip_bad_lines = options_.skip_bad_lines;
    info_.source_path = options_.input;
    info_.source_files = text_.files.size();
    info_.source_bytes = text_.bytes;
    settings_ = absl::StrCat(info_.tokenizer, "\n", absl::BytesToHexString(info_.tokenizer_digest),
                             "\n", options_.field, "\n", info_.end_of_text, "\n", info_.kind, "\n",
                             info_.skip_bad_lines ? "skip" : "stop", "\n");
  }

  // The folder, and nothing in it that is not of a preparation.
  absl::Status MakeFolder() {
    std::error_code error;
    const fs::path input = fs::weakly_canonical(options_.input, error);
    const fs::path beneath = fs::weakly_canonical(options_.output, error).lexically_relative(input);
    if (!error && fs::is_directory(input, error) && !beneath.empty() && beneath != "." &&
        *beneath.begin() != "..") {
      return absl::InvalidArgumentError(
          absl::StrCat("--output ", options_.output, " lies in --input ", options_.input,
                       ": what is made would be taken for text by the next call; name a folder "
                       "outside of it"));
    }
    const std::string own = TokenizerFileName(tokenizer_->kind());
    // Others name their files so, too; what a preparation has made it has described, or it has
    // pieces still.
    const bool ours = fs::exists(PathOf(kDataFile), error) || fs::exists(pieces_folder_, error);
    for (const auto& entry : fs::directory_iterator(options_.output, error)) {
      std::string name = entry.path().filename().string();
      const bool whole = !absl::EndsWith(name, ".new");
      if (!whole) name.resize(name.size() - 4);
      if ((ours || !whole) && (name == "pieces" || name == kTrainFile || name == kValidationFile ||
                               name == kDataFile || name == own)) {
        continue;
      }
      return absl::FailedPreconditionError(absl::StrCat(options_.output, " holds ", name,
                                                        ", which is not part of this preparation; "
                                                        "name an empty folder or a new one"));
    }
    RETURN_IF_ERROR(CheckIsSame());
    fs::create_directories(pieces_folder_, error);
    if (error) {
      return absl::UnavailableError(absl::StrCat(pieces_folder_, ": ", error.message()));
    }
    return absl::OkStatus();
  }

  // What a whole folder was made of, before anything is done again.
  absl::Status CheckIsSame() const {
    const auto old = ReadPreparedInfo(options_.output);
    if (absl::IsNotFound(old.status())) return absl::OkStatus();
    RETURN_IF_ERROR(old.status());
    PreparedInfo same = info_;
    same.train_tokens = old->train_tokens;
    same.validation_tokens = old->validation_tokens;
    same.content_digest = old->content_digest;
    same.bad_lines = old->bad_lines;
    if (old->kind.empty()) {  // of an older release, which did not say it
      same.kind = old->kind;
      same.end_of_text = old->end_of_text;
      same.skip_bad_lines = old->skip_bad_lines;
    }
    return FormatPreparedInfo(same) == FormatPreparedInfo(*old) ? absl::OkStatus() : OtherWork();
  }

  absl::Status OtherWork() const {
    return absl::FailedPreconditionError(absl::StrCat(
        PathOf(kDataFile), " is of another preparation; name an empty folder or a new one"));
  }

  std::string BatchPath(size_t index) const { return absl::StrCat(pieces_folder_, "/", index); }

  // What names the work of a batch, 64 hex digits: its bytes, and all that decides what becomes of
  // them.
  absl::StatusOr<std::string> KeyOf(const Batch& batch) const {
    Sha256Stream key;
    key.Add(absl::StrCat(settings_.size(), "\n", settings_));
    for (size_t i = batch.first; i < batch.end; ++i) {
      const TextPiece& piece = pieces_[i];
      const TextFile& file = text_.files[piece.file];
      ASSIGN_OR_RETURN(const MappedText mapped, MapText(file));
      // Whether a document stands before it decides what the piece begins with.
      key.Add(absl::StrCat(piece.size, piece.file == 0 && piece.first == 0 ? " first" : " later",
                           piece.first == 0 ? " begins " : " goes on ", static_cast<int>(file.form),
                           "\n"));
      key.Add(mapped.bytes().subspan(piece.first, piece.size));
    }
    return absl::BytesToHexString(key.Finish());
  }

  absl::Status EncodeOne(size_t index, Encoder& encoder, bool* found) {
    const Batch& batch = batches_[index];
    ASSIGN_OR_RETURN(const std::string key, KeyOf(batch));
    absl::Span<const uint8_t> tokens;
    *found = OpenBatch(BatchPath(index), key, &tokens, &bad_[index].count).has_value();
    if (*found) return absl::OkStatus();
    bad_[index] = {};
    std::string bytes;
    std::vector<uint32_t> ids;
    for (size_t i = batch.first; i < batch.end; ++i) {
      ids.clear();
      RETURN_IF_ERROR(EncodePiece(text_.files, pieces_[i], text_options_, *tokenizer_, encoder,
                                  &bad_[index], &ids));
      AppendTokens(ids, info_.width, &bytes);
    }
    const std::string head = BatchHead(key, bad_[index].count);
    return WriteFileDurably(BatchPath(index), {BytesOf(head), BytesOf(bytes)});
  }

  absl::Status EncodeAll() {
    std::atomic<size_t> next{0};
    absl::Mutex mutex;
    absl::Status first_error;  // of the first batch in the text's order
    size_t failed = batches_.size();
    uint64_t done = 0, found_bytes = 0;
    const auto work = [&] {
      const std::unique_ptr<Encoder> encoder = tokenizer_->NewEncoder();
      for (size_t i = next++; i < batches_.size(); i = next++) {
        bool found = false;
        const absl::Status status = EncodeOne(i, *encoder, &found);
        const absl::MutexLock lock(&mutex);
        if (!status.ok() && i < failed) {
          failed = i;
          first_error = status;
          next = batches_.size();
        }
        done += batches_[i].bytes;
        found_bytes += found ? batches_[i].bytes : 0;
        if (options_.progress) options_.progress(done, info_.source_bytes, found_bytes);
      }
    };
    std::vector<std::thread> threads;
    try {
      for (uint32_t i = 1; i < options_.threads; ++i) threads.emplace_back(work);
    } catch (const std::system_error&) {  // a limit of threads: those that there are do it all
    }
    work();
    for (std::thread& thread : threads) thread.join();
    return first_error;
  }

  void CountBadLines() {
    BadLines all;
    for (const BadLines& bad : bad_) all.Add(bad);
    info_.bad_lines = all.count;
    if (all.count > 0) notes_.push_back(all.Describe());
  }

  // The batches stay mapped: what lies there is what is counted, hashed and copied.
  absl::Status PutTogether() {
    CountBadLines();
    std::vector<MappedFile> mapped;
    std::vector<absl::Span<const uint8_t>> parts;
    uint64_t bytes = 0;
    for (size_t i = 0; i < batches_.size(); ++i) {
      absl::Span<const uint8_t> tokens;
      uint64_t bad_lines = 0;
      ASSIGN_OR_RETURN(const std::string key, KeyOf(batches_[i]));
      absl::optional<MappedFile> file = OpenBatch(BatchPath(i), key, &tokens, &bad_lines);
      if (!file.has_value()) {
        return absl::DataLossError(absl::StrCat(BatchPath(i), " changed meanwhile; begin again"));
      }
      mapped.push_back(*std::move(file));
      parts.push_back(tokens);
      bytes += tokens.size();
    }
    const uint64_t tokens = bytes / info_.width;
    if (tokens == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("data: ", options_.input, " holds no text",
                       info_.bad_lines > 0 ? absl::StrCat("; ", notes_.back()) : ""));
    }
    return WriteFolder(parts, tokens);
  }

  absl::Status WriteFolder(const std::vector<absl::Span<const uint8_t>>& parts, uint64_t tokens) {
    info_.train_tokens = TrainTokens(tokens, options_.validation_fraction);
    info_.validation_tokens = tokens - info_.train_tokens;
    uint64_t left = info_.train_tokens * info_.width;
    std::vector<absl::Span<const uint8_t>> train, validation;
    Sha256Stream content;
    for (const absl::Span<const uint8_t> part : parts) {
      const size_t cut = std::min<uint64_t>(left, part.size());
      train.push_back(part.first(cut));
      validation.push_back(part.subspan(cut));
      left -= cut;
      content.Add(part);
    }
    info_.content_digest = content.Finish();
    const std::string text = FormatPreparedInfo(info_);
    if (ReadWholeFile(PathOf(kDataFile)).value_or(text) != text) return OtherWork();
    RETURN_IF_ERROR(WriteFileDurably(PathOf(kTrainFile), train));
    RETURN_IF_ERROR(WriteFileDurably(PathOf(kValidationFile), validation));
    if (const std::string name = TokenizerFileName(tokenizer_->kind()); !name.empty()) {
      RETURN_IF_ERROR(WriteFileDurably(PathOf(name), {BytesOf(tokenizer_->file())}));
    }
    RETURN_IF_ERROR(WriteFileDurably(PathOf(kDataFile), {BytesOf(text)}));
    std::error_code error;
    fs::remove_all(pieces_folder_, error);
    if (error) {
      return absl::UnavailableError(absl::StrCat(pieces_folder_, ": ", error.message()));
    }
    return absl::OkStatus();
  }

  std::string PathOf(absl::string_view name) const {
    return absl::StrCat(options_.output, "/", name);
  }

  const PrepareOptions& options_;
  const std::string pieces_folder_;
  TextOptions text_options_;
  TextFiles text_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<TextPiece> pieces_;
  std::vector<Batch> batches_;
  std::vector<BadLines> bad_;  // of each batch; a thread writes that of its own
  std::vector<std::string> notes_;
  std::string settings_;
  PreparedInfo info_;
};

}  // namespace

absl::StatusOr<Prepared> PrepareData(const PrepareOptions& options) {
  return Preparation(options).Run();
}

}  // namespace atolld

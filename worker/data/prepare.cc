#include "worker/data/prepare.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "compression/base/bytes.h"
#include "compression/base/status_macros.h"
#include "worker/base/file_io.h"
#include "worker/base/sha256.h"
#include "worker/data/piece_file.h"
#include "worker/data/text_files.h"
#include "worker/data/token_writer.h"

namespace atolld {
namespace {

namespace fs = std::filesystem;

class Preparation {
 public:
  explicit Preparation(const PrepareOptions& options)
      : options_(options), pieces_folder_(absl::StrCat(options.output, "/pieces")) {}

  absl::StatusOr<PreparedInfo> Run() {
    RETURN_IF_ERROR(OpenText());
    RETURN_IF_ERROR(MakeFolder());
    RETURN_IF_ERROR(EncodeAll());
    return PutTogether();
  }

 private:
  absl::Status OpenText() {
    if (!(options_.validation_fraction >= 0 && options_.validation_fraction <= 0.5)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--validation-fraction is ", options_.validation_fraction, "; it must be 0-0.5"));
    }
    ASSIGN_OR_RETURN(files_, OpenTextFiles(options_.input, options_.field, /*json=*/false));
    if (options_.tokenizer == "chars") {
      ASSIGN_OR_RETURN(const std::vector<uint32_t> characters,
                       CharactersOf(files_, options_.field));
      ASSIGN_OR_RETURN(tokenizer_, MakeCharTokenizer(characters));
    } else {
      ASSIGN_OR_RETURN(tokenizer_, LoadTokenizer(options_.tokenizer));
    }
    pieces_ = CutText(files_, *tokenizer_);
    info_.tokenizer = tokenizer_->kind();
    info_.tokenizer_digest = tokenizer_->digest();
    info_.vocabulary = tokenizer_->vocabulary();
    info_.width = WidthFor(info_.vocabulary);
    info_.validation_fraction = options_.validation_fraction;
    info_.field = options_.field;
    info_.source_path = options_.input;
    info_.source_files = files_.size();
    for (const TextFile& file : files_) info_.source_bytes += file.text().size();
    settings_ = absl::StrCat(info_.tokenizer, "\n", absl::BytesToHexString(info_.tokenizer_digest),
                             "\n", options_.field, "\n");
    return absl::OkStatus();
  }

  // The folder, and nothing in it that is not of a preparation.
  absl::Status MakeFolder() {
    std::error_code error;
    fs::create_directories(pieces_folder_, error);
    if (error) {
      return absl::UnavailableError(absl::StrCat(pieces_folder_, ": ", error.message()));
    }
    const std::string own = TokenizerFileName(tokenizer_->kind());
    for (const auto& entry : fs::directory_iterator(options_.output, error)) {
      std::string name = entry.path().filename().string();
      if (absl::EndsWith(name, ".new")) name.resize(name.size() - 4);
      if (name == "pieces" || name == kTrainFile || name == kValidationFile || name == kDataFile ||
          name == own) {
        continue;
      }
      return absl::FailedPreconditionError(absl::StrCat(options_.output, " holds ", name,
                                                        ", which is none of this preparation's; "
                                                        "name an empty folder or a new one"));
    }
    return CheckIsSame();
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
    return FormatPreparedInfo(same) == FormatPreparedInfo(*old) ? absl::OkStatus() : OtherWork();
  }

  absl::Status OtherWork() const {
    return absl::FailedPreconditionError(absl::StrCat(
        PathOf(kDataFile), " is of another preparation; name an empty folder or a new one"));
  }

  std::string PiecePath(size_t index) const { return absl::StrCat(pieces_folder_, "/", index); }

  std::string KeyOf(size_t index) const {
    const TextPiece& piece = pieces_[index];
    // Whether a document stands before it decides what the piece begins with.
    const std::string place =
        absl::StrCat(settings_, piece.file == 0 && piece.first == 0 ? "first" : "later", " ",
                     piece.first == 0 ? "begins" : "goes on", " ",
                     files_[piece.file].lines_of_json ? "lines" : "text");
    return PieceKey(place, BytesOf(files_[piece.file].text().substr(piece.first, piece.size)));
  }

  absl::Status EncodeOne(size_t index, Encoder& encoder, bool* found) const {
    const std::string key = KeyOf(index);
    absl::Span<const uint8_t> tokens;
    *found = OpenPiece(PiecePath(index), key, &tokens).has_value();
    if (*found) return absl::OkStatus();
    std::vector<uint32_t> ids;
    RETURN_IF_ERROR(
        EncodePiece(files_, pieces_[index], options_.field, *tokenizer_, encoder, &ids));
    std::string bytes;
    AppendTokens(ids, info_.width, &bytes);
    return WritePiece(PiecePath(index), key, bytes);
  }

  absl::Status EncodeAll() {
    std::atomic<size_t> next{0};
    absl::Mutex mutex;
    absl::Status first_error;  // of the first piece in the text's order
    size_t failed = pieces_.size();
    uint64_t done = 0, found_bytes = 0;
    const auto work = [&] {
      const std::unique_ptr<Encoder> encoder = tokenizer_->NewEncoder();
      for (size_t i = next++; i < pieces_.size(); i = next++) {
        bool found = false;
        const absl::Status status = EncodeOne(i, *encoder, &found);
        const absl::MutexLock lock(&mutex);
        if (!status.ok() && i < failed) {
          failed = i;
          first_error = status;
          next = pieces_.size();
        }
        done += pieces_[i].size;
        found_bytes += found ? pieces_[i].size : 0;
        if (options_.progress) options_.progress(done, info_.source_bytes, found_bytes);
      }
    };
    std::vector<std::thread> threads;
    for (uint32_t i = 1; i < options_.threads; ++i) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
    return first_error;
  }

  // The pieces stay mapped: what lies there is what is counted, hashed and copied.
  absl::StatusOr<PreparedInfo> PutTogether() {
    std::vector<MappedFile> mapped;
    std::vector<absl::Span<const uint8_t>> parts;
    uint64_t bytes = 0;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      absl::Span<const uint8_t> tokens;
      absl::optional<MappedFile> file = OpenPiece(PiecePath(i), KeyOf(i), &tokens);
      if (!file.has_value()) {
        return absl::DataLossError(absl::StrCat(PiecePath(i), " changed meanwhile; begin again"));
      }
      mapped.push_back(*std::move(file));
      parts.push_back(tokens);
      bytes += tokens.size();
    }
    const uint64_t tokens = bytes / info_.width;
    if (tokens == 0) {
      return absl::InvalidArgumentError(absl::StrCat("data: ", options_.input, " holds no text"));
    }
    info_.train_tokens = TrainTokens(tokens, options_.validation_fraction);
    info_.validation_tokens = tokens - info_.train_tokens;
    uint64_t left = info_.train_tokens * info_.width;
    std::vector<absl::Span<const uint8_t>> train, validation;
    Sha256 content;
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
    return info_;
  }

  std::string PathOf(absl::string_view name) const {
    return absl::StrCat(options_.output, "/", name);
  }

  const PrepareOptions& options_;
  const std::string pieces_folder_;
  std::vector<TextFile> files_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<TextPiece> pieces_;
  std::string settings_;
  PreparedInfo info_;
};

}  // namespace

absl::StatusOr<PreparedInfo> PrepareData(const PrepareOptions& options) {
  return Preparation(options).Run();
}

}  // namespace atolld

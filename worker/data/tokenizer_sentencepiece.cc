#include "worker/data/tokenizer_sentencepiece.h"

#include <dlfcn.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compression/base/status_macros.h"
#include "worker/data/sentencepiece_calls.h"

namespace atolld {
namespace {

// SentencePiece's errors quote lines of its source, "Internal: src/x.cc(73) [status.ok()] what";
// only `what` is kept.
absl::Status Failed(absl::string_view error) {
  const size_t line = error.rfind(".cc(");
  const size_t end = line == absl::string_view::npos ? line : error.find(']', line);
  if (line != absl::string_view::npos) {
    error = end == absl::string_view::npos ? "" : absl::StripAsciiWhitespace(error.substr(end + 1));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("SentencePiece refuses it", error.empty() ? "" : ": ", error));
}

// Looks beside the program, where an installation has the module, and, for tests, in the programs'
// folder.
absl::StatusOr<const SentencePieceCalls*> OpenModule() {
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  std::string why;
  const std::filesystem::path above = folder.parent_path();
  for (const auto& place : {folder, above / "lib" / "atoll", above / "bin"}) {
    const std::string path = (place / kSentencePieceModule).string();
    void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (module == nullptr) {
      absl::StrAppend(&why, why.empty() ? "" : "; ", ::dlerror());
      continue;
    }
    if (const void* calls = ::dlsym(module, kSentencePieceSymbol)) {
      return static_cast<const SentencePieceCalls*>(calls);
    }
    return absl::NotFoundError(absl::StrCat(path, " is not Atoll's module"));
  }
  return absl::NotFoundError(absl::StrCat("SentencePiece is not here: ", why));
}

// A model. Immutable; safe to use from any thread.
class SentencePieceModel {
 public:
  // INVALID_ARGUMENT: the bytes are no model. NOT_FOUND: the module is not there; says where it
  // was looked for.
  static absl::StatusOr<std::unique_ptr<SentencePieceModel>> Load(const std::string& file);

  ~SentencePieceModel();
  SentencePieceModel(const SentencePieceModel&) = delete;
  SentencePieceModel& operator=(const SentencePieceModel&) = delete;

  uint32_t vocabulary() const { return calls_.vocabulary(model_); }
  int64_t end_of_text() const { return calls_.end_of_text(model_); }  // below 0: none
  int64_t IdOf(const std::string& piece) const {                      // below 0: none
    return calls_.id_of(model_, piece.data(), piece.size());
  }

  absl::Status Encode(absl::string_view text, std::vector<uint32_t>* out) const;
  absl::StatusOr<std::string> Decode(const std::vector<int>& tokens) const;

 private:
  SentencePieceModel(const SentencePieceCalls& calls, void* model) : calls_(calls), model_(model) {}

  const SentencePieceCalls& calls_;
  void* const model_;
};

absl::StatusOr<std::unique_ptr<SentencePieceModel>> SentencePieceModel::Load(
    const std::string& file) {
  static const absl::StatusOr<const SentencePieceCalls*> calls = OpenModule();
  RETURN_IF_ERROR(calls.status());
  const char* error = nullptr;
  void* model = (*calls)->load(file.data(), file.size(), &error);
  if (model == nullptr) return Failed(error);
  return std::unique_ptr<SentencePieceModel>(new SentencePieceModel(**calls, model));
}

SentencePieceModel::~SentencePieceModel() { calls_.free(model_); }

absl::Status SentencePieceModel::Encode(absl::string_view text, std::vector<uint32_t>* out) const {
  const auto take = [](void* context, const int* tokens, size_t count) {
    auto* to = static_cast<std::vector<uint32_t>*>(context);
    to->insert(to->end(), tokens, tokens + count);
  };
  const char* error = calls_.encode(model_, text.data(), text.size(), out, take);
  return error == nullptr ? absl::OkStatus() : Failed(error);
}

absl::StatusOr<std::string> SentencePieceModel::Decode(const std::vector<int>& tokens) const {
  std::string text;
  const auto take = [](void* context, const char* bytes, size_t size) {
    static_cast<std::string*>(context)->assign(bytes, size);
  };
  const char* error = calls_.decode(model_, tokens.data(), tokens.size(), &text, take);
  if (error != nullptr) return Failed(error);
  return text;
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string file, std::unique_ptr<SentencePieceModel> model)
      : Tokenizer(std::move(file)), model_(std::move(model)) {}

  std::string kind() const override { return "sentencepiece"; }
  uint32_t vocabulary() const override { return model_->vocabulary(); }

  absl::optional<uint32_t> OwnEndOfText() const override {
    if (model_->end_of_text() < 0) return absl::nullopt;
    return static_cast<uint32_t>(model_->end_of_text());
  }

  absl::optional<uint32_t> IdOf(const std::string& token) const override {
    const int64_t id = model_->IdOf(token);
    if (id < 0) return absl::nullopt;
    return static_cast<uint32_t>(id);
  }

  // A model may put a space before all that it is given.
  bool CutsAtSpaces() const override { return false; }

  std::unique_ptr<Encoder> NewEncoder() const override {
    class Caller final : public Encoder {
     public:
      explicit Caller(const SentencePieceModel& model) : model_(model) {}
      absl::Status Encode(absl::string_view text, std::vector<uint32_t>* out) override {
        return model_.Encode(text, out);
      }

     private:
      const SentencePieceModel& model_;
    };
    return std::make_unique<Caller>(*model_);
  }

  absl::StatusOr<std::string> Decode(absl::Span<const uint32_t> tokens) const override {
    std::vector<int> ids;
    for (const uint32_t token : tokens) {
      if (token >= vocabulary()) {
        return absl::InvalidArgumentError(
            absl::StrCat("token ", token, " is not one of the ", vocabulary(), " pieces"));
      }
      ids.push_back(static_cast<int>(token));
    }
    return model_->Decode(ids);
  }

 private:
  const std::unique_ptr<SentencePieceModel> model_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeSentencePieceTokenizer(std::string file) {
  auto model = SentencePieceModel::Load(file);
  if (absl::IsInvalidArgument(model.status())) {
    return absl::InvalidArgumentError(
        "it is neither a tokenizer.json nor a SentencePiece model; take the file that came with "
        "the "
        "model, or \"bytes\" or \"chars\"");
  }
  RETURN_IF_ERROR(model.status());
  return std::unique_ptr<Tokenizer>(
      std::make_unique<SentencePieceTokenizer>(std::move(file), *std::move(model)));
}

}  // namespace atolld

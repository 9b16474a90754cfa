#include "worker/data/sentencepiece_model.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

absl::Status Failed(const char* error) {
  return absl::InvalidArgumentError(absl::StrCat("SentencePiece: ", error));
}

// Beside the program, or, of the tests, in the folder of the programs.
absl::StatusOr<const SentencePieceCalls*> OpenModule() {
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  std::string why;
  for (const auto& place : {folder, folder.parent_path() / "bin"}) {
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

}  // namespace

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

}  // namespace atolld

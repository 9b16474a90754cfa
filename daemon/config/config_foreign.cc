#include "daemon/config/config_foreign.h"

#include <openssl/evp.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;

absl::Status BrokenKey(const ConfigPlaces& places, const std::string& section,
                       const std::string& key, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(places.Of(section, key), ": ", what));
}

// Who starts a worker, or hands its model to one.
bool RunsWorker(const Config& c, ConfigUse use) {
  return use == ConfigUse::kLocal ||
         (use == ConfigUse::kPeer && c.peer.role != kAggregatorRoleName);
}

}  // namespace

bool TakesModelKey(absl::string_view kind, absl::string_view key) {
  if (key == "kind") return true;
  if (kind == kExternalKind) return false;
  return (kind == kTorchScriptKind) == (key == "file");
}

absl::Status CheckModelKind(const Config& c, ConfigUse use, const ConfigPlaces& places,
                            const std::string& folder) {
  const std::string& kind = c.model.kind;
  for (const char* key : {"layers", "heads", "width", "context", "dropout", "parameters", "file"}) {
    if (!places.Has("model", key) || TakesModelKey(kind, key)) continue;
    const absl::string_view why = kind == kExternalKind      ? "which its worker alone describes"
                                  : kind == kTorchScriptKind ? "which is whatever its file holds"
                                                             : "which is no file; 'torchscript' is";
    return BrokenKey(
        places, "model", key,
        absl::StrCat("[model] ", key, " is not for a model of kind '", kind, "', ", why));
  }
  if (kind == kExternalKind && c.worker.program.empty() && RunsWorker(c, use)) {
    return BrokenKey(places, "worker", "program",
                     "[worker] program is missing: with [model] kind 'external' it is what trains");
  }
  if (kind != kTorchScriptKind) return absl::OkStatus();
  if (c.model.file.empty() && (RunsWorker(c, use) || use == ConfigUse::kCoordinator)) {
    return BrokenKey(places, "model", "file",
                     "[model] file is missing: a model of kind 'torchscript' is that file");
  }
  std::error_code error;
  if (!c.model.file.empty() &&
      !std::filesystem::is_regular_file(std::filesystem::path(folder) / c.model.file, error)) {
    return BrokenKey(places, "model", "file",
                     absl::StrCat("model.file '", c.model.file, "' is no file that exists"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> DigestOfFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  bool good = stream.good() && context != nullptr &&
              EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  std::vector<char> part(kReadBytes);
  while (good && stream) {
    stream.read(part.data(), static_cast<std::streamsize>(part.size()));
    const auto size = static_cast<size_t>(stream.gcount());
    good = !stream.bad() && EVP_DigestUpdate(context.get(), part.data(), size) == 1;
  }
  std::string digest(32, '\0');
  if (!good || EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest.data()),
                                  nullptr) != 1) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  }
  return digest;
}

bool IsForeign(absl::string_view model_kind) {
  return model_kind == kExternalKind || model_kind == kTorchScriptKind;
}

void SetForeignSpec(const ConfigModel& model, v1::ModelSpec* spec) {
  spec->set_kind(model.kind);
  spec->set_context(1);  // a sample is one row, and counts as one token
  spec->set_file_digest(model.file_digest);
}

std::string ForeignDataKind(absl::string_view model_kind) {
  return model_kind == kExternalKind ? "external" : "arrays";
}

}  // namespace atolld

#include "worker/program/loaded_model.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "worker/base/file_io.h"
#include "worker/base/manifest.h"
#include "worker/hub/hub_folder.h"
#include "worker/hub/parameters_file.h"

namespace atolld {
namespace {

constexpr uint32_t kBytes = 256;

absl::StatusOr<LoadedModel> LoadFolder(const std::string& folder) {
  ASSIGN_OR_RETURN(HubModel read, ReadHubFolder(folder));
  LoadedModel model;
  *model.spec.mutable_model() = std::move(read.spec);
  model.spec.mutable_inner()->set_batch(1);
  model.manifest = std::move(read.manifest);
  model.parameters = std::move(read.parameters);
  model.folder = folder;
  return model;
}

}  // namespace

std::vector<std::string> WithModelFlags(std::vector<std::string> more) {
  more.insert(more.end(), {"model", "spec", "parameters", "offset", "elements"});
  return more;
}

absl::StatusOr<LoadedModel> LoadModel(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string folder, flags.Text("model", ""));
  if (!folder.empty()) return LoadFolder(folder);
  LoadedModel model;
  ASSIGN_OR_RETURN(const std::string spec_path, flags.Text("spec"));
  ASSIGN_OR_RETURN(const std::string path, flags.Text("parameters"));
  ASSIGN_OR_RETURN(const uint64_t offset, flags.Count("offset", 0));
  ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(spec_path));
  if (!model.spec.ParseFromString(bytes)) {
    return absl::DataLossError(absl::StrCat(spec_path, " is not a serialised RunSpec"));
  }
  ASSIGN_OR_RETURN(model.manifest, MakeManifest(model.spec.model()));
  ASSIGN_OR_RETURN(const uint64_t elements, flags.Count("elements", model.manifest.elements()));
  if (elements != model.manifest.elements()) {
    return absl::FailedPreconditionError(absl::StrCat("--elements is ", elements, "; the model of ",
                                                      spec_path, " has ",
                                                      model.manifest.elements()));
  }
  ASSIGN_OR_RETURN(model.parameters, ReadFloats(path, offset, elements));
  return model;
}

absl::StatusOr<std::string> TokenizerNameOf(const Flags& flags, const LoadedModel& model) {
  ASSIGN_OR_RETURN(const std::string given, flags.Text("tokenizer", ""));
  if (!given.empty()) return given;
  if (model.folder.empty()) return std::string("bytes");
  for (const char* name : {"tokenizer.json", "tokenizer.model", "characters.json"}) {
    const std::string path = absl::StrCat(model.folder, "/", name);
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path;
  }
  if (model.spec.model().vocabulary() == kBytes) return std::string("bytes");
  return absl::FailedPreconditionError(
      absl::StrCat(model.folder, " has no tokenizer.json, tokenizer.model or characters.json, and ",
                   model.spec.model().vocabulary(),
                   " tokens are no bytes; name the file as "
                   "--tokenizer"));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerOf(const Flags& flags,
                                                       const LoadedModel& model) {
  ASSIGN_OR_RETURN(const std::string name, TokenizerNameOf(flags, model));
  ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, LoadTokenizer(name));
  const uint32_t vocabulary = model.spec.model().vocabulary();
  if (!model.folder.empty()) {
    if (tokenizer->vocabulary() <= vocabulary) return tokenizer;
    return absl::FailedPreconditionError(absl::StrCat("tokenizer ", name, " has ",
                                                      tokenizer->vocabulary(),
                                                      " tokens; the model "
                                                      "of ",
                                                      model.folder, " has ", vocabulary));
  }
  const std::string& digest = model.spec.data().tokenizer_digest();
  if (tokenizer->digest() != digest) {
    return absl::FailedPreconditionError(
        absl::StrCat("--tokenizer ", name, " is not the run's, which has SHA-256 ",
                     digest.empty() ? "none (bytes)" : absl::BytesToHexString(digest)));
  }
  return tokenizer;
}

}  // namespace atolld

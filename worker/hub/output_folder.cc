#include "worker/hub/output_folder.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace atolld {
namespace {

namespace fs = std::filesystem;

constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr char kWholeFile[] = "model.safetensors";

bool IsShard(const std::string& name) {
  return absl::StartsWith(name, "model-") && absl::EndsWith(name, ".safetensors");
}

bool IsModelFile(const std::string& name) {
  static constexpr const char* kNames[] = {"config.json",
                                           kWholeFile,
                                           kIndexFile,
                                           "adapter_config.json",
                                           "adapter_model.safetensors",
                                           "model.toml",
                                           "tokenizer.json",
                                           "tokenizer_config.json",
                                           "tokenizer.model",
                                           "characters.json",
                                           "vocab.json",
                                           "merges.txt",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           "generation_config.json"};
  return IsShard(name) || std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// The same file or folder, by whatever name.
bool Same(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

absl::Status CheckInput(const std::string& output, const std::vector<std::string>& names,
                        const std::string& input) {
  if (Same(output, input)) {
    return absl::InvalidArgumentError(
        absl::StrCat(output, " is ", input,
                     " itself, whose files would be overwritten while they are read; name another "
                     "folder to write"));
  }
  for (const std::string& name : names) {
    for (const std::string& other : ModelFilesIn(input)) {
      const std::string target = absl::StrCat(output, "/", name);
      const std::string source = absl::StrCat(input, "/", other);
      if (!Same(target, source)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(target, " is ", source,
                       " by a link, and would be overwritten while it is read; name another folder "
                       "to write"));
    }
    if (!Same(absl::StrCat(output, "/", name), input)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        output, "/", name, " is ", input, ", which is read; name another folder to write"));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> ModelFilesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (IsModelFile(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status CheckOutputFolder(const std::string& output, const std::vector<std::string>& inputs,
                               bool force) {
  std::error_code error;
  if (fs::exists(output, error) && !fs::is_directory(output, error)) {
    return absl::InvalidArgumentError(absl::StrCat(output, " is no folder"));
  }
  const std::vector<std::string> names = ModelFilesIn(output);
  for (const std::string& input : inputs) {
    if (input.empty()) continue;
    const absl::Status apart = CheckInput(output, names, input);
    if (!apart.ok()) return apart;
  }
  if (names.empty() || force) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(output, " holds a model already (",
                                               absl::StrJoin(names, ", "),
                                               "): name another folder, or --force to write over "
                                               "it"));
}

void RemoveOtherWeights(const std::string& output) {
  const std::vector<std::string> names = ModelFilesIn(output);
  const bool sharded = std::find(names.begin(), names.end(), kIndexFile) != names.end();
  for (const std::string& name : names) {
    std::error_code error;
    if (sharded ? name == kWholeFile : IsShard(name)) fs::remove(fs::path(output) / name, error);
  }
}

}  // namespace atolld

#include "worker/hub/output_folder.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/status_macros.h"
#include "worker/base/file_io.h"

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
                                           "model.toml",
                                           "adapter_model.safetensors",
                                           "generation_config.json",
                                           kMoreTemplates};
  return IsShard(name) || BelongsToTokenizer(name) ||
         std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

constexpr char kPlace[] = ".atoll-partial";
// The files that make a folder a model's.
constexpr const char* kDescriptions[] = {"config.json", "adapter_config.json", "model.toml"};

bool IsDescription(const std::string& name) {
  return std::find(std::begin(kDescriptions), std::end(kDescriptions), name) !=
         std::end(kDescriptions);
}

absl::Status Failed(const std::error_code& error, const std::string& path,
                    const std::string& what) {
  return absl::Status(absl::ErrnoToStatusCode(error.value()),
                      absl::StrCat(path, " ", what, ": ", error.message()));
}

// Returns true for the same file or folder under any names.
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

bool BelongsToTokenizer(absl::string_view name) {
  for (const char* begin : {"tokenizer", "vocab", "merges", "special_tokens", "added_tokens",
                            "chat_template", "spiece", "sentencepiece", "characters.json"}) {
    if (absl::StartsWith(name, begin)) return true;
  }
  for (const char* end : {".tiktoken", ".spm", ".jinja", ".bpe", "tekken.json"}) {
    if (absl::EndsWith(name, end)) return true;
  }
  return false;
}

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
    return absl::InvalidArgumentError(absl::StrCat(output, " is not a folder"));
  }
  const std::vector<std::string> names = ModelFilesIn(output);
  for (const std::string& input : inputs) {
    if (input.empty()) continue;
    RETURN_IF_ERROR(CheckInput(output, names, input));
  }
  if (names.empty() || force) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(output, " holds a model already (",
                                               absl::StrJoin(names, ", "),
                                               "): name another folder, or --force to write over "
                                               "it"));
}

absl::Status CheckRoom(const std::string& folder, uint64_t bytes) {
  std::error_code error;
  fs::path there = fs::absolute(folder, error);
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  const fs::space_info space = fs::space(there, error);
  if (error || space.available >= bytes) return absl::OkStatus();  // then the writing tells
  return absl::ResourceExhaustedError(absl::StrCat(
      folder, " needs ", bytes, " bytes, and its disk has ", space.available, " free"));
}

absl::StatusOr<OutputFolder> OutputFolder::Make(const std::string& output, uint64_t bytes) {
  std::error_code error;
  const bool made = !fs::exists(output, error);
  OutputFolder folder(output, made);
  fs::remove_all(folder.place_, error);  // of one that was killed
  RETURN_IF_ERROR(CheckRoom(output, bytes));
  fs::create_directories(folder.place_, error);
  if (error) return Failed(error, output, "cannot be written to");
  return folder;
}

OutputFolder::OutputFolder(std::string output, bool made)
    : output_(std::move(output)), place_(absl::StrCat(output_, "/", kPlace)), made_(made) {}

OutputFolder::OutputFolder(OutputFolder&& other) noexcept
    : output_(other.output_), place_(std::exchange(other.place_, "")), made_(other.made_) {}

OutputFolder::~OutputFolder() {
  if (place_.empty()) return;
  std::error_code error;
  fs::remove_all(place_, error);
  if (made_) fs::remove(output_, error);  // only if it is empty
}

absl::Status OutputFolder::Finish() {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(place_, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) return Failed(error, place_, "cannot be listed");
  for (const char* name : kDescriptions) fs::remove(fs::path(output_) / name, error);
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return !IsDescription(name); });
  bool whole = false, sharded = false;
  for (const std::string& name : names) {
    whole = whole || name == kWholeFile;
    sharded = sharded || name == kIndexFile;
  }
  for (const std::string& name : ModelFilesIn(output_)) {
    const bool of_shards = IsShard(name) || name == kIndexFile;
    if ((whole && of_shards) || (sharded && (name == kWholeFile || of_shards))) {
      fs::remove(fs::path(output_) / name, error);
    }
  }
  for (const std::string& name : names) {
    if (name == kMoreTemplates) fs::remove_all(fs::path(output_) / name, error);
    fs::rename(fs::path(place_) / name, fs::path(output_) / name, error);
    if (error) return Failed(error, absl::StrCat(output_, "/", name), "cannot be put there");
  }
  fs::remove(place_, error);
  place_.clear();
  return SyncFolder(output_);
}

}  // namespace atolld

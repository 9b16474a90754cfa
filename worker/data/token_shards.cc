#include "worker/data/token_shards.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "worker/data/unpacked_text.h"

namespace atolld {
namespace {

enum class ShardRole { kNone, kTrain, kValidation, kTest };

// Returns the role by the words of the name, which are runs of letters.
ShardRole RoleOf(const std::string& path) {
  const std::string name = absl::AsciiStrToLower(std::filesystem::path(path).stem().string()) + "_";
  std::string word;
  for (const char c : name) {
    if (absl::ascii_isalpha(static_cast<unsigned char>(c))) {
      word += c;
      continue;
    }
    if (word == "train" || word == "training") return ShardRole::kTrain;
    for (const char* held_out : {"val", "valid", "validation", "dev", "eval"}) {
      if (word == held_out) return ShardRole::kValidation;
    }
    if (word == "test") return ShardRole::kTest;
    word.clear();
  }
  return ShardRole::kNone;
}

struct FolderContent {
  std::vector<std::string> tokens;
  std::vector<std::string> texts;
  uint64_t others = 0;
};

// Returns true for compressed text as well.
bool IsText(absl::string_view name) {
  const absl::string_view content = UnpackedText::NameOfContent(name);
  return absl::EndsWith(content, ".txt") || absl::EndsWith(content, ".jsonl") ||
         absl::EndsWith(content, ".ndjson");
}

absl::StatusOr<FolderContent> ContentOf(const std::string& folder) {
  FolderContent content;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code ignored;  // a link that leads nowhere is no token file
    if (name[0] == '.' || !it->is_regular_file(ignored)) continue;
    const auto ends = [&](const char* ending) { return absl::EndsWith(name, ending); };
    if (ends(".bin") || ends(".npy")) {
      content.tokens.push_back(it->path().string());
    } else if (IsText(name)) {
      content.texts.push_back(it->path().string());
    } else {
      ++content.others;
    }
  }
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("data: ", folder, ": this folder cannot be read: ", error.message()));
  }
  std::sort(content.tokens.begin(), content.tokens.end());
  std::sort(content.texts.begin(), content.texts.end());
  return content;
}

bool NamesSplit(const std::vector<std::string>& files) {
  const auto any = [&](ShardRole role) {
    return std::any_of(files.begin(), files.end(),
                       [role](const std::string& file) { return RoleOf(file) == role; });
  };
  return any(ShardRole::kTrain) && any(ShardRole::kValidation);
}

}  // namespace

absl::StatusOr<bool> HoldsTokenShards(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return false;
  ASSIGN_OR_RETURN(const FolderContent content, ContentOf(path));
  if (content.tokens.empty()) return false;
  if (content.texts.empty() || NamesSplit(content.tokens)) return true;
  return absl::InvalidArgumentError(absl::StrCat(
      "data: ", path, " holds token files (", content.tokens[0], ") and text (", content.texts[0],
      "); keep them in folders of their own, or set [data] kind (--kind)"));
}

absl::StatusOr<TokenShards> FindTokenShards(const std::string& folder) {
  ASSIGN_OR_RETURN(const FolderContent content, ContentOf(folder));
  if (content.tokens.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: ", folder, " holds no token file (.bin or .npy)"));
  }
  TokenShards shards;
  const bool split = NamesSplit(content.tokens);
  uint64_t left_out = 0;
  for (const std::string& file : content.tokens) {
    const ShardRole role = RoleOf(file);
    if (role == ShardRole::kTest || (split && role == ShardRole::kNone)) {
      ++left_out;
    } else if (split && role == ShardRole::kValidation) {
      shards.validation.push_back(file);
    } else {
      shards.train.push_back(file);
    }
  }
  if (shards.train.empty()) shards.train = content.tokens;
  if (left_out > 0 && shards.train.size() < content.tokens.size()) {
    shards.notes.push_back(absl::StrCat(Counted(left_out, "token file"), " in ", folder,
                                        " was left out: its name says neither train nor val"));
  }
  if (const uint64_t others = content.others + content.texts.size(); others > 0) {
    shards.notes.push_back(absl::StrCat(Counted(others, "file"), " in ", folder,
                                        others == 1 ? " is" : " are",
                                        " not of tokens and left out"));
  }
  return shards;
}

}  // namespace atolld

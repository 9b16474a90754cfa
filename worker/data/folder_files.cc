#include "worker/data/folder_files.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "worker/data/unpacked_text.h"

namespace atolld {
namespace {

using FolderId = std::pair<dev_t, ino_t>;

class Listing {
 public:
  explicit Listing(FolderId root) : within_{root} {}

  absl::Status Add(const std::string& folder) {
    const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), &::closedir);
    if (open == nullptr) return Unreadable(folder, "folder");
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(open.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    if (errno != 0) return Unreadable(folder, "folder");
    for (const std::string& name : names) {
      if (name[0] == '.') {
        Note(name, &hidden_, &hidden_name_);
      } else {
        RETURN_IF_ERROR(AddOne(absl::StrCat(folder, "/", name), name));
      }
    }
    return absl::OkStatus();
  }

  FolderFiles Finish(const std::string& path) && {
    FolderFiles files{std::move(paths_), {}};
    // A folder's files stand together: a/b comes before a.txt.
    std::sort(files.paths.begin(), files.paths.end(), [](const auto& a, const auto& b) {
      return std::filesystem::path(a) < std::filesystem::path(b);
    });
    const auto note = [&](uint64_t count, const std::string& name, absl::string_view one,
                          absl::string_view many) {
      if (count == 0) return;
      files.notes.push_back(absl::StrCat(Counted(count, one, many), " in ", path, " (", name,
                                         count > 1 ? ", ..." : "", ") ",
                                         count == 1 ? "was" : "were", " left out"));
    };
    note(hidden_, hidden_name_, "hidden file or folder", "hidden files and folders");
    note(special_, special_name_, "socket, pipe or device", "sockets, pipes and devices");
    note(loops_, loop_name_, "link back to a folder that holds it",
         "links back to folders that hold them");
    return files;
  }

 private:
  static absl::Status Unreadable(const std::string& path, absl::string_view what) {
    return absl::FailedPreconditionError(
        absl::StrCat("data: ", path, ": this ", what, " cannot be read: ", std::strerror(errno),
                     "; give this user access, or take it out of the folder"));
  }

  static void Note(const std::string& name, uint64_t* count, std::string* first) {
    if (++*count == 1 || name < *first) *first = name;
  }

  absl::Status AddOne(const std::string& path, const std::string& name) {
    struct stat info;
    if (::stat(path.c_str(), &info) != 0) {
      struct stat link;
      const bool dangling = errno == ENOENT || errno == ELOOP;
      if (dangling && ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode)) {
        return absl::InvalidArgumentError(
            absl::StrCat("data: ", path, " is a link that leads nowhere; mend it or remove it"));
      }
      return Unreadable(path, "entry");
    }
    if (S_ISREG(info.st_mode)) {
      if (::access(path.c_str(), R_OK) != 0) return Unreadable(path, "file");
      paths_.push_back(path);
      return absl::OkStatus();
    }
    if (!S_ISDIR(info.st_mode)) {
      Note(name, &special_, &special_name_);
      return absl::OkStatus();
    }
    return AddFolder(path, name, {info.st_dev, info.st_ino});
  }

  absl::Status AddFolder(const std::string& path, const std::string& name, FolderId id) {
    if (std::find(within_.begin(), within_.end(), id) != within_.end()) {
      Note(name, &loops_, &loop_name_);
      return absl::OkStatus();
    }
    within_.push_back(id);
    RETURN_IF_ERROR(Add(path));
    within_.pop_back();
    return absl::OkStatus();
  }

  std::vector<std::string> paths_;
  std::vector<FolderId> within_;  // the folders on the way to where the listing is
  uint64_t hidden_ = 0, special_ = 0, loops_ = 0;
  std::string hidden_name_, special_name_, loop_name_;  // of each the first in order
};

}  // namespace

absl::StatusOr<FolderFiles> ListDataFolder(const std::string& path) {
  struct stat info = {};
  ::stat(path.c_str(), &info);  // a folder that is not there cannot be opened either
  Listing listing({info.st_dev, info.st_ino});
  RETURN_IF_ERROR(listing.Add(path));
  FolderFiles files = std::move(listing).Finish(path);
  if (!files.paths.empty()) return files;
  return absl::InvalidArgumentError(absl::StrCat("data: folder ", path, " holds no files",
                                                 files.notes.empty() ? "" : "; ",
                                                 files.notes.empty() ? "" : files.notes[0]));
}

// -----------------------------------------------------------------------------------------------

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

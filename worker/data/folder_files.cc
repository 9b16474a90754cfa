#include "worker/data/folder_files.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"

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

}  // namespace atolld

#include "daemon/env/scratch_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/env/posix_files.h"

namespace atolld {
namespace {

constexpr absl::string_view kOwnPart = "XXXXXX";  // as mkdtemp wants it

// Another process that cleans up may take a new folder for one that was left behind, before it is
// locked.
constexpr int kTriesToMake = 8;

bool IsScratchName(absl::string_view name, absl::string_view stem) {
  if (name.size() != stem.size() + kOwnPart.size() || !absl::StartsWith(name, stem)) return false;
  return std::all_of(name.begin() + static_cast<std::ptrdiff_t>(stem.size()), name.end(),
                     [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); });
}

// Does not follow links, which other users may have put into a folder in which all may write.
bool IsOwnFolder(const std::string& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid();
}

void RemoveFolder(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

// `own` is the folder that this process has locked.
void RemoveLeftOver(const std::string& prefix, const std::string& own) {
  if (!HolderOf(own)) return;  // a file system without locks
  const std::filesystem::path whole(prefix);
  const std::string stem = absl::StrCat(whole.filename().string(), "-");
  const std::filesystem::path parent = whole.has_parent_path() ? whole.parent_path() : ".";
  std::error_code error;
  for (std::filesystem::directory_iterator it(parent, error), end; !error && it != end;
       it.increment(error)) {
    const std::string path = it->path().string();
    if (!IsScratchName(it->path().filename().string(), stem) || !IsOwnFolder(path)) continue;
    const auto lock = FolderLock::Take(path, absl::ZeroDuration());
    if (lock.ok()) RemoveFolder(path);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ScratchFolder>> ScratchFolder::Make(const std::string& prefix) {
  std::string path;
  for (int i = 0; i < kTriesToMake; ++i) {
    path = absl::StrCat(prefix, "-", kOwnPart);
    if (mkdtemp(path.data()) == nullptr) {
      return ErrnoStatus(errno, path, "cannot make a folder for a while");
    }
    absl::StatusOr<FolderLock> lock = FolderLock::Take(path);
    struct stat found {};
    if (!lock.ok() || lstat(absl::StrCat(path, "/", kLockFile).c_str(), &found) != 0) {
      RemoveFolder(path);
      continue;
    }
    RemoveLeftOver(prefix, path);
    return std::unique_ptr<ScratchFolder>(new ScratchFolder(path, *std::move(lock)));
  }
  return absl::UnavailableError(absl::StrCat(path, ": cannot be locked"));
}

ScratchFolder::ScratchFolder(std::string path, FolderLock lock)
    : path_(std::move(path)), lock_(std::move(lock)) {}

ScratchFolder::~ScratchFolder() { RemoveFolder(path_); }

}  // namespace atolld

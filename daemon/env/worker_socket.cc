#include "daemon/env/worker_socket.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/env/posix_files.h"

namespace atolld {
namespace {

constexpr char kLinkSuffix[] = ".folder";
constexpr char kFolderPattern[] = "atoll-XXXXXX";

// Of 107, the rest is for the name behind it.
constexpr size_t kLongestFolder = 88;

bool IsPlain(absl::string_view path) {
  return path.size() <= kLongestFolder && std::all_of(path.begin(), path.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '/' || c == '.' ||
                  c == '-' || c == '_';
         });
}

// The socket in the folder that the link names, the folder, the link. Nothing else: the link may be
// anybody's by now.
void RemoveBehind(const std::string& link, const std::string& name) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::read_symlink(link, error);
  if (!error && folder.is_absolute()) {
    if (std::filesystem::is_socket(folder / name, error)) {
      std::filesystem::remove(folder / name, error);
    }
    rmdir(folder.c_str());
  }
  unlink(link.c_str());
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerSocket>> WorkerSocket::Make(const std::string& dir,
                                                                 const std::string& name) {
  const std::string link = absl::StrCat(dir, "/", name, kLinkSuffix);
  RemoveBehind(link, name);
  if (IsPlain(dir)) {
    return std::unique_ptr<WorkerSocket>(
        new WorkerSocket(absl::StrCat("unix:", dir, "/", name), name, ""));
  }
  std::error_code error;
  std::string top = std::filesystem::temp_directory_path(error).string();
  if (error || !IsPlain(absl::StrCat(top, "/", kFolderPattern))) top = "/tmp";
  std::string folder = absl::StrCat(top, "/", kFolderPattern);
  if (mkdtemp(folder.data()) == nullptr) {  // nobody else may enter it
    return ErrnoStatus(errno, folder, "cannot make a folder for a socket");
  }
  if (symlink(folder.c_str(), link.c_str()) != 0) {
    const int failure = errno;
    rmdir(folder.c_str());
    return ErrnoStatus(failure, link, "cannot make the link");
  }
  return std::unique_ptr<WorkerSocket>(
      new WorkerSocket(absl::StrCat("unix:", folder, "/", name), name, link));
}

absl::StatusOr<std::string> WorkerSocket::Find(const std::string& dir, const std::string& name) {
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::read_symlink(absl::StrCat(dir, "/", name, kLinkSuffix), error);
  const std::string path = absl::StrCat(error ? dir : folder.string(), "/", name);
  if (!std::filesystem::is_socket(path, error)) {
    return absl::NotFoundError(absl::StrCat(path, ": there is no socket"));
  }
  return absl::StrCat("unix:", path);
}

WorkerSocket::~WorkerSocket() {
  if (!link_.empty()) RemoveBehind(link_, name_);
}

}  // namespace atolld

#include "daemon/env/worker_socket.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "daemon/env/posix_files.h"

namespace atolld {
namespace {

constexpr char kLinkSuffix[] = ".folder";
constexpr char kFolderPattern[] = "atoll-XXXXXX";

// The limit is 107; the rest is for the name after it.
constexpr size_t kLongestFolder = 88;

bool IsPlain(absl::string_view path) {
  return path.size() <= kLongestFolder && std::all_of(path.begin(), path.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '/' || c == '.' ||
                  c == '-' || c == '_';
         });
}

// Removes the socket in the folder that the link names, the folder, and the link, but nothing else:
// the link may be another process's by now.
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

// Listens on a socket of the folder for a moment. Some file systems allow no sockets (Windows
// disks, folders of other machines), and some security modules forbid them.
absl::Status TryListening(const std::string& folder) {
  // By the descriptor, since the folder's own path may be too long.
  const int at = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string name = absl::StrCat(".socket-", getpid());
  const std::string path = absl::StrCat("/proc/self/fd/", at, "/", name);
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const bool listens =
      at >= 0 && made >= 0 &&
      bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      listen(made, 1) == 0;
  const int error = errno;
  if (at >= 0) unlinkat(at, name.c_str(), 0);
  if (made >= 0) close(made);
  if (at >= 0) close(at);
  return listens ? absl::OkStatus() : ErrnoStatus(error, folder, "cannot listen in it");
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerSocket>> WorkerSocket::Make(const std::string& dir,
                                                                 const std::string& name) {
  RemoveBehind(absl::StrCat(dir, "/", name, kLinkSuffix), name);
  if (IsPlain(dir) && TryListening(dir).ok()) {
    return std::unique_ptr<WorkerSocket>(
        new WorkerSocket(absl::StrCat("unix:", dir, "/", name), name, ""));
  }
  return MakeAmongTemporary(dir, name);
}

absl::Status WorkerSocket::Try(const std::string& dir, const std::string& scratch) {
  const absl::Status within = IsPlain(dir) ? TryListening(scratch) : absl::OkStatus();
  if (IsPlain(dir) && within.ok()) return within;
  const auto made = MakeAmongTemporary(scratch, "worker.sock");
  absl::Status elsewhere = made.status();
  if (made.ok()) {
    const std::string path(absl::StripPrefix((*made)->address(), "unix:"));
    elsewhere = TryListening(path.substr(0, path.rfind('/')));
  }
  if (elsewhere.ok()) return elsewhere;
  return absl::Status(elsewhere.code(),
                      absl::StrCat(within.message(), within.ok() ? "" : "; ", elsewhere.message()));
}

absl::StatusOr<std::unique_ptr<WorkerSocket>> WorkerSocket::MakeAmongTemporary(
    const std::string& dir, const std::string& name) {
  const std::string link = absl::StrCat(dir, "/", name, kLinkSuffix);
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

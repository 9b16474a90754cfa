#include "daemon/env/posix_folder_lock.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/env/posix_files.h"

namespace atolld {
namespace {

using Clock = std::chrono::steady_clock;

// The time between two looks at a lock whose holder is not known.
constexpr int kLookAgainMilliseconds = 20;

std::string LockPath(const std::string& dir) { return absl::StrCat(dir, "/", kLockFile); }

// Returns 0 if no pid was written.
pid_t PidIn(int fd) {
  char text[32];
  const ssize_t got = pread(fd, text, sizeof text, 0);
  pid_t pid = 0;
  if (got <= 0 || !absl::SimpleAtoi(absl::string_view(text, static_cast<size_t>(got)), &pid)) {
    return 0;
  }
  return pid;
}

// Waits until the process has ended or the time is over.
void AwaitEnd(pid_t pid, int milliseconds) {
  const int handle = pid <= 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  pollfd polled{handle, POLLIN, 0};  // poll passes over a negative descriptor
  poll(&polled, 1, handle < 0 ? std::min(milliseconds, kLookAgainMilliseconds) : milliseconds);
  if (handle >= 0) close(handle);
}

// A file system without locks is used without them.
bool Unsupported(int error) {
  return error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP || error == EINVAL;
}

}  // namespace

absl::StatusOr<FolderLock> FolderLock::Take(const std::string& dir, absl::Duration patience) {
  const std::string path = LockPath(dir);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus(errno, path, "cannot open the lock");
  FolderLock lock(fd);
  const Clock::time_point end = Clock::now() + absl::ToChronoMilliseconds(patience);
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (Unsupported(errno)) return lock;
    if (errno != EWOULDBLOCK) return ErrnoStatus(errno, path, "cannot lock");
    const pid_t holder = PidIn(fd);
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) {
      return absl::UnavailableError(absl::StrCat(
          dir, " is in use by ",
          holder == 0 ? std::string("another process") : absl::StrCat("process ", holder),
          ", which holds ", path,
          ": wait until it has ended, or end it; a folder serves one process"));
    }
    AwaitEnd(holder, static_cast<int>(left.count()));
  }
  const std::string text = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd, 0) != 0 ||
      pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return ErrnoStatus(errno, path, "cannot write");
  }
  return lock;
}

FolderLock::FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FolderLock::~FolderLock() {
  if (fd_ >= 0) close(fd_);
}

std::optional<pid_t> HolderOf(const std::string& dir) {
  const int fd = open(LockPath(dir).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::optional<pid_t> holder;
  // Shared, so that two who ask at once do not see each other; given back at once.
  if (flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) holder = PidIn(fd);
  close(fd);
  return holder;
}

}  // namespace atolld

#include "daemon/env/child_mark.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <set>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "daemon/env/posix_files.h"

namespace atolld {
namespace {

constexpr int kPassMilliseconds = 5;
constexpr int kMostPasses = 200;
constexpr size_t kMostEnvironment = size_t{4} << 20;
constexpr int kKeptDescriptor = 3;  // of the watching process, beside the standard streams

std::string ReadAll(int fd) {
  std::string all;
  char buffer[8192];
  ssize_t got = 0;
  while (all.size() < kMostEnvironment && (got = read(fd, buffer, sizeof(buffer))) > 0) {
    all.append(buffer, static_cast<size_t>(got));
  }
  return all;
}

// Returns true if a process, given by its folder in /proc, has the variable. Other users' processes
// cannot be read.
bool Carries(int process, absl::string_view variable) {
  const int environment = openat(process, "environ", O_RDONLY | O_CLOEXEC);
  if (environment < 0) return false;
  const std::string all = ReadAll(environment);
  close(environment);
  for (const absl::string_view entry : absl::StrSplit(all, '\0')) {
    if (entry == variable) return true;
  }
  return false;
}

// Kills by the folder, which never becomes another process's.
void Kill(int process, pid_t pid) {
  if (syscall(SYS_pidfd_send_signal, process, SIGKILL, nullptr, 0) != 0 && errno == ENOSYS) {
    kill(pid, SIGKILL);
  }
}

// Kills all processes that carry it now, and returns their number; a killed process may still be
// seen once.
int EndOnce(absl::string_view variable, std::set<pid_t>* killed) {
  DIR* const processes = opendir("/proc");
  if (processes == nullptr) return 0;
  int found = 0;
  while (const dirent* entry = readdir(processes)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &pid) || pid == getpid()) continue;
    const int process = openat(dirfd(processes), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (process < 0) continue;
    if (Carries(process, variable)) {
      ++found;
      killed->insert(pid);
      Kill(process, pid);
    }
    close(process);
  }
  closedir(processes);
  return found;
}

// The waiting process. It keeps none of its parent's descriptors open.
[[noreturn]] void WaitAndEnd(int end_of_parent, const std::string& mark) {
  setsid();  // a signal to its parent's group is not for it
  prctl(PR_SET_NAME, "atoll-children");
  const int nothing = open("/dev/null", O_RDWR);
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) dup2(nothing, fd);
  dup2(end_of_parent, kKeptDescriptor);
  syscall(SYS_close_range, static_cast<unsigned>(kKeptDescriptor + 1), ~0U, 0U);
  char byte = 0;
  while (read(kKeptDescriptor, &byte, 1) < 0 && errno == EINTR) {
  }
  EndMarked(mark);
  _exit(0);
}

}  // namespace

std::string OwnMark() {
  // "1 (name) S ... starttime": the name may hold anything, so count from behind its last bracket.
  std::ifstream stream("/proc/self/stat");
  std::string line;
  std::getline(stream, line);
  const size_t bracket = line.rfind(')');
  const std::vector<std::string> words = absl::StrSplit(
      bracket == std::string::npos ? "" : line.substr(bracket + 1), ' ', absl::SkipEmpty());
  constexpr size_t kStartTime = 19;  // the 22nd field; the 3rd is the first here
  return absl::StrCat(getpid(), "-", words.size() > kStartTime ? words[kStartTime] : "");
}

int EndMarked(const std::string& mark) {
  const std::string variable = absl::StrCat(kChildMark, "=", mark);
  std::set<pid_t> killed;
  for (int pass = 0; pass < kMostPasses && EndOnce(variable, &killed) > 0; ++pass) {
    poll(nullptr, 0, kPassMilliseconds);
  }
  return static_cast<int>(killed.size());
}

absl::Status WatchOverMarked() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "/proc/self", "cannot make a pipe");
  const std::string mark = OwnMark();
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[1]);
    WaitAndEnd(ends[0], mark);
  }
  const int failure = errno;
  close(ends[0]);
  if (pid > 0) return absl::OkStatus();  // the other end is open for as long as this process lives
  close(ends[1]);
  return ErrnoStatus(failure, "/proc/self", "cannot fork");
}

}  // namespace atolld

#include "daemon/program/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "daemon/program/command_line.h"

namespace atolld {
namespace {

absl::Status SystemError(absl::string_view what) {
  const int error = errno;
  const std::string message = absl::StrCat(what, ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(message);
  if (error == EACCES || error == EROFS) return absl::PermissionDeniedError(message);
  return absl::UnknownError(message);
}

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void Reset(int fd) {
    Close();
    fd_ = fd;
  }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

absl::Status MakePipe(Descriptor* read_end, Descriptor* write_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return SystemError("pipe");
  read_end->Reset(ends[0]);
  write_end->Reset(ends[1]);
  return absl::OkStatus();
}

// Runs between fork and exec, so it only makes async-signal-safe calls.
[[noreturn]] void BecomeProgram(char* const* argv, int in, int out, int err, int failure,
                                pid_t starter) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != starter) _exit(127);  // it died before the line above
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  const int input = in >= 0 ? in : open("/dev/null", O_RDONLY);
  if (input >= 0) dup2(input, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  execv(argv[0], argv);
  const int error = errno;
  const ssize_t written = write(failure, &error, sizeof error);
  _exit(written == static_cast<ssize_t>(sizeof error) ? 127 : 126);
}

// If `in` is below 0, standard input is empty.
absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& argv, int in, int out, int err) {
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  Descriptor failure_read, failure_write;
  const absl::Status piped = MakePipe(&failure_read, &failure_write);
  if (!piped.ok()) return piped;
  const pid_t starter = getpid();
  const pid_t pid = fork();
  if (pid < 0) return SystemError("fork");
  if (pid == 0) BecomeProgram(arguments.data(), in, out, err, failure_write.get(), starter);
  failure_write.Close();
  int error = 0;
  ssize_t got;
  do {
    got = read(failure_read.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof error)) return pid;  // exec closed the pipe: it runs
  waitpid(pid, nullptr, 0);
  errno = error;
  return SystemError(argv[0]);
}

ProcessExit ExitOf(int status) {
  if (WIFSIGNALED(status)) return ProcessExit{true, WTERMSIG(status)};
  return ProcessExit{false, WEXITSTATUS(status)};
}

// Reads both pipes until they end; returns false if the time is over first.
bool Drain(int out, int err, int seconds, const std::function<void(absl::string_view)>& on_output,
           std::string* out_text, std::string* err_text) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  std::array<pollfd, 2> polled = {pollfd{out, POLLIN, 0}, pollfd{err, POLLIN, 0}};
  std::array<std::string*, 2> texts = {out_text, err_text};
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    if (poll(polled.data(), polled.size(), static_cast<int>(left.count())) < 0 && errno != EINTR) {
      return false;
    }
    for (size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t got = read(polled[i].fd, buffer, sizeof buffer);
      if (got > 0) texts[i]->append(buffer, static_cast<size_t>(got));
      if (got > 0 && i == 0 && on_output) {
        on_output(absl::string_view(buffer, static_cast<size_t>(got)));
      }
      if (got == 0 || (got < 0 && errno != EINTR)) polled[i].fd = -1;
    }
  }
  return true;
}

}  // namespace

std::string Describe(const ProcessExit& exit) {
  return exit.by_signal ? absl::StrCat("was killed by signal ", exit.code)
                        : absl::StrCat("exited with ", exit.code);
}

absl::StatusOr<pid_t> StartProcess(const std::vector<std::string>& argv,
                                   const std::string& log_path) {
  const Descriptor log(open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (log.get() < 0) return SystemError(log_path);
  return Spawn(argv, -1, log.get(), log.get());
}

std::optional<ProcessExit> ReapProcess(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, WNOHANG) != child) return std::nullopt;
  return ExitOf(status);
}

bool IsRunning(pid_t pid) {
  if (pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH)) return false;
  // "123 (name) Z ...": the name may hold anything, so look behind its last bracket.
  std::ifstream stream(absl::StrCat("/proc/", pid, "/stat"));
  std::string stat;
  std::getline(stream, stat);
  const size_t bracket = stat.rfind(')');
  if (bracket == std::string::npos || bracket + 2 >= stat.size()) return false;
  return stat[bracket + 2] != 'Z' && stat[bracket + 2] != 'X';
}

std::optional<pid_t> RunningDaemon(const std::string& dir) {
  pid_t pid = 0;
  if (!(std::ifstream(absl::StrCat(dir, "/pid")) >> pid) || !IsRunning(pid)) return std::nullopt;
  std::string name;
  std::getline(std::ifstream(absl::StrCat("/proc/", pid, "/comm")), name);
  if (!absl::StartsWith(name, "atolld")) return std::nullopt;
  return pid;
}

namespace {

// Runs a feed into the pipe `input` until it is done or the reader has gone.
class FeedThread {
 public:
  FeedThread(const Feed& feed, Descriptor& input)
      : thread_([this, &feed, &input] {
          // For this thread alone: a pipe that is not read is an error to return, not a signal.
          sigset_t broken;
          sigemptyset(&broken);
          sigaddset(&broken, SIGPIPE);
          pthread_sigmask(SIG_BLOCK, &broken, nullptr);
          status_ = feed(
              [&input](absl::Span<const uint8_t> bytes) { return WriteAll(input.get(), bytes); });
          input.Close();
        }) {}
  ~FeedThread() { Join().IgnoreError(); }

  // OK too when the process has stopped to read: it says why itself.
  absl::Status Join() {
    if (thread_.joinable()) thread_.join();
    return absl::IsCancelled(status_) ? absl::OkStatus() : status_;
  }

 private:
  static absl::Status WriteAll(int fd, absl::Span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      const ssize_t done = write(fd, bytes.data(), bytes.size());
      if (done < 0 && errno == EINTR) continue;
      if (done < 0 && errno == EPIPE) return absl::CancelledError("it reads no more");
      if (done < 0) return SystemError("a pipe");
      bytes.remove_prefix(static_cast<size_t>(done));
    }
    return absl::OkStatus();
  }

  absl::Status status_;
  std::thread thread_;  // last: it writes what is above
};

}  // namespace

absl::StatusOr<std::string> RunAndCapture(const std::vector<std::string>& argv, int seconds,
                                          const std::function<void(absl::string_view)>& on_output,
                                          const Feed& feed) {
  Descriptor in_read, in_write, out_read, out_write, err_read, err_write;
  absl::Status piped = MakePipe(&out_read, &out_write);
  if (piped.ok()) piped = MakePipe(&err_read, &err_write);
  if (piped.ok() && feed) piped = MakePipe(&in_read, &in_write);
  if (!piped.ok()) return piped;
  const absl::StatusOr<pid_t> pid = Spawn(argv, in_read.get(), out_write.get(), err_write.get());
  if (!pid.ok()) return pid.status();
  in_read.Close();
  out_write.Close();
  err_write.Close();
  std::optional<FeedThread> fed;
  if (feed) fed.emplace(feed, in_write);
  std::string out, err;
  const bool ended = Drain(out_read.get(), err_read.get(), seconds, on_output, &out, &err);
  if (!ended) {
    kill(*pid, SIGKILL);
    kill(-*pid, SIGKILL);  // and what it has started
  }
  int status = 0;
  while (waitpid(*pid, &status, 0) < 0 && errno == EINTR) {
  }
  const absl::Status input = fed.has_value() ? fed->Join() : absl::OkStatus();
  if (!input.ok()) return input;
  const std::string program = std::filesystem::path(argv[0]).filename().string();
  if (!ended) {
    return absl::DeadlineExceededError(absl::StrCat(program, " took longer than ", seconds, " s"));
  }
  const ProcessExit exit = ExitOf(status);
  if (!exit.by_signal && exit.code == 0) return out;
  absl::string_view last = absl::StripTrailingAsciiWhitespace(err);
  const size_t line = last.rfind('\n');
  if (line != absl::string_view::npos) last = last.substr(line + 1);
  const std::string why =
      absl::StrCat(program, " ", Describe(exit), last.empty() ? "" : ": ", last);
  // Atoll's programs, and many others, exit with 2 if the call is wrong.
  return !exit.by_signal && exit.code == 2 ? absl::InvalidArgumentError(why)
                                           : absl::UnknownError(why);
}

absl::StatusOr<ProcessExit> RunAttached(const std::vector<std::string>& argv) {
  const absl::StatusOr<pid_t> pid = Spawn(argv, -1, STDOUT_FILENO, STDERR_FILENO);
  if (!pid.ok()) return pid.status();
  int status = 0;
  while (waitpid(*pid, &status, 0) < 0 && errno == EINTR) {
  }
  return ExitOf(status);
}

int FinishOutput(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr, "standard output could not be written: the output is incomplete\n");
  return code == kDone ? kFailed : code;
}

std::string ProgramFolder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

double MonotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// -----------------------------------------------------------------------------------------------

namespace {

// Returns the inode of the socket with these local and remote ports; empty if there is none.
std::string InodeOf(int local_port, int remote_port) {
  const std::string local = absl::StrFormat(":%04X", local_port);
  const std::string remote = absl::StrFormat(":%04X", remote_port);
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream stream(table);
    for (std::string line; std::getline(stream, line);) {
      // sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode ...
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (words.size() > 9 && absl::EndsWith(words[1], local) && absl::EndsWith(words[2], remote)) {
        return words[9];
      }
    }
  }
  return "";
}

bool Holds(pid_t pid, const std::string& link) {
  const std::string folder = absl::StrCat("/proc/", pid, "/fd");
  DIR* const open_folder = opendir(folder.c_str());
  if (open_folder == nullptr) return false;
  bool found = false;
  while (const dirent* entry = readdir(open_folder)) {
    char target[64];
    const ssize_t length =
        readlink(absl::StrCat(folder, "/", entry->d_name).c_str(), target, sizeof target);
    found = length > 0 && link == absl::string_view(target, static_cast<size_t>(length));
    if (found) break;
  }
  closedir(open_folder);
  return found;
}

}  // namespace

std::optional<ProcessStat> StatOf(pid_t pid) {
  std::ifstream stream(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  if (pid <= 0 || !std::getline(stream, line)) return std::nullopt;
  // "123 (name) S 1 ...": the name may hold anything, so look behind its last bracket.
  const size_t bracket = line.rfind(')');
  if (bracket == std::string::npos) return std::nullopt;
  const std::vector<absl::string_view> words =
      absl::StrSplit(absl::string_view(line).substr(bracket + 1), ' ', absl::SkipEmpty());
  ProcessStat stat;
  if (words.size() < 2 || !absl::SimpleAtoi(words[1], &stat.parent)) return std::nullopt;
  stat.state = words[0][0];
  return stat;
}

std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> children;
  DIR* const processes = opendir("/proc");
  if (processes == nullptr) return children;
  while (const dirent* entry = readdir(processes)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &pid)) continue;
    const std::optional<ProcessStat> stat = StatOf(pid);
    if (stat.has_value() && stat->parent == parent) children.push_back(pid);
  }
  closedir(processes);
  return children;
}

uint64_t ResidentBytes(pid_t pid) {
  std::ifstream stream(absl::StrCat("/proc/", pid, "/statm"));
  uint64_t size = 0;
  uint64_t resident = 0;
  if (!(stream >> size >> resident)) return 0;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

pid_t OwnerOfConnection(const std::vector<pid_t>& candidates, int local_port, int remote_port) {
  const std::string inode = InodeOf(local_port, remote_port);
  if (inode.empty()) return 0;
  const std::string link = absl::StrCat("socket:[", inode, "]");
  for (const pid_t pid : candidates) {
    if (Holds(pid, link)) return pid;
  }
  return 0;
}

}  // namespace atolld

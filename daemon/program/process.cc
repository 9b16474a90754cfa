#include "daemon/program/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "compression/base/exit_code.h"
#include "compression/base/status_macros.h"
#include "daemon/env/posix_files.h"

namespace atolld {
namespace {

constexpr std::streamoff kTailBytes = 16 << 10;  // of a log: hundreds of lines

// `descriptors` are those of the child; without a 0, its standard input is empty.
absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& argv,
                            std::vector<std::pair<int, int>> descriptors) {
  ChildProcess::Options options;
  options.arguments = argv;
  options.descriptors = std::move(descriptors);
  options.inherits_descriptors = true;
  options.death_signal = SIGTERM;
  options.own_process_group = true;
  return ChildProcess::Start(std::move(options));
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

absl::StatusOr<pid_t> StartProcess(const std::vector<std::string>& argv,
                                   const std::string& log_path) {
  const Descriptor log(open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (log.get() < 0) return ErrnoStatus(errno, log_path, "cannot open for writing");
  return Spawn(argv, {{log.get(), STDOUT_FILENO}, {log.get(), STDERR_FILENO}});
}

std::string TailOfLog(const std::string& path) {
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  if (!stream) return "";
  const std::streamoff size = stream.tellg();
  const std::streamoff from = size > kTailBytes ? size - kTailBytes : 0;
  std::string tail(static_cast<size_t>(size - from), '\0');
  stream.seekg(from);
  stream.read(tail.data(), static_cast<std::streamsize>(tail.size()));
  tail.resize(static_cast<size_t>(stream.gcount()));
  return from == 0 ? tail : tail.substr(std::min(tail.find('\n') + 1, tail.size()));
}

bool IsRunning(pid_t pid) {
  const std::optional<ProcessStat> stat = StatOf(pid);
  return stat.has_value() && stat->state != 'Z' && stat->state != 'X';
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
          input.Reset();
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
      if (done < 0) return ErrnoStatus(errno, "a pipe", "cannot write");
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
  ASSIGN_OR_RETURN(Pipe out_pipe, MakePipe(argv[0]));
  ASSIGN_OR_RETURN(Pipe err_pipe, MakePipe(argv[0]));
  Pipe in_pipe;
  std::vector<std::pair<int, int>> descriptors = {{out_pipe.write.get(), STDOUT_FILENO},
                                                  {err_pipe.write.get(), STDERR_FILENO}};
  if (feed) {
    ASSIGN_OR_RETURN(in_pipe, MakePipe(argv[0]));
    descriptors.emplace_back(in_pipe.read.get(), STDIN_FILENO);
  }
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(argv, std::move(descriptors)));
  for (Descriptor* of_child : {&in_pipe.read, &out_pipe.write, &err_pipe.write}) of_child->Reset();
  std::optional<FeedThread> fed;
  if (feed) fed.emplace(feed, in_pipe.write);
  std::string out, err;
  const bool ended =
      Drain(out_pipe.read.get(), err_pipe.read.get(), seconds, on_output, &out, &err);
  if (!ended) {
    kill(pid, SIGKILL);
    kill(-pid, SIGKILL);  // and what it has started
  }
  const ExitStatus exit = ChildProcess::Await(pid);
  const absl::Status input = fed.has_value() ? fed->Join() : absl::OkStatus();
  if (!input.ok()) return input;
  const std::string program = std::filesystem::path(argv[0]).filename().string();
  if (!ended) {
    return absl::DeadlineExceededError(absl::StrCat(program, " took longer than ", seconds, " s"));
  }
  if (exit.ok()) return out;
  absl::string_view last = absl::StripTrailingAsciiWhitespace(err);
  const size_t line = last.rfind('\n');
  if (line != absl::string_view::npos) last = last.substr(line + 1);
  const std::string why =
      absl::StrCat(program, " ", exit.Predicate(), last.empty() ? "" : ": ", last);
  // Atoll's programs, and many others, exit with 2 if the call is wrong.
  return exit.signal == 0 && exit.code == 2 ? absl::InvalidArgumentError(why)
                                            : absl::UnknownError(why);
}

absl::StatusOr<ExitStatus> RunAttached(const std::vector<std::string>& argv) {
  ASSIGN_OR_RETURN(const pid_t pid,
                   Spawn(argv, {{STDOUT_FILENO, STDOUT_FILENO}, {STDERR_FILENO, STDERR_FILENO}}));
  return ChildProcess::Await(pid);
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

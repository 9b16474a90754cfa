#include "daemon/env/process_events.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compression/base/check.h"
#include "compression/base/last_words.h"
#include "compression/base/process_limits.h"
#include "compression/base/status_macros.h"
#include "daemon/env/child_mark.h"
#include "daemon/env/line_budget.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/service_notices.h"

namespace atolld {

namespace {

// How often a thread that watches signals checks whether one was taken. It counts its looks and not
// the time, so that a machine that slept does not count as stuck.
constexpr int kLookMilliseconds = 20;
constexpr int kUntakenLooks = 100;  // 2 s
constexpr int kStuckLooks = 500;    // 10 s

// Does what the signal would have done without being blocked.
[[noreturn]] void EndBySignal(int number) {
  std::signal(number, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  kill(getpid(), number);
  poll(nullptr, 0, kLookMilliseconds);
  _exit(128 + number);  // the first process of a container is not killed by its own signals
}

sigset_t SetOf(const std::vector<int>& signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

bool IsReadable(int fd) {
  pollfd polled = {fd, POLLIN, 0};
  return poll(&polled, 1, 0) > 0;
}

// Waits for a descriptor to be readable. Returns true if `stop` is readable first.
bool StoppedBefore(int fd, int stop) {
  pollfd fds[] = {{fd, POLLIN, 0}, {stop, POLLIN, 0}};
  while (poll(fds, 2, -1) < 0 && errno == EINTR) {
  }
  return fds[1].revents != 0;
}

void AddOne(int event_fd) {
  const uint64_t one = 1;
  CHECK(write(event_fd, &one, sizeof(one)) == static_cast<ssize_t>(sizeof(one)));
}

}  // namespace

struct SignalWatcher::Callback {
  std::function<void(int)> on_signal;
  bool gone = false;            // the loop's
  std::atomic<int> untaken{0};  // signals that the loop was told of and has not heard
};

SignalWatcher::SignalWatcher(Executor& executor, std::vector<int> signals,
                             std::function<void(int)> on_signal)
    : callback_(std::make_shared<Callback>()) {
  callback_->on_signal = std::move(on_signal);
  const sigset_t set = SetOf(signals);
  sigset_t before;
  CHECK(pthread_sigmask(SIG_BLOCK, &set, &before) == 0);
  for (const int signal : signals) {
    if (sigismember(&before, signal) == 0) unblock_.push_back(signal);
  }
  signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  stop_fd_ = eventfd(0, EFD_CLOEXEC);
  CHECK(signal_fd_ >= 0 && stop_fd_ >= 0);
  thread_ = std::thread([&executor, callback = callback_, from = signal_fd_, stop = stop_fd_] {
    int newest = 0;
    int looks = 0;  // since the loop owes an answer
    for (;;) {
      const bool owed = callback->untaken.load() > 0;
      pollfd fds[] = {{from, POLLIN, 0}, {stop, POLLIN, 0}};
      const int ready = poll(fds, 2, owed ? kLookMilliseconds : -1);
      if (ready < 0 && errno != EINTR) return;
      if (fds[1].revents != 0) return;
      if (!owed) looks = 0;
      if (ready == 0 && ++looks >= kStuckLooks) {
        LastWords("the loop is stuck, so the signal ends the process\n");
        EndBySignal(newest);
      }
      signalfd_siginfo info = {};
      if (ready <= 0 || read(from, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) {
        continue;
      }
      const int signal = static_cast<int>(info.ssi_signo);
      const bool ends = signal != SIGHUP;  // which may only ask for a config to be read again
      if (ends) {
        newest = signal;
        ++callback->untaken;
      }
      executor.Post([callback, signal, ends] {
        if (ends) --callback->untaken;
        if (!callback->gone) callback->on_signal(signal);
      });
    }
  });
}

SignalWatcher::~SignalWatcher() {
  callback_->gone = true;
  AddOne(stop_fd_);
  thread_.join();
  close(signal_fd_);
  close(stop_fd_);
  const sigset_t set = SetOf(unblock_);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

SignalGuard::SignalGuard(std::vector<int> signals) {
  const sigset_t set = SetOf(signals);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  stop_fd_ = eventfd(0, EFD_CLOEXEC);
  CHECK(signal_fd_ >= 0 && stop_fd_ >= 0);
  thread_ = std::thread([from = signal_fd_, stop = stop_fd_] {
    // A signal waits. It is left to a SignalWatcher, if one is at work.
    while (!StoppedBefore(from, stop)) {
      int looks = 0;
      while (looks < kUntakenLooks && IsReadable(from) && !IsReadable(stop)) {
        poll(nullptr, 0, kLookMilliseconds);
        ++looks;
      }
      signalfd_siginfo info = {};
      if (looks == kUntakenLooks &&
          read(from, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
        EndBySignal(static_cast<int>(info.ssi_signo));
      }
    }
  });
}

SignalGuard::~SignalGuard() {
  AddOne(stop_fd_);
  thread_.join();
  close(signal_fd_);
  close(stop_fd_);
}

void OpenStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    // The lowest free number is the one that is given.
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) < 0) return;
  }
}

std::vector<int> SignalsThatEnd() {
  std::vector<int> signals = {SIGTERM, SIGINT};
  struct sigaction hang_up = {};
  const bool ignored = sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler == SIG_IGN;
  if (!ignored) signals.push_back(SIGHUP);
  return signals;
}

bool HasTerminal() {
  const int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal >= 0) close(terminal);
  return terminal >= 0;
}

EndSignals::Meaning EndSignals::Take(absl::Time now) {
  constexpr absl::Duration kTogether = absl::Seconds(1);
  if (!first_) {
    first_ = now;
    return Meaning::kDrain;
  }
  return now < *first_ + kTogether ? Meaning::kNothing : Meaning::kStop;
}

// -----------------------------------------------------------------------------------------------

namespace {

constexpr size_t kLongestLineBytes = size_t{64} << 10;
constexpr size_t kReadBytes = size_t{16} << 10;
// Batches of lines that may wait for the loop; a child that writes much is held up by its full
// pipe, not by the memory of this process.
constexpr int kBatchesAhead = 4;
// After a pause this long, the lines of a child that were left out are reported.
constexpr int kPauseMilliseconds = 1000;

// A stack trace of every thread passes completely.
constexpr size_t kOutputBurstBytes = size_t{512} << 10;
constexpr int kExecFailed = 127;  // as shells say it

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { Reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    Reset();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  int get() const { return fd_; }
  void Reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read;
  Fd write;
};

absl::StatusOr<Pipe> MakePipe(const std::string& program) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, program, "cannot make a pipe");
  return Pipe{Fd(fds[0]), Fd(fds[1])};
}

// Everything that the child needs, made before fork: between fork and exec only async-signal-safe
// calls are allowed, because another thread may have held any lock.
struct Launch {
  std::vector<char*> arguments;
  std::vector<std::string> environment_text;
  std::vector<char*> environment;
  std::vector<Fd> moved;  // copies above every target, so that no dup2 hits a source
  std::vector<std::pair<int, int>> targets;  // (copy, number in the child)
  const char* working_directory = nullptr;
  bool die_with_parent = false;
  bool own_process_group = false;
  pid_t parent = 0;
  int report = -1;  // errno of a failed step is written here
};

[[noreturn]] void FailChild(int report) {
  const int error = errno;
  (void)!write(report, &error, sizeof(error));
  _exit(kExecFailed);
}

[[noreturn]] void RunChild(const Launch& launch) {
  if (launch.own_process_group) setpgid(0, 0);
  if (launch.die_with_parent) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) FailChild(launch.report);
    if (getppid() != launch.parent) _exit(kExecFailed);  // it died before the line above
  }
  // Dispositions to SIG_IGN outlive exec.
  for (int signal = 1; signal < NSIG; ++signal) {
    if (signal != SIGKILL && signal != SIGSTOP) std::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // Kernels before 5.11 do not know the flag; there, libraries' descriptors rely on their own
  // close-on-exec.
  syscall(SYS_close_range, 3U, ~0U, static_cast<unsigned>(CLOSE_RANGE_CLOEXEC));
  for (const auto& [from, to] : launch.targets) {
    if (dup2(from, to) < 0) FailChild(launch.report);
  }
  if (launch.working_directory != nullptr && chdir(launch.working_directory) != 0) {
    FailChild(launch.report);
  }
  execve(launch.arguments[0], launch.arguments.data(), launch.environment.data());
  FailChild(launch.report);
}

std::vector<std::string> JoinEnvironment(
    const std::vector<std::pair<std::string, std::string>>& added) {
  std::map<std::string, std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const absl::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == absl::string_view::npos) continue;
    if (IsServiceVariable(text.substr(0, equals))) continue;
    all[std::string(text.substr(0, equals))] = std::string(text.substr(equals + 1));
  }
  for (const auto& [name, value] : added) all[name] = value;
  std::vector<std::string> lines;
  for (const auto& [name, value] : all) lines.push_back(absl::StrCat(name, "=", value));
  return lines;
}

// Copies every descriptor above all targets, because a dup2 in the child must not overwrite one
// that is still needed.
absl::Status CopyDescriptors(const std::string& program,
                             const std::vector<std::pair<int, int>>& wanted, int report,
                             Launch* launch) {
  int highest = 2;
  for (const auto& [from, to] : wanted) highest = std::max(highest, to);
  const auto copy = [launch, highest](int from) {
    launch->moved.emplace_back(fcntl(from, F_DUPFD_CLOEXEC, highest + 1));
    return launch->moved.back().get();
  };
  for (const auto& [from, to] : wanted) {
    launch->targets.emplace_back(copy(from), to);
    if (launch->targets.back().first < 0) {
      return ErrnoStatus(errno, program, absl::StrCat("cannot pass descriptor ", from));
    }
  }
  launch->report = copy(report);
  if (launch->report < 0) return ErrnoStatus(errno, program, "cannot copy a pipe");
  return absl::OkStatus();
}

// `launch` points into `options` afterwards.
void FillLaunch(ChildProcess::Options* options, Launch* launch) {
  for (std::string& argument : options->arguments) launch->arguments.push_back(argument.data());
  launch->arguments.push_back(nullptr);
  if (!options->mark.empty()) {
    options->environment.emplace_back(kChildMark, options->mark);
    options->own_process_group = true;
  }
  launch->environment_text = JoinEnvironment(options->environment);
  for (std::string& line : launch->environment_text) launch->environment.push_back(line.data());
  launch->environment.push_back(nullptr);
  if (!options->working_directory.empty()) {
    launch->working_directory = options->working_directory.c_str();
  }
  launch->die_with_parent = options->die_with_parent;
  launch->own_process_group = options->own_process_group;
  launch->parent = getpid();
}

// Forks, and waits until the program runs or has failed to start.
absl::StatusOr<pid_t> Start(const std::string& program, Launch* launch, Pipe* report) {
  const pid_t pid = fork();
  if (pid < 0 && errno == EAGAIN) {
    return absl::ResourceExhaustedError(
        absl::StrCat(program, ": no process can be made: ", Describe(ReadThreadLimit())));
  }
  if (pid < 0) return ErrnoStatus(errno, program, "cannot fork");
  if (pid == 0) RunChild(*launch);

  launch->moved.clear();
  report->write.Reset();
  int failure = 0;
  ssize_t got = 0;
  do {
    got = read(report->read.get(), &failure, sizeof(failure));
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof(failure))) return pid;
  waitpid(pid, nullptr, 0);
  return ErrnoStatus(failure, program, "cannot start");
}

// Cuts a stream of bytes into lines.
class LineCutter {
 public:
  void Add(absl::string_view bytes, std::vector<std::string>* lines) {
    while (!bytes.empty()) {
      const size_t end = bytes.find('\n');
      const size_t space = kLongestLineBytes - partial_.size();
      const size_t take = std::min({end, bytes.size(), space});
      partial_.append(bytes.data(), take);
      bytes.remove_prefix(take);
      const bool at_end = !bytes.empty() && bytes.front() == '\n';
      if (at_end) bytes.remove_prefix(1);
      if (at_end || partial_.size() == kLongestLineBytes) Flush(lines, at_end);
    }
  }
  void End(std::vector<std::string>* lines) { Flush(lines, false); }

 private:
  void Flush(std::vector<std::string>* lines, bool even_if_empty) {
    if (partial_.empty() && !even_if_empty) return;
    lines->push_back(std::move(partial_));
    partial_.clear();
  }
  std::string partial_;
};

}  // namespace

std::string ExitStatus::Text() const {
  if (signal == 0) return absl::StrCat("exit code ", code);
  const char* name = sigdescr_np(signal);
  return absl::StrCat("killed by signal ", signal, " (", name == nullptr ? "unknown" : name, ")");
}

// Shared by the owner, the pump thread and the tasks that the pump posts.
struct ChildProcess::State : std::enable_shared_from_this<ChildProcess::State> {
  State(Executor& loop, Events callbacks) : executor(loop), events(std::move(callbacks)) {}

  bool Watch();  // false: errno says why not
  void Pump();
  int Reap();
  bool ReadSome(Fd* from, LineCutter* cutter, bool is_error);
  void Deliver(std::vector<std::string> lines, bool is_error);
  void Post(std::vector<std::string> lines, bool is_error);
  void DeliverExit(ExitStatus status);

  // Constant once the pump runs.
  Executor& executor;
  pid_t pid = 0;
  Fd handle;           // readable when the child has ended: a pidfd, or what `waiter` tells by
  std::thread waiter;  // where the kernel gives no pidfd
  std::thread pump;

  std::string mark;

  // The pump's.
  Fd output;
  Fd error;
  std::optional<LineBudget> budget;

  // The loop's.
  Events events;
  bool gone = false;
  bool dispatching = false;

  // Guarded by mutex.
  std::mutex mutex;
  std::condition_variable taken;
  int batches = 0;
  bool closing = false;
  bool reaped = false;  // its number may be another process's by now
};

// Kernels before 5.3, and containers whose filter does not know the call, give no descriptor of a
// process. In that case a thread waits for the process's end, leaves it to be reaped, and reports
// it by an event.
bool ChildProcess::State::Watch() {
  handle = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (handle.get() >= 0) return true;
  handle = Fd(eventfd(0, EFD_CLOEXEC));
  if (handle.get() < 0) return false;
  waiter = std::thread([pid = pid, event = handle.get()] {
    siginfo_t info = {};
    while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
    const uint64_t one = 1;
    (void)!write(event, &one, sizeof(one));
  });
  return true;
}

// Returns the status of the child, which has ended.
int ChildProcess::State::Reap() {
  if (waiter.joinable()) waiter.join();
  const std::lock_guard<std::mutex> lock(mutex);
  int status = 0;
  pid_t waited = -1;
  do {
    waited = waitpid(pid, &status, 0);
  } while (waited < 0 && errno == EINTR);
  reaped = true;
  return waited == pid ? status : 0;
}

// Reads once; returns false if the stream has ended.
bool ChildProcess::State::ReadSome(Fd* from, LineCutter* cutter, bool is_error) {
  char buffer[kReadBytes];
  const ssize_t got = read(from->get(), buffer, sizeof(buffer));
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return errno == EINTR;
  std::vector<std::string> lines;
  if (got > 0) {
    cutter->Add(absl::string_view(buffer, static_cast<size_t>(got)), &lines);
  } else {
    cutter->End(&lines);
    from->Reset();
  }
  Deliver(std::move(lines), is_error);
  return got > 0;
}

void ChildProcess::State::Pump() {
  LineCutter cutters[2];
  for (;;) {
    // poll skips negative descriptors.
    pollfd fds[] = {{output.get(), POLLIN, 0}, {error.get(), POLLIN, 0}, {handle.get(), POLLIN, 0}};
    const bool owes = budget && budget->owes();
    const int ready = poll(fds, 3, owes ? kPauseMilliseconds : -1);
    if (ready < 0) continue;
    if (ready == 0) Post(budget->Rest(), true);
    if (fds[0].revents != 0) ReadSome(&output, &cutters[0], false);
    if (fds[1].revents != 0) ReadSome(&error, &cutters[1], true);
    if (fds[2].revents == 0) continue;
    // Until it is waited for, no other process can have its group's number.
    if (!mark.empty()) {
      kill(-pid, SIGKILL);
      EndMarked(mark);
    }
    // What it wrote before it ended is in the pipes. Its own children may hold them open for long,
    // so take what is there and do not wait for the end of the stream.
    for (Fd* stream : {&output, &error}) {
      if (stream->get() < 0) continue;
      fcntl(stream->get(), F_SETFL, O_NONBLOCK);
      const bool is_error = stream == &error;
      while (stream->get() >= 0 && ReadSome(stream, &cutters[is_error ? 1 : 0], is_error)) {
      }
      std::vector<std::string> lines;
      cutters[is_error ? 1 : 0].End(&lines);
      Deliver(std::move(lines), is_error);
    }
    if (budget) Post(budget->Rest(), true);
    const int status = Reap();
    ExitStatus exit;
    if (WIFEXITED(status)) exit.code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) exit.signal = WTERMSIG(status);
    DeliverExit(exit);
    return;
  }
}

void ChildProcess::State::Deliver(std::vector<std::string> lines, bool is_error) {
  if (budget) lines = budget->Take(executor.Now(), std::move(lines), is_error);
  Post(std::move(lines), is_error);
}

void ChildProcess::State::Post(std::vector<std::string> lines, bool is_error) {
  if (lines.empty()) return;
  {
    std::unique_lock<std::mutex> lock(mutex);
    taken.wait(lock, [this] { return batches < kBatchesAhead || closing; });
    if (closing) return;
    ++batches;
  }
  executor.Post([self = shared_from_this(), lines = std::move(lines), is_error] {
    {
      const std::lock_guard<std::mutex> lock(self->mutex);
      --self->batches;
    }
    self->taken.notify_one();
    const auto& callback = is_error ? self->events.on_error_line : self->events.on_output_line;
    self->dispatching = true;
    for (const std::string& line : lines) {
      if (!self->gone && callback) callback(line);
    }
    self->dispatching = false;
    if (self->gone) self->events = Events();
  });
}

void ChildProcess::State::DeliverExit(ExitStatus status) {
  executor.Post([self = shared_from_this(), status] {
    if (self->gone) return;
    const Events last = std::exchange(self->events, Events());
    if (last.on_exit) last.on_exit(status);
  });
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Spawn(Executor& executor,
                                                                  Options options, Events events) {
  CHECK(!options.arguments.empty());
  const std::string& program = options.arguments.front();
  CHECK(program.find('/') != std::string::npos);

  ASSIGN_OR_RETURN(Pipe output, MakePipe(program));
  ASSIGN_OR_RETURN(Pipe error, MakePipe(program));
  ASSIGN_OR_RETURN(Pipe report, MakePipe(program));
  Fd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (nothing.get() < 0) return ErrnoStatus(errno, "/dev/null", "cannot open");

  Launch launch;
  std::vector<std::pair<int, int>> wanted = {
      {nothing.get(), 0}, {output.write.get(), 1}, {error.write.get(), 2}};
  wanted.insert(wanted.end(), options.descriptors.begin(), options.descriptors.end());
  RETURN_IF_ERROR(CopyDescriptors(program, wanted, report.write.get(), &launch));
  FillLaunch(&options, &launch);
  ASSIGN_OR_RETURN(const pid_t pid, Start(program, &launch, &report));

  auto state = std::make_shared<State>(executor, std::move(events));
  state->pid = pid;
  if (!state->Watch()) {
    const int reason = errno;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return ErrnoStatus(reason, program, "cannot watch the process");
  }
  state->output = std::move(output.read);
  state->error = std::move(error.read);
  state->mark = options.mark;
  if (options.most_output_bytes_per_second > 0) {
    state->budget.emplace(options.most_output_bytes_per_second, kOutputBurstBytes);
  }
  try {
    state->pump = std::thread([raw = state.get()] { raw->Pump(); });
  } catch (const std::system_error&) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return absl::ResourceExhaustedError(absl::StrCat(
        program, ": no thread can be made to watch it: ", Describe(ReadThreadLimit())));
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(std::move(state)));
}

ChildProcess::ChildProcess(std::shared_ptr<State> state) : state_(std::move(state)) {}

ChildProcess::~ChildProcess() {
  Kill(SIGKILL);
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->closing = true;
  }
  state_->taken.notify_one();
  state_->pump.join();
  state_->gone = true;
  if (!state_->dispatching) state_->events = Events();
}

pid_t ChildProcess::pid() const { return state_->pid; }

void ChildProcess::Kill(int signal) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (!state_->reaped) kill(state_->pid, signal);
}

}  // namespace atolld

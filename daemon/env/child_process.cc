#include "daemon/env/child_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compression/base/check.h"
#include "compression/base/process_limits.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "daemon/env/child_mark.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/service_notices.h"

namespace atolld {
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
constexpr int kMostDoublings = 10;

// Everything that the child needs, made before fork: between fork and exec only async-signal-safe
// calls are allowed, because another thread may have held any lock.
struct Launch {
  std::vector<char*> arguments;
  std::vector<std::string> environment_text;
  std::vector<char*> environment;
  std::vector<Descriptor> moved;  // copies above every target, so that no dup2 hits a source
  std::vector<std::pair<int, int>> targets;  // (copy, number in the child)
  const char* working_directory = nullptr;
  bool inherits_descriptors = false;
  int death_signal = 0;
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
  if (launch.death_signal != 0) {
    if (prctl(PR_SET_PDEATHSIG, launch.death_signal) != 0) FailChild(launch.report);
    if (getppid() != launch.parent) _exit(kExecFailed);  // it died before the line above
  }
  // Dispositions to SIG_IGN outlive exec. A process under nohup ignores SIGHUP because it is meant
  // to outlive the terminal, and so are its children.
  for (int signal = 1; signal < NSIG; ++signal) {
    if (signal != SIGKILL && signal != SIGSTOP && signal != SIGHUP) std::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // Kernels before 5.11 do not know the flag; there, libraries' descriptors rely on their own
  // close-on-exec.
  if (!launch.inherits_descriptors) {
    syscall(SYS_close_range, 3U, ~0U, static_cast<unsigned>(CLOSE_RANGE_CLOEXEC));
  }
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
  launch->inherits_descriptors = options->inherits_descriptors;
  launch->death_signal = options->death_signal;
  launch->own_process_group = options->own_process_group;
  launch->parent = getpid();
}

// Forks, and waits until the program runs or has failed to start.
absl::StatusOr<pid_t> Fork(const std::string& program, Launch* launch, Pipe* report) {
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
  ChildProcess::Await(pid);
  return ErrnoStatus(failure, program, "cannot start");
}

ExitStatus StatusOf(int waited) {
  ExitStatus status;
  if (WIFEXITED(waited)) status.code = WEXITSTATUS(waited);
  if (WIFSIGNALED(waited)) status.signal = WTERMSIG(waited);
  return status;
}

// LineBudget: limits how much of a child process's output goes into its parent's log.
//
// A worker that writes the same error a thousand times a second must fill neither the disk nor the
// journal: the lines that exceed the rate are left out, and one line in their place says how many
// lines were left out. Pure. Used by one thread.
class LineBudget {
 public:
  // `burst` is the number of bytes that may pass at once after a time of silence.
  LineBudget(double bytes_per_second, size_t burst);

  // Returns the lines that may go into the log. If lines were left out before, the line that
  // reports this comes first. `is_error` is true if the lines come from standard error.
  std::vector<std::string> Take(absl::Time now, std::vector<std::string> lines, bool is_error);

  // Returns true if lines were left out and not yet reported.
  bool owes() const { return lines_ > 0; }

  // Returns the line that reports how many lines were left out, and the last line that was left
  // out, since this may say why a child ended; a line from standard error is preferred. Returns no
  // lines if none was left out. Call it after a pause and when the child has ended.
  std::vector<std::string> Rest();

 private:
  std::string Told() const;
  void Forget();

  const double bytes_per_second_;
  const double burst_;
  double left_;
  absl::Time filled_ = absl::InfinitePast();
  // The numbers of lines and bytes left out since the last report.
  uint64_t lines_ = 0, bytes_ = 0;
  std::string last_output_, last_error_;  // The last lines that were left out, from each output.
};

LineBudget::LineBudget(double bytes_per_second, size_t burst)
    : bytes_per_second_(bytes_per_second),
      burst_(static_cast<double>(burst)),
      left_(static_cast<double>(burst)) {}

std::vector<std::string> LineBudget::Take(absl::Time now, std::vector<std::string> lines,
                                          bool is_error) {
  if (filled_ != absl::InfinitePast()) {
    left_ = std::min(burst_, left_ + absl::ToDoubleSeconds(now - filled_) * bytes_per_second_);
  }
  filled_ = now;
  std::vector<std::string> taken;
  for (std::string& line : lines) {
    const auto size = static_cast<double>(line.size() + 1);
    // After a gap nothing passes before a good part of the burst is there again: whole stretches of
    // output say more than a line here and there.
    if (size > left_ || (lines_ > 0 && left_ < burst_ / 8)) {
      ++lines_;
      bytes_ += line.size() + 1;
      (is_error ? last_error_ : last_output_) = std::move(line);
      continue;
    }
    if (lines_ > 0) {
      taken.push_back(Told());
      Forget();
    }
    left_ -= size;
    taken.push_back(std::move(line));
  }
  return taken;
}

std::vector<std::string> LineBudget::Rest() {
  if (lines_ == 0) return {};
  std::vector<std::string> rest = {Told(),
                                   std::move(last_error_.empty() ? last_output_ : last_error_)};
  Forget();
  return rest;
}

void LineBudget::Forget() {
  lines_ = bytes_ = 0;
  last_output_.clear();
  last_error_.clear();
}

std::string LineBudget::Told() const {
  return absl::StrCat("(", Counted(lines_, "line"), " of ", bytes_,
                      " bytes were left out here: it writes too much)");
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

std::string ExitStatus::Predicate() const {
  return signal == 0 ? absl::StrCat("exited with ", code)
                     : absl::StrCat("was killed by signal ", signal);
}

absl::Duration RestartPause::Next() {
  const int doublings = std::min(ends_++, kMostDoublings);
  return std::min(first_ * (int64_t{1} << doublings), longest_);
}

// Shared by the owner, the pump thread and the tasks that the pump posts.
struct ChildProcess::State : std::enable_shared_from_this<ChildProcess::State> {
  State(Executor& loop, Events callbacks) : executor(loop), events(std::move(callbacks)) {}

  bool Watch();  // false: errno says why not
  void Pump();
  ExitStatus Reap();
  void Kill(int signal);
  bool ReadSome(Descriptor* from, LineCutter* cutter, bool is_error);
  void Deliver(std::vector<std::string> lines, bool is_error);
  void Post(std::vector<std::string> lines, bool is_error);
  void DeliverExit(ExitStatus status);

  // Constant once the pump runs.
  Executor& executor;
  pid_t pid = 0;
  Descriptor handle;   // readable when the child has ended: a pidfd, or what `waiter` tells by
  std::thread waiter;  // where the kernel gives no pidfd
  std::thread pump;

  std::string mark;

  // The pump's.
  Descriptor output;
  Descriptor error;
  std::optional<LineBudget> budget;

  // The loop's.
  Events events;
  std::string last_line;
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
  handle = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (handle.get() >= 0) return true;
  handle = Descriptor(eventfd(0, EFD_CLOEXEC));
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
ExitStatus ChildProcess::State::Reap() {
  if (waiter.joinable()) waiter.join();
  const std::lock_guard<std::mutex> lock(mutex);
  reaped = true;
  return Await(pid);
}

void ChildProcess::State::Kill(int signal) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (!reaped) kill(pid, signal);
}

// Reads once; returns false if the stream has ended.
bool ChildProcess::State::ReadSome(Descriptor* from, LineCutter* cutter, bool is_error) {
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
    for (Descriptor* stream : {&output, &error}) {
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
    return DeliverExit(Reap());
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
      if (!absl::StripAsciiWhitespace(line).empty()) self->last_line = line;
      if (!self->gone && callback) callback(line);
    }
    self->dispatching = false;
    if (self->gone) self->events = Events();
  });
}

void ChildProcess::State::DeliverExit(ExitStatus status) {
  executor.Post([self = shared_from_this(), status]() mutable {
    if (self->gone) return;
    const Events last = std::exchange(self->events, Events());
    status.last_line = std::move(self->last_line);
    if (last.on_exit) last.on_exit(status);
  });
}

absl::StatusOr<pid_t> ChildProcess::Start(Options options) {
  CHECK(!options.arguments.empty());
  const std::string program = options.arguments.front();
  ASSIGN_OR_RETURN(Pipe report, MakePipe(program));
  const Descriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (nothing.get() < 0) return ErrnoStatus(errno, "/dev/null", "cannot open");
  Launch launch;
  std::vector<std::pair<int, int>> wanted = {{nothing.get(), 0}};
  wanted.insert(wanted.end(), options.descriptors.begin(), options.descriptors.end());
  RETURN_IF_ERROR(CopyDescriptors(program, wanted, report.write.get(), &launch));
  FillLaunch(&options, &launch);
  return Fork(program, &launch, &report);
}

std::optional<ExitStatus> ChildProcess::Reap(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, WNOHANG) != child) return std::nullopt;
  return StatusOf(status);
}

ExitStatus ChildProcess::Await(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return StatusOf(status);
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Spawn(Executor& executor,
                                                                  Options options, Events events) {
  CHECK(!options.arguments.empty());
  const std::string& program = options.arguments.front();
  ASSIGN_OR_RETURN(Pipe output, MakePipe(program));
  ASSIGN_OR_RETURN(Pipe error, MakePipe(program));
  options.descriptors.insert(options.descriptors.end(),
                             {{output.write.get(), 1}, {error.write.get(), 2}});
  ASSIGN_OR_RETURN(const pid_t pid, Start(options));

  auto state = std::make_shared<State>(executor, std::move(events));
  state->pid = pid;
  if (!state->Watch()) {
    const int reason = errno;
    kill(pid, SIGKILL);
    Await(pid);
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
    Await(pid);
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

void ChildProcess::Kill(int signal) { state_->Kill(signal); }

void ChildProcess::KillAfter(absl::Duration patience) {
  state_->executor.RunAfter(patience, [weak = std::weak_ptr<State>(state_)] {
    if (const std::shared_ptr<State> state = weak.lock()) state->Kill(SIGKILL);
  });
}

}  // namespace atolld

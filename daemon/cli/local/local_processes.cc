#include "daemon/cli/local/local_processes.h"

#include <signal.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "compression/base/status_macros.h"

namespace atolld {

namespace {

// The largest size of one process's log; the file beside it may be as large again.
constexpr uint64_t kMostLogBytes = uint64_t{16} << 20;
constexpr double kBetweenLogLooksSeconds = 5;

std::string LogOf(const LocalProcess& process) { return absl::StrCat(process.dir, "/log.txt"); }

}  // namespace

void TrimLog(const std::string& path, uint64_t most) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error || size <= most) return;
  // The process has the file open, so its name can be moved but not what it writes to.
  std::filesystem::copy_file(path, path + ".1", std::filesystem::copy_options::overwrite_existing,
                             error);
  std::filesystem::resize_file(path, 0, error);
}

LocalProcesses::LocalProcesses(LocalLayout& layout)
    : layout_(layout), states_(layout.processes.size()) {
  for (size_t i = 0; i < states_.size(); ++i) {
    const LocalProcess& process = layout.processes[i];
    states_[i].running = process.pid != 0 && RunningDaemon(process.dir) == process.pid;
  }
}

LocalProcesses::~LocalProcesses() {
  std::vector<size_t> left;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].running && states_[i].child) left.push_back(i);
  }
  Stop(left, absl::ZeroDuration());
}

absl::Status LocalProcesses::Start(size_t index) {
  if (states_[index].running) return absl::OkStatus();
  LocalProcess& process = layout_.processes[index];
  const absl::StatusOr<pid_t> pid = StartProcess(process.command, LogOf(process));
  if (!pid.ok()) return Annotate(pid.status(), absl::StrCat("starting ", process.id));
  process.pid = *pid;
  states_[index].child = true;
  states_[index].was_started = true;
  states_[index].running = true;
  return absl::OkStatus();
}

std::optional<LocalProcesses::Change> LocalProcesses::PollOne(size_t index) {
  State& state = states_[index];
  LocalProcess& process = layout_.processes[index];
  if (state.running) {
    std::optional<ExitStatus> exit;
    if (state.child) exit = ChildProcess::Reap(process.pid);
    if (state.child ? !exit.has_value() : IsRunning(process.pid)) return std::nullopt;
    state.running = false;
    state.exit = exit;
    return Change{index, process.pid, false, exit};
  }
  const std::optional<pid_t> pid = RunningDaemon(process.dir);
  if (!pid.has_value()) return std::nullopt;
  process.pid = *pid;
  state.child = false;
  state.running = true;
  state.exit.reset();
  return Change{index, *pid, true, std::nullopt};
}

std::vector<LocalProcesses::Change> LocalProcesses::Poll() {
  std::vector<Change> changes;
  if (const double now = MonotonicSeconds(); now >= look_at_logs_) {
    look_at_logs_ = now + kBetweenLogLooksSeconds;
    for (const LocalProcess& process : layout_.processes) TrimLog(LogOf(process), kMostLogBytes);
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    // Twice: one that ended may be back already.
    for (int look = 0; look < 2; ++look) {
      std::optional<Change> change = PollOne(i);
      if (change.has_value()) changes.push_back(*std::move(change));
    }
  }
  return changes;
}

bool LocalProcesses::any_peer_running() const {
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].running && layout_.processes[i].role == "peer") return true;
  }
  return false;
}

std::optional<int> LocalProcesses::exit(size_t index) const {
  const std::optional<ExitStatus>& exit = states_[index].exit;
  if (!exit.has_value()) return std::nullopt;
  return exit->signal != 0 ? -exit->signal : exit->code;
}

void LocalProcesses::Signal(size_t index, int signal) {
  if (states_[index].running) kill(layout_.processes[index].pid, signal);
}

void LocalProcesses::Terminate(size_t index) {
  Signal(index, SIGTERM);
  Signal(index, SIGCONT);  // one that is paused would not hear of it
}

void LocalProcesses::Kill(size_t index) { Signal(index, SIGKILL); }
void LocalProcesses::Pause(size_t index) { Signal(index, SIGSTOP); }
void LocalProcesses::Continue(size_t index) { Signal(index, SIGCONT); }

void LocalProcesses::Stop(const std::vector<size_t>& indices, absl::Duration patience) {
  const auto all_ended = [&] {
    bool ended = true;
    for (const size_t index : indices) {
      if (states_[index].running) PollOne(index);
      ended = ended && !states_[index].running;
    }
    return ended;
  };
  for (const size_t index : indices) Terminate(index);
  const absl::Time deadline = absl::Now() + patience;
  while (!all_ended() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(20));
  for (const size_t index : indices) Signal(index, SIGKILL);
  // A killed process ends within moments, unless the kernel itself is stuck.
  const absl::Time last = absl::Now() + absl::Seconds(5);
  while (!all_ended() && absl::Now() < last) absl::SleepFor(absl::Milliseconds(5));
}

}  // namespace atolld

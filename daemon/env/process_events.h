// Turns what happens to processes into events of the loop: the signals that this process gets, and
// the output and the end of a child (such as a peer's worker, or the peers of a local run).
//
// Every callback runs on the loop. SignalWatcher blocks the signals in the calling thread and
// receives them in a thread of its own; threads that are started later inherit the block. So
// construct a SignalWatcher first in main, before any other thread runs. A child gets default
// signal dispositions, an empty signal mask, /dev/null as standard input, only the named
// descriptors, and none of the variables by which this process's service manager reaches it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"

namespace atolld {

// If this process was started without standard input, output or error, opens /dev/null in their
// place; otherwise messages would be written into a file or connection that gets this descriptor.
// Call it before anything else is opened.
void OpenStandardStreams();

// Runs a callback for SIGTERM and SIGINT instead of ending the process.
class SignalWatcher {
 public:
  // `on_signal` is called on the loop with the signal's number, once for each signal. If the loop
  // has not called it after ten seconds, the loop is stuck, and the signal has its usual effect.
  SignalWatcher(Executor& executor, std::vector<int> signals, std::function<void(int)> on_signal);

  // No callback runs afterwards. Must be called on the loop thread, or after the loop has ended.
  // The calling thread's old signal mask is restored, so the signals have their default effect
  // again.
  ~SignalWatcher();

  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  struct Callback;

  std::shared_ptr<Callback> callback_;
  std::vector<int> unblock_;
  int signal_fd_ = -1;
  int stop_fd_ = -1;
  std::thread thread_;
};

// Returns SIGTERM, SIGINT and, unless it is ignored, SIGHUP. A process under nohup ignores SIGHUP
// because it is meant to outlive the terminal, but it would receive the signal if it blocked it.
std::vector<int> SignalsThatEnd();

// Returns true if this process has a controlling terminal. SIGHUP then means that the terminal is
// gone; for a daemon without a terminal it means, by convention, that the config must be read
// again.
bool HasTerminal();

// Lets the signals that ask the process to end take effect even when no other code receives them.
// No SignalWatcher works before a loop runs and after it has ended, and a thread that receives
// signals may be stuck, for example in a write to a pipe that nothing reads. A signal that is not
// received for two seconds has its usual effect.
//
// SignalGuard blocks the signals in the calling thread, so construct it first in main; threads that
// are started later inherit the block.
class SignalGuard {
 public:
  explicit SignalGuard(std::vector<int> signals);
  ~SignalGuard();  // The signals stay blocked.
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

 private:
  int signal_fd_ = -1;
  int stop_fd_ = -1;
  std::thread thread_;
};

// Interprets a sequence of signals that ask a process to end. Pure. Used by one thread.
//
// The first signal asks the process to end in order; a later signal demands that it end at once.
// The signals of the first second count as one, because `timeout` and some shells signal the
// process and then its group.
class EndSignals {
 public:
  enum class Meaning { kDrain, kNothing, kStop };
  Meaning Take(absl::Time now);

 private:
  std::optional<absl::Time> first_;
};

// -----------------------------------------------------------------------------------------------

struct ExitStatus {
  int code = 0;    // The exit code; has a meaning only if `signal` is 0.
  int signal = 0;  // The signal that killed the process; 0 if the process exited.
  bool ok() const { return code == 0 && signal == 0; }
  // Returns a text such as "exit code 3" or "killed by signal 9 (Killed)".
  std::string Text() const;
};

// A child process. Its lines arrive in order; on_exit comes after the last one.
class ChildProcess {
 public:
  struct Options {
    // The first is the program's path, which must contain a slash.
    std::vector<std::string> arguments;
    std::vector<std::pair<std::string, std::string>>
        // Added to this process's environment; a variable of the same name is replaced.
        environment;
    std::string working_directory;  // If empty, the working directory of this process.
    std::vector<std::pair<int, int>>
        // The descriptors that the child inherits, as (number in this process, number in the
        // child). Numbers 1 and 2 in the child are reserved for its output.
        descriptors;
    // Sends SIGKILL to the child when the thread that spawned it ends, so that nothing is left when
    // this process is killed.
    bool die_with_parent = false;
    // Keeps the child out of the terminal's foreground group, so that Ctrl-C reaches only this
    // process.
    bool own_process_group = false;
    // If not empty, all processes that the child has started are ended with it, by EndMarked
    // (child_mark.h). Such a child has a process group of its own.
    std::string mark;
    // The highest rate of output, beyond a burst of half a megabyte; 0 means no limit. Further
    // output is left out, and a line says how much.
    double most_output_bytes_per_second = 0;
  };
  struct Events {
    // Called with each line, without its line end. A line longer than 64 KiB comes in pieces.
    std::function<void(const std::string& line)> on_output_line;  // Called for standard output.
    std::function<void(const std::string& line)> on_error_line;   // Called for standard error.
    std::function<void(ExitStatus)> on_exit;
  };

  // Starts the child. Errors name the program. Must be called on the loop thread.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Spawn(Executor& executor, Options options,
                                                             Events events);

  // Kills the child with SIGKILL if it still runs, and waits for its end; no callback runs
  // afterwards. To stop a child without waiting, Kill it and destroy this object in or after
  // on_exit.
  ~ChildProcess();

  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const;

  // Sends the signal to the child. Does nothing once the child has ended, so it never signals
  // another process that has got the child's number.
  void Kill(int signal);

 private:
  struct State;
  explicit ChildProcess(std::shared_ptr<State> state);

  const std::shared_ptr<State> state_;
};

}  // namespace atolld

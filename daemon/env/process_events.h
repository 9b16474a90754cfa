// Processes as events of the loop: the signals that this one gets, and the output and end of a
// child (the worker of a peer, the peers of a local run).
//
// Every callback runs on the loop. Signals are blocked in the calling thread and taken by a thread
// of the watcher's own; threads started later inherit the block. So construct a SignalWatcher first
// thing in main, before any other thread runs. A child gets default signal dispositions, an empty
// signal mask, /dev/null as standard input, and no descriptor but those that are named; and none of
// the variables by which the service manager of this process is told things.
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

// Gives a process that was started without standard input, output or error /dev/null in their
// place: a file or a connection that took such a number would be written into by messages. Before
// anything else is opened.
void OpenStandardStreams();

// SIGTERM and SIGINT run a callback instead of ending the process.
class SignalWatcher {
 public:
  // `on_signal` runs on the loop with the signal's number, once for each that comes.
  SignalWatcher(Executor& executor, std::vector<int> signals, std::function<void(int)> on_signal);

  // No callback runs afterwards. Loop thread, or after the loop has ended. The calling thread's old
  // mask is restored, so the signals have their default effect again.
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

// SIGTERM, SIGINT, and SIGHUP unless it is ignored: whoever starts a process under nohup wants it
// to outlive the terminal, and a blocked signal would reach it all the same.
std::vector<int> SignalsThatEnd();

// Whether this process has a controlling terminal. SIGHUP then says that it is gone; to a daemon
// without one it says, by custom, that the config is to be read again.
bool HasTerminal();

// What the signals that ask a process to end mean, in their order. Pure.
//
// The first asks it to put things in order and go; one that comes later wants it gone now. Those of
// the first second are one: `timeout` and some shells signal the process and then its group.
class EndSignals {
 public:
  enum class Meaning { kDrain, kNothing, kStop };
  Meaning Take(absl::Time now);

 private:
  std::optional<absl::Time> first_;
};

// -----------------------------------------------------------------------------------------------

struct ExitStatus {
  int code = 0;    // meaningful when signal is 0
  int signal = 0;  // that killed it; 0: it ended by itself
  bool ok() const { return code == 0 && signal == 0; }
  std::string Text() const;  // "exit code 3", "killed by signal 9 (Killed)"
};

// Its lines come in order, `on_exit` last.
class ChildProcess {
 public:
  struct Options {
    std::vector<std::string> arguments;  // the first is the program's path, with a slash
    std::vector<std::pair<std::string, std::string>>
        environment;                // added to this process's, or replacing
    std::string working_directory;  // empty: this process's
    std::vector<std::pair<int, int>>
        descriptors;  // (number here, number in the child); 1 and 2 are taken
    // SIGKILL to the child when the thread that spawned it ends: nothing is left behind when this
    // process is killed.
    bool die_with_parent = false;
    // Out of the terminal's foreground group, so that Ctrl-C reaches this process alone.
    bool own_process_group = false;
  };
  struct Events {
    // A line without its end, of at most 64 KiB (longer ones come in pieces); the last may lack its
    // end.
    std::function<void(const std::string& line)> on_output_line;  // standard output
    std::function<void(const std::string& line)> on_error_line;   // standard error
    std::function<void(ExitStatus)> on_exit;
  };

  // Errors name the program. Loop thread.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Spawn(Executor& executor, Options options,
                                                             Events events);

  // Kills it with SIGKILL if it still runs, and waits for its end; no callback runs afterwards. To
  // stop a child without waiting, Kill it and destroy this in or after on_exit.
  ~ChildProcess();

  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const;

  // Does nothing once the child has ended; never hits another process that got its number.
  void Kill(int signal);

 private:
  struct State;
  explicit ChildProcess(std::shared_ptr<State> state);

  const std::shared_ptr<State> state_;
};

}  // namespace atolld

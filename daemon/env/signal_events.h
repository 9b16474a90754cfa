// Turns the signals that this process gets into events of the loop.
//
// Every callback runs on the loop. SignalWatcher blocks the signals in the calling thread and
// receives them in a thread of its own; threads that are started later inherit the block. So
// construct a SignalWatcher first in main, before any other thread runs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

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

}  // namespace atolld

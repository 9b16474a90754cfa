// Signals as events of the loop: SIGTERM and SIGINT run a callback there instead of ending the
// process.
//
// Signals are blocked in the calling thread and taken by a thread of its own; threads started later
// inherit the block. So construct it first thing in main, before any other thread runs.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "daemon/env/env.h"

namespace atolld {

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

}  // namespace atolld

#include "daemon/env/signal_watcher.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "compression/base/check.h"

namespace atolld {

struct SignalWatcher::Callback {
  std::function<void(int)> on_signal;
  bool gone = false;  // the loop's
};

SignalWatcher::SignalWatcher(Executor& executor, std::vector<int> signals,
                             std::function<void(int)> on_signal)
    : callback_(std::make_shared<Callback>()) {
  callback_->on_signal = std::move(on_signal);
  sigset_t set;
  sigset_t before;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, &before) == 0);
  for (const int signal : signals) {
    if (sigismember(&before, signal) == 0) unblock_.push_back(signal);
  }
  signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  stop_fd_ = eventfd(0, EFD_CLOEXEC);
  CHECK(signal_fd_ >= 0 && stop_fd_ >= 0);
  thread_ = std::thread([&executor, callback = callback_, from = signal_fd_, stop = stop_fd_] {
    for (;;) {
      pollfd fds[] = {{from, POLLIN, 0}, {stop, POLLIN, 0}};
      if (poll(fds, 2, -1) < 0 && errno != EINTR) return;
      if (fds[1].revents != 0) return;
      signalfd_siginfo info = {};
      if (read(from, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) continue;
      executor.Post([callback, signal = static_cast<int>(info.ssi_signo)] {
        if (!callback->gone) callback->on_signal(signal);
      });
    }
  });
}

SignalWatcher::~SignalWatcher() {
  callback_->gone = true;
  const uint64_t one = 1;
  CHECK(write(stop_fd_, &one, sizeof(one)) == static_cast<ssize_t>(sizeof(one)));
  thread_.join();
  close(signal_fd_);
  close(stop_fd_);
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : unblock_) sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace atolld

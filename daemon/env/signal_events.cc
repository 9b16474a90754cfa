#include "daemon/env/signal_events.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>
#include <utility>

#include "compression/base/check.h"
#include "compression/base/last_words.h"

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

}  // namespace atolld

#include "daemon/env/signal_waiter.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/status/statusor.h"
#include "compression/base/check.h"
#include "daemon/env/signal_events.h"
#include "daemon/env/wake_event.h"

namespace atolld {
namespace {

sigset_t Watched() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (const int signal : SignalsThatEnd()) sigaddset(&set, signal);
  return set;
}

Descriptor MakeEvent() {
  absl::StatusOr<Descriptor> event = MakeWakeEvent();
  CHECK(event.ok());
  return *std::move(event);
}

}  // namespace

Waker::Waker() : event_(MakeEvent()) {}

void Waker::Wake() { SetWakeEvent(event_); }

SignalWaiter::SignalWaiter() {
  const sigset_t watched = Watched();
  pthread_sigmask(SIG_BLOCK, &watched, nullptr);
  fd_ = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  CHECK(fd_ >= 0);
}

SignalWaiter::~SignalWaiter() {
  // One that came meanwhile (an impatient second Ctrl-C) has had its effect; it must not end the
  // program now.
  signalfd_siginfo info;
  while (read(fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
  }
  close(fd_);
  const sigset_t watched = Watched();
  pthread_sigmask(SIG_UNBLOCK, &watched, nullptr);
}

bool SignalWaiter::Wait(Waker& waker, absl::Duration limit) {
  pollfd polled[] = {{fd_, POLLIN, 0}, {waker.event_.get(), POLLIN, 0}};
  poll(polled, 2, static_cast<int>(absl::ToInt64Milliseconds(limit)));
  ClearWakeEvent(waker.event_);
  bool end = false;
  signalfd_siginfo info;
  while (read(fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo != SIGCHLD) end = true;
  }
  return end;
}

bool SignalWaiter::Write(int out, absl::string_view text) {
  while (!text.empty()) {
    pollfd polled[] = {{out, POLLOUT, 0}, {fd_, POLLIN, 0}};
    if (poll(polled, 2, -1) < 0 && errno != EINTR) return false;
    if (polled[1].revents != 0 && polled[0].revents == 0) return false;
    if (polled[0].revents == 0) continue;
    // A pipe that is ready has room for this much, so the write does not wait.
    const ssize_t written = write(out, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    if (written < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace atolld

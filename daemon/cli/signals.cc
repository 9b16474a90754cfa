#include "daemon/cli/signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdint>

#include "compression/base/check.h"

namespace atolld {
namespace {

sigset_t Watched() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, signal);
  return set;
}

}  // namespace

Waker::Waker() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { CHECK(fd_ >= 0); }

Waker::~Waker() { close(fd_); }

void Waker::Wake() {
  const uint64_t one = 1;
  // It fails only when the counter is full: then the waiter is awake anyhow.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
}

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
  pollfd polled[] = {{fd_, POLLIN, 0}, {waker.fd_, POLLIN, 0}};
  poll(polled, 2, static_cast<int>(absl::ToInt64Milliseconds(limit)));
  uint64_t wakes = 0;
  [[maybe_unused]] const ssize_t drained = read(waker.fd_, &wakes, sizeof wakes);
  bool end = false;
  signalfd_siginfo info;
  while (read(fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo != SIGCHLD) end = true;
  }
  return end;
}

}  // namespace atolld

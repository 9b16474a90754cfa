// Ctrl-C and its kin as something to wait for, so that a command can put things in order before it
// ends.
//
// Make one before any thread starts: signals are blocked for the maker's thread and for all that it
// starts later.
#pragma once

#include "absl/time/time.h"

namespace atolld {

// Something that another thread can wake a SignalWaiter with. Any thread.
class Waker {
 public:
  Waker();
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;
  void Wake();

 private:
  friend class SignalWaiter;
  int fd_;
};

class SignalWaiter {
 public:
  SignalWaiter();
  ~SignalWaiter();  // signals have their usual effect again
  SignalWaiter(const SignalWaiter&) = delete;
  SignalWaiter& operator=(const SignalWaiter&) = delete;

  // Returns when a signal or a child's end has come, the waker was woken, or `limit` has passed.
  // True: somebody wants the program to end (SIGINT, SIGTERM, SIGHUP).
  bool Wait(Waker& waker, absl::Duration limit);

 private:
  int fd_;
};

}  // namespace atolld

// SignalWaiter: waits for Ctrl-C, the end of a child, or another thread, so that a command can
// finish in order before it ends.
//
// Construct it before any other thread starts, because it blocks signals for its own thread and for
// all threads that this thread starts later.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/env/posix_files.h"

namespace atolld {

// Lets another thread wake a SignalWaiter. Thread-safe.
class Waker {
 public:
  Waker();
  void Wake();

 private:
  friend class SignalWaiter;
  const Descriptor event_;
};

// Its calls block. Used by one thread.
class SignalWaiter {
 public:
  SignalWaiter();
  ~SignalWaiter();  // gives signals their usual effect again
  SignalWaiter(const SignalWaiter&) = delete;
  SignalWaiter& operator=(const SignalWaiter&) = delete;

  // Waits until a signal has come, a child has ended, `waker` was woken, or `limit` has passed.
  // Returns true if a signal asks the program to end (SIGINT, SIGTERM, SIGHUP).
  bool Wait(Waker& waker, absl::Duration limit);

  // Writes all of `text` and waits for the reader as long as necessary. Returns false if the output
  // has no reader any more, or if a signal comes first; the next Wait reports this signal.
  bool Write(int out, absl::string_view text);

 private:
  int fd_;
};

}  // namespace atolld

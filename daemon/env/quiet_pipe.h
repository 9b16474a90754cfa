// QuietPipe: while it lives, a write to a connection that the other end has closed is an error to
// the thread that made it, and no SIGPIPE. For libraries that write without MSG_NOSIGNAL, as
// OpenSSL does. Used by one thread, on a stack.
#pragma once

#include <signal.h>
#include <time.h>

namespace atolld {

class QuietPipe {
 public:
  QuietPipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~QuietPipe() {
    const timespec now = {};
    sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  QuietPipe(const QuietPipe&) = delete;
  QuietPipe& operator=(const QuietPipe&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
};

}  // namespace atolld

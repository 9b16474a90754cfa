// Termination: SIGTERM as an event in a worker's inbox, so that it ends between two steps.
//
// One a process, made in main() before the session and destroyed after it. A second SIGTERM ends
// the process at once. SIGINT and SIGPIPE are ignored: the daemon decides when its worker ends.
#pragma once

#include <thread>

#include "worker/base/inbox.h"

namespace atolld {

class Termination {
 public:
  explicit Termination(Inbox& inbox);  // outlives this
  ~Termination();
  Termination(const Termination&) = delete;
  Termination& operator=(const Termination&) = delete;

 private:
  // A signal handler has no argument: the one value of the program that it must find by itself.
  static int& WriteEnd();

  int pipe_[2] = {-1, -1};
  std::thread thread_;
};

}  // namespace atolld

#include "worker/base/termination.h"

#include <signal.h>
#include <unistd.h>

namespace atolld {

int& Termination::WriteEnd() {
  static int descriptor = -1;
  return descriptor;
}

// A handler and a pipe, since threads that libraries made before main() do not block signals and
// would take a blocked one's default action: death.
Termination::Termination(Inbox& inbox) {
  if (::pipe(pipe_) != 0) return;
  WriteEnd() = pipe_[1];
  struct sigaction action = {};
  action.sa_handler = +[](int) {
    const char byte = 'T';
    if (::write(WriteEnd(), &byte, 1) < 0) ::_exit(1);
  };
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second one ends us at once
  ::sigaction(SIGTERM, &action, nullptr);
  // Ctrl-C reaches the whole foreground group.
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  thread_ = std::thread([this, &inbox] {
    char byte = 0;
    while (::read(pipe_[0], &byte, 1) < 0) {
    }
    if (byte != 'T') return;
    Event event;
    event.kind = Event::Kind::kTerminated;
    inbox.Push(event);
  });
}

Termination::~Termination() {
  ::signal(SIGTERM, SIG_DFL);
  if (!thread_.joinable()) return;
  const char byte = 'E';
  if (::write(pipe_[1], &byte, 1) < 0) ::_exit(1);
  thread_.join();
  ::close(pipe_[0]);
  ::close(pipe_[1]);
}

}  // namespace atolld

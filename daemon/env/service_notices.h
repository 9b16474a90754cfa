// What a daemon tells the service manager that started it: that it is ready, that it lives, what it
// is doing, and that it is about to end. The protocol is sd_notify's: one datagram a message, to
// the Unix socket that NOTIFY_SOCKET names.
//
// Law: never waits, and never fails the process: a message that the manager does not take is
// dropped. "I live" is said from the loop and from nowhere else, so that a daemon whose loop hangs
// falls silent and is started again. Loop thread, or before the loop runs.
#pragma once

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"

namespace atolld {

class ServiceNotices {
 public:
  // As the environment of this process names them (NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID).
  // Without a service manager it sends nothing.
  static ServiceNotices FromEnvironment();

  // `socket`: a path, or "@NAME" in the abstract namespace; empty: nobody listens. `watchdog`: how
  // long this process may be silent; zero: for ever.
  ServiceNotices(std::string socket, absl::Duration watchdog);
  ~ServiceNotices();

  ServiceNotices(const ServiceNotices&) = delete;
  ServiceNotices& operator=(const ServiceNotices&) = delete;

  bool wanted() const { return socket_ >= 0; }

  // It is up. From now on `doing`, one line, is told from time to time, and with it that the loop
  // runs. `doing` may be called until this is destroyed.
  void Ready(Executor& executor, std::function<std::string()> doing);
  void Stopping();  // it is about to end by itself, or drains

 private:
  void Send(absl::string_view lines) const;
  void Beat(Executor& executor);

  int socket_ = -1;
  std::string address_;  // of the manager, as the kernel takes it
  absl::Duration watchdog_;
  std::function<std::string()> doing_;
  CallbackGuard guard_;
};

// The variables by which a service manager reaches this process. Its children are not the service.
bool IsServiceVariable(absl::string_view name);

}  // namespace atolld

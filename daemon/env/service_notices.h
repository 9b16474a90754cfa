// Notifies the service manager that started a daemon: that the daemon is ready, that it is alive,
// what it is doing, and that it is about to end. The protocol is sd_notify's: each message is one
// datagram to the Unix socket that NOTIFY_SOCKET names.
//
// Law: a notice never blocks and causes no error; a message that the manager does not accept is
// dropped. Only the loop reports that the daemon is alive, so a daemon whose loop hangs becomes
// silent and is started again. Used on the loop thread, or before the loop runs.
#pragma once

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"

namespace atolld {

class ServiceNotices {
 public:
  // Reads the settings from this process's environment (NOTIFY_SOCKET, WATCHDOG_USEC,
  // WATCHDOG_PID). Without a service manager it sends nothing.
  static ServiceNotices FromEnvironment();

  // `socket` is a path, or "@NAME" in the abstract namespace; if it is empty, nothing is sent.
  // `watchdog` is the longest time for which this process may be silent; zero means that there is
  // no limit.
  ServiceNotices(std::string socket, absl::Duration watchdog);
  ~ServiceNotices();

  ServiceNotices(const ServiceNotices&) = delete;
  ServiceNotices& operator=(const ServiceNotices&) = delete;

  bool wanted() const { return socket_ >= 0; }

  // Reports that the daemon is ready. From now on the loop reports from time to time that it runs,
  // together with the line that `doing` returns. `doing` may be called until this object is
  // destroyed.
  void Ready(Executor& executor, std::function<std::string()> doing);
  void Stopping();  // Called when the daemon is about to end, or drains.

 private:
  void Send(absl::string_view lines) const;
  void Beat(Executor& executor);

  int socket_ = -1;
  std::string address_;  // The manager's address, in the kernel's form.
  absl::Duration watchdog_;
  std::function<std::string()> doing_;
  CallbackGuard guard_;
};

// Returns true for the environment variables by which a service manager and this process
// communicate. Children do not get them, because they are not the service.
bool IsServiceVariable(absl::string_view name);

}  // namespace atolld

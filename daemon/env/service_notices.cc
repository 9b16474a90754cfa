#include "daemon/env/service_notices.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compression/base/names.h"

namespace atolld {
namespace {

constexpr char kSocketVariable[] = "NOTIFY_SOCKET";
constexpr char kWatchdogVariable[] = "WATCHDOG_USEC";
constexpr char kWatchdogPidVariable[] = "WATCHDOG_PID";

// How often the status is renewed if no watchdog needs more.
constexpr absl::Duration kBetweenStatuses = absl::Seconds(5);

// Two beats may come late before the manager loses patience.
constexpr int kBeatsAWatchdog = 3;

std::string Variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool IsServiceVariable(absl::string_view name) {
  return name == kSocketVariable || name == kWatchdogVariable || name == kWatchdogPidVariable;
}

ServiceNotices ServiceNotices::FromEnvironment() {
  int64_t microseconds = 0;
  int64_t pid = 0;
  const bool watched = absl::SimpleAtoi(Variable(kWatchdogVariable), &microseconds) &&
                       (!absl::SimpleAtoi(Variable(kWatchdogPidVariable), &pid) || pid == getpid());
  return ServiceNotices(Variable(kSocketVariable),
                        watched ? absl::Microseconds(microseconds) : absl::ZeroDuration());
}

ServiceNotices::ServiceNotices(std::string socket, absl::Duration watchdog)
    : watchdog_(std::max(watchdog, absl::ZeroDuration())) {
  const bool sound = socket.size() > 1 && socket.size() < sizeof(sockaddr_un::sun_path) &&
                     (socket[0] == '/' || socket[0] == '@');
  if (!sound) return;
  if (socket[0] == '@') socket[0] = '\0';
  address_ = std::move(socket);
  socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

ServiceNotices::~ServiceNotices() {
  if (socket_ >= 0) close(socket_);
}

void ServiceNotices::Send(absl::string_view lines) const {
  if (socket_ < 0) return;
  sockaddr_un to = {};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, address_.data(), address_.size());
  const size_t length = offsetof(sockaddr_un, sun_path) + address_.size();
  (void)sendto(socket_, lines.data(), lines.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&to), static_cast<socklen_t>(length));
}

void ServiceNotices::Ready(Executor& executor, std::function<std::string()> doing) {
  if (!wanted()) return;
  doing_ = std::move(doing);
  Send("READY=1\n");
  Beat(executor);
}

void ServiceNotices::Beat(Executor& executor) {
  Send(absl::StrCat("WATCHDOG=1\nSTATUS=", Printable(doing_()), "\n"));
  const absl::Duration pause = watchdog_ == absl::ZeroDuration()
                                   ? kBetweenStatuses
                                   : std::min(kBetweenStatuses, watchdog_ / kBeatsAWatchdog);
  executor.RunAfter(pause, guard_.Wrap([this, &executor] { Beat(executor); }));
}

void ServiceNotices::Stopping() { Send("STOPPING=1\n"); }

}  // namespace atolld

#include "daemon/transport/reach_probe.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "compression/base/status_macros.h"
#include "daemon/transport/tcp_socket.h"

namespace atolld {
namespace {

// Until the socket is ready for `events`. False: the time is over.
bool Await(int fd, short events, absl::Time end) {
  pollfd polled{fd, events, 0};
  const absl::Duration left = std::max(end - absl::Now(), absl::ZeroDuration());
  return poll(&polled, 1, static_cast<int>(absl::ToInt64Milliseconds(left))) == 1;
}

absl::StatusOr<Socket> Connect(const std::string& address, absl::Time end) {
  ASSIGN_OR_RETURN(const TcpAddresses addresses, ResolveTcp(address, /*to_listen=*/false));
  std::string why = "nobody answers";
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    Socket made(socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (made.get() < 0) continue;
    int error = 0;
    if (connect(made.get(), one->ai_addr, one->ai_addrlen) != 0) error = errno;
    if (error == EINPROGRESS) {
      socklen_t length = sizeof error;
      if (!Await(made.get(), POLLOUT, end)) continue;
      if (getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    }
    if (error == 0) return made;
    why = std::strerror(error);
  }
  return absl::UnavailableError(absl::StrCat(address, ": ", why));
}

}  // namespace

absl::StatusOr<absl::Duration> ProbeConnect(const std::string& address, absl::Duration patience) {
  const absl::Time begun = absl::Now();
  RETURN_IF_ERROR(Connect(address, begun + patience).status());
  return absl::Now() - begun;
}

absl::Status ProbeOwnAddress(const std::string& listen, const std::string& advertise,
                             const std::string& nonce, absl::Duration patience) {
  ASSIGN_OR_RETURN(const TcpListeners listeners, ListenTcp(listen));
  const int listener = listeners.sockets.front().get();
  const absl::Time end = absl::Now() + patience;
  ASSIGN_OR_RETURN(const Socket sender, Connect(advertise, end));
  if (send(sender.get(), nonce.data(), nonce.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(nonce.size())) {
    return absl::UnavailableError(absl::StrCat(advertise, ": ", std::strerror(errno)));
  }
  // Others may knock meanwhile; who says something else is passed over.
  while (Await(listener, POLLIN, end)) {
    const Socket accepted(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    std::string heard;
    char part[256];
    while (heard.size() < nonce.size() && Await(accepted.get(), POLLIN, end)) {
      const ssize_t got = recv(accepted.get(), part, sizeof part, 0);
      if (got <= 0) break;
      heard.append(part, static_cast<size_t>(got));
    }
    if (heard == nonce) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("somebody else answers at ", advertise, ", or it does not lead here"));
}

}  // namespace atolld

#include "daemon/transport/tcp_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/transport/bind_probe.h"

namespace atolld {
namespace {

constexpr int kBacklog = 1024;  // a crowd that dials at once; the kernel may allow fewer

bool IsAnyV4(const addrinfo& one) {
  if (one.ai_family != AF_INET) return false;
  return reinterpret_cast<const sockaddr_in*>(one.ai_addr)->sin_addr.s_addr == INADDR_ANY;
}

void SetPort(sockaddr_storage* address, int port) {
  const auto number = htons(static_cast<uint16_t>(port));
  if (address->ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = number;
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = number;
  }
}

int PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

// The errno, or 0 and the socket.
int ListenOnce(const sockaddr_storage& address, socklen_t length, Socket* out) {
  Socket made(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1, off = 0;
  setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.ss_family == AF_INET6) {
    setsockopt(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (made.get() < 0 ||
      bind(made.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(made.get(), kBacklog) != 0) {
    return errno;
  }
  *out = std::move(made);
  return 0;
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = other.Release();
  }
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<TcpAddresses> ResolveTcp(const std::string& address, bool to_listen) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size()) {
    return absl::InvalidArgumentError(absl::StrCat(address, ": it is not of the form host:port"));
  }
  std::string host = address.substr(0, colon);
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
  }
  const bool any = to_listen && (host.empty() || host == "*");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int failure =
      getaddrinfo(any ? nullptr : host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (failure != 0) return absl::NotFoundError(absl::StrCat(address, ": ", gai_strerror(failure)));
  return TcpAddresses(found, &freeaddrinfo);
}

absl::StatusOr<TcpListeners> ListenTcp(const std::string& address) {
  absl::StatusOr<TcpAddresses> addresses = ResolveTcp(address, /*to_listen=*/true);
  if (!addresses.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on ", addresses.status().message()));
  }
  TcpListeners listeners;
  for (const addrinfo* one = addresses->get(); one != nullptr; one = one->ai_next) {
    sockaddr_storage target{};
    std::memcpy(&target, one->ai_addr, one->ai_addrlen);
    if (listeners.port != 0) SetPort(&target, listeners.port);
    Socket made;
    int error = EAFNOSUPPORT;
    if (IsAnyV4(*one)) {
      sockaddr_storage both{};
      both.ss_family = AF_INET6;  // and all zero: any
      SetPort(&both, ntohs(reinterpret_cast<const sockaddr_in*>(&target)->sin_port));
      error = ListenOnce(both, sizeof(sockaddr_in6), &made);
    }
    // A machine without IPv6 says one of these.
    const bool no_v6 = error == EAFNOSUPPORT || error == EADDRNOTAVAIL;
    if (no_v6) error = ListenOnce(target, one->ai_addrlen, &made);
    // The second of "::" and "0.0.0.0" is there with the first.
    if (error == EADDRINUSE && !listeners.sockets.empty()) continue;
    if (error != 0) return CannotListen(address, error);
    if (listeners.port == 0) listeners.port = PortOf(made.get());
    listeners.sockets.push_back(std::move(made));
  }
  return listeners;
}

}  // namespace atolld

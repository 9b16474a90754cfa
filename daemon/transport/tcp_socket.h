// TCP sockets as the rest of this folder needs them: closed by themselves, and bound or found by
// "host:port".
//
// Blocking where a name is looked up. Any thread.
#pragma once

#include <netdb.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace atolld {

// A descriptor, and whose it is to close.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

using TcpAddresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Of "host:port", "[v6]:port"; `to_listen`: "*" and an empty host are every address of this
// machine. INVALID_ARGUMENT: no such form. NOT_FOUND: the name is unknown.
absl::StatusOr<TcpAddresses> ResolveTcp(const std::string& address, bool to_listen);

struct TcpListeners {
  std::vector<Socket> sockets;  // do not block; one for each address that the name has
  int port = 0;                 // the system's choice where 0 was asked for
};

// "0.0.0.0" is every address of this machine, those of IPv6 too where there are any. Errors as
// Transport::Listen; each names the address.
absl::StatusOr<TcpListeners> ListenTcp(const std::string& address);

}  // namespace atolld

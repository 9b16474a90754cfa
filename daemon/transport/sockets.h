// Sockets without gRPC: closed by themselves, bound or found by "host:port", and asked why an
// address cannot be listened on or reached (gRPC only says that it did not work).
//
// The probes speak nothing of the protocol, so they need no credentials. Blocking where a name is
// looked up or somebody is dialled. Any thread.
#pragma once

#include <netdb.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

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
// machine. INVALID_ARGUMENT: no such form. NOT_FOUND: the name is unknown. Neither names it.
absl::StatusOr<TcpAddresses> ResolveTcp(const std::string& address, bool to_listen);

struct TcpListeners {
  std::vector<Socket> sockets;  // do not block; one for each address that the name has
  int port = 0;                 // the system's choice where 0 was asked for
};

// "0.0.0.0" is every address of this machine, those of IPv6 too where there are any. Errors as
// Transport::Listen; each names the address.
absl::StatusOr<TcpListeners> ListenTcp(const std::string& address);

// -----------------------------------------------------------------------------------------------

// FAILED_PRECONDITION if somebody answers on this "unix:/path", INVALID_ARGUMENT if gRPC would read
// it as another; OK for every other address. A
// socket file that nobody listens on is left over from a killed process and no obstacle.
absl::Status CheckListenAddress(const std::string& address);

// Lets nobody but the owner connect to this "unix:/path", which is there.
absl::Status MakeSocketPrivate(const std::string& address);

// Of a "unix:/path", after a failed attempt, so never OK: FAILED_PRECONDITION (in use),
// PERMISSION_DENIED, INVALID_ARGUMENT (no address); each names it.
absl::Status WhyNotBound(const std::string& address);

// What an errno of socket, bind or listen means: FAILED_PRECONDITION (in use, or not an address of
// this machine), PERMISSION_DENIED; it names the address.
absl::Status CannotListen(const std::string& address, int error);

// -----------------------------------------------------------------------------------------------

// Who can dial an address, as far as this machine sees; a name is looked up.
enum class AddressReach {
  kWildcard,     // nobody: it is every address of a machine, which can only be listened on
  kThisMachine,  // its own processes alone: loopback, or a Unix-domain socket
  kBeyond,
  kUnknown,  // the name is unknown here, or it is no address
};
AddressReach ReachOf(const std::string& address);

// This machine's own addresses (IPv4, numbers) where others may reach it: not loopback's.
std::vector<std::string> OwnHosts();

// -----------------------------------------------------------------------------------------------

// Until the socket is ready for `events` (of poll). False: the time is over.
bool AwaitSocket(int fd, short events, absl::Time end);

// A connection that does not block. INVALID_ARGUMENT: no such form; else as ConnectionError, with
// no address in it.
absl::StatusOr<Socket> ConnectTcp(const std::string& address, absl::Time end);

// Connects to "host:port" and hangs up. How long the connection took to make. Errors as ConnectTcp.
absl::StatusOr<absl::Duration> ProbeConnect(const std::string& address, absl::Duration patience);

// Listens on `listen` for a moment, connects to `advertise`, and sees whether it has come back to
// itself: whether what others would dial leads to this machine. `nonce` is said over the connection
// and must be nobody else's. FAILED_PRECONDITION: `listen` cannot be listened on, or somebody else
// answers at `advertise`; else as ProbeConnect.
absl::Status ProbeOwnAddress(const std::string& listen, const std::string& advertise,
                             const std::string& nonce, absl::Duration patience);

}  // namespace atolld

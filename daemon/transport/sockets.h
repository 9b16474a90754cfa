// Sockets without gRPC: they close themselves, are bound or found by "host:port", and can find out
// why an address cannot be listened on or reached (gRPC only says that it failed).
//
// The probes send nothing of Atoll's protocol, so they need no credentials. The functions block
// while a name is looked up or an address is dialled. They may be called from any thread.
#pragma once

#include <netdb.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "daemon/env/posix_files.h"

namespace atolld {

using Socket = Descriptor;

// Sets up gRPC and OpenSSL for this process. Must be called first in main, before either is used.
//
// gRPC then looks up names through the C library, as all other programs of this machine do. This
// matters for etcd's servers, whose names gRPC looks up itself. OpenSSL does not clean up after
// main: gRPC does not wait for all of its threads, and one that is just ending would free what
// OpenSSL has freed.
void PrepareTransport();

using TcpAddresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Looks up "host:port" or "[v6]:port". With `to_listen`, "*" and an empty host mean every address
// of this machine. Fails with INVALID_ARGUMENT if the form is wrong, with NOT_FOUND if the name is
// unknown; neither error names the address.
absl::StatusOr<TcpAddresses> ResolveTcp(const std::string& address, bool to_listen);

struct TcpListeners {
  std::vector<Socket> sockets;  // non-blocking; one socket for each address of the name
  int port = 0;                 // the port that the system chose if port 0 was asked for
};

// Listens on the address; "0.0.0.0" means every address of this machine, including its IPv6
// addresses. Fails with the errors of Transport::Listen; each message names the address.
absl::StatusOr<TcpListeners> ListenTcp(const std::string& address);

// -----------------------------------------------------------------------------------------------

// Fails with FAILED_PRECONDITION if a process answers on this "unix:/path", and with
// INVALID_ARGUMENT if the path cannot be used, if gRPC would read it as a different path, or if a
// TCP address is not "host:port". Otherwise returns OK. A socket file on which no process listens
// was left by a killed process and is accepted.
absl::Status CheckListenAddress(const std::string& address);

// Lets only the owner of the socket file connect to this "unix:/path", which must exist.
absl::Status MakeSocketPrivate(const std::string& address);

// Explains why a "unix:/path" could not be bound. Call it after a failed attempt; it never returns
// OK. Fails with FAILED_PRECONDITION if the path is in use, with PERMISSION_DENIED, or with
// INVALID_ARGUMENT if it is not an address; each message names the address.
absl::Status WhyNotBound(const std::string& address);

// Returns the error for the errno that socket(), bind() or listen() left: PERMISSION_DENIED, or
// FAILED_PRECONDITION if the address is in use or does not belong to this machine. The message
// names the address.
absl::Status CannotListen(const std::string& address, int error);

// -----------------------------------------------------------------------------------------------

// The machines that can dial an address, judged from this machine. ReachOf looks up a name.
enum class AddressReach {
  // No machine: the address means every address of a machine, and can only be listened on.
  kWildcard,
  kThisMachine,  // only processes of this machine: loopback, or a Unix-domain socket
  kBeyond,
  kUnknown,  // the name is unknown on this machine, or the text is not an address
};
AddressReach ReachOf(const std::string& address);

// Returns this machine's own IPv4 addresses, as numbers, except those of loopback.
std::vector<std::string> OwnHosts();

// -----------------------------------------------------------------------------------------------

// Waits until the socket is ready for `events` (see poll(2)). Returns false if `end` came first.
bool AwaitSocket(int fd, short events, absl::Time end);

// Returns all addresses of "host:port" as numbers ("192.0.2.7:7070", "[2001:db8::7]:7070"), each
// once. They are found by getaddrinfo, as in other programs of this machine (DNS, /etc/hosts, mDNS
// and any other source that is set up). IPv6 and IPv4 addresses alternate. A pasted address is
// cleaned first. Fails with INVALID_ARGUMENT if the form is wrong, with NOT_FOUND if the name is
// unknown, and with UNAVAILABLE if no name server has answered by `end`.
absl::StatusOr<std::vector<std::string>> FindAddresses(const std::string& address, absl::Time end);

// Returns true if the host of "host:port" is a number, which needs no name server.
bool IsNumericAddress(const std::string& address);

struct TcpConnection {
  Socket socket;  // non-blocking
  std::string address;
};

// Connects to whichever of these addresses answers first. They have the form that FindAddresses
// returns. Each address is tried a quarter of a second after the one before it, or as soon as that
// one has failed (RFC 8305), so an address that does not answer delays no other. Fails with the
// error of ConnectionError that says most about the cause; the message names no address.
absl::StatusOr<TcpConnection> ConnectToFirst(absl::Span<const std::string> addresses,
                                             absl::Time end);

// Finds the addresses of "host:port" and connects to the one that answers first. Fails with the
// errors of FindAddresses and ConnectToFirst.
absl::StatusOr<Socket> ConnectTcp(const std::string& address, absl::Time end);

// Connects to "host:port", closes the connection, and returns the time that it took to connect.
// Fails with the errors of ConnectTcp.
absl::StatusOr<absl::Duration> ProbeConnect(const std::string& address, absl::Duration patience);

// Checks that an address that others would dial leads to this machine: listens on `listen` for a
// moment, connects to `advertise`, and checks that the connection arrives. `nonce` is sent over the
// connection and must be unique. Fails with FAILED_PRECONDITION if `listen` cannot be listened on
// or if another program answers at `advertise`, and otherwise with the errors of ProbeConnect.
absl::Status ProbeOwnAddress(const std::string& listen, const std::string& advertise,
                             const std::string& nonce, absl::Duration patience);

}  // namespace atolld

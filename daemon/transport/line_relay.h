// LineRelay: keeps the caps of a line, byte by byte, for all connections of a process together.
//
// gRPC hands whole messages to the kernel, and the kernel takes in a whole window before anything
// reads it. A cap on messages would therefore let through whole messages in bursts. Instead, gRPC
// is connected to a socket of this process, and the relay's thread moves the bytes (which TLS has
// already encrypted) between that socket and the network, no faster than the caps allow. The relay
// holds back a sender by not reading: TCP's window closes, and the sender waits.
//
// The caps count what goes over the network: the kernel reports how many packets a connection has
// sent, received and retransmitted, and each packet is charged with its headers. The connections
// share the allowance equally. A connection with priority (the Session with the coordinator) waits
// for no other, and what it uses reduces the share of the others.
//
// When one end of a connection closes, on gRPC's side or on the network's, the relay closes the
// other. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/transport/sockets.h"

namespace atolld {

// Marks an accepted connection: gRPC's name for its other end is "unix-abstract:", this mark, a
// unique part, "/" and the address of the peer that connected.
inline constexpr char kRelayedName[] = "atoll-from/";

class LineRelay {
 public:
  // Fails with RESOURCE_EXHAUSTED if no descriptor is left.
  static absl::StatusOr<std::unique_ptr<LineRelay>> Start(uint64_t up_cap, uint64_t down_cap);
  ~LineRelay();  // closes all connections

  // Sets the caps in bytes a second; 0 means no cap.
  void SetCaps(uint64_t up_cap, uint64_t down_cap);

  // Returns the address that gRPC dials to reach "host:port" through the relay. Each time gRPC
  // dials, the relay looks up the name anew and connects. If `first` is true, the connections have
  // priority. Fails with RESOURCE_EXHAUSTED if no descriptor is left.
  absl::StatusOr<std::string> Through(const std::string& address, bool first);

  // Takes over an accepted connection, and returns the socket that gRPC serves in its place.
  absl::StatusOr<Socket> Take(Socket accepted);

 private:
  class Way;
  class Connection;
  struct Inbox;
  class Loop;
  explicit LineRelay(std::shared_ptr<Inbox> inbox);

  const std::shared_ptr<Inbox> inbox_;
  std::unique_ptr<Loop> loop_;
};

}  // namespace atolld

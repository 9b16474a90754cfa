// LineRelay: keeps the caps of a line, byte by byte, for all connections of a process together.
//
// gRPC hands whole messages to the kernel, and the kernel takes in what a window holds before
// anybody reads it. So a cap on messages comes in bursts as long as a message. With caps, gRPC
// therefore speaks to a socket of this process, and the relay's thread moves the bytes (which are
// TLS's by then) between that and the network, no faster than the caps allow. Not reading is the
// back-pressure: TCP's window closes, and the sender waits.
//
// What counts is what the network sees: the kernel says how many packets a connection has sent and
// taken in and what it has sent again, and each packet is charged with its headers. Connections
// share what is allowed equally. Those that go first (to the coordinator: the Session) wait for no
// other, and what they use the others wait for.
//
// Any thread. gRPC's end of a connection closes when the other one does, and the reverse.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/transport/sockets.h"

namespace atolld {

// A connection that was accepted has gRPC's peer "unix-abstract:", this, what makes it unique, "/"
// and the address of whoever has connected.
inline constexpr char kRelayedName[] = "atoll-from/";

class LineRelay {
 public:
  // RESOURCE_EXHAUSTED: no descriptor is left.
  static absl::StatusOr<std::unique_ptr<LineRelay>> Start(uint64_t up_cap, uint64_t down_cap);
  ~LineRelay();  // closes all connections

  // Bytes a second; 0: no cap.
  void SetCaps(uint64_t up_cap, uint64_t down_cap);

  // What gRPC dials to reach "host:port" through the relay. Connections are made when it does; a
  // name is looked up each time. `first`: they go before others. RESOURCE_EXHAUSTED: no descriptor.
  absl::StatusOr<std::string> Through(const std::string& address, bool first);

  // Takes over a connection that was accepted, and gives what gRPC serves in its place.
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

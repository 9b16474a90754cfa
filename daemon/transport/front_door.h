// FrontDoor: the listening sockets of a gRPC server, and the thread that accepts on them.
//
// gRPC's own acceptor closes for good when the process has no descriptor left, so that whoever can
// open connections could shut everybody out until a restart. Law: no number of connections makes
// this one stop, and those that come leave descriptors for the process's own files and dials.
#pragma once

#include <grpcpp/server_builder.h>

#include <cstddef>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "daemon/transport/tcp_socket.h"

namespace atolld {

class FrontDoor {
 public:
  using Taker = grpc::experimental::ExternalConnectionAcceptor;

  // Listens, and accepts nobody yet. Errors as Transport::Listen.
  static absl::StatusOr<std::unique_ptr<FrontDoor>> Open(const std::string& address);

  // Accepts from now on, for as long as this lives. `taker` is of a server that has started; it may
  // stop before.
  void Start(std::unique_ptr<Taker> taker);
  ~FrontDoor();

  int port() const { return listeners_.port; }

  // A connection is hung up on at once where its descriptor has this number or a higher one: the
  // kernel gives out the lowest, so that at least as many are open. Three quarters of what the
  // system lets this process have.
  size_t most_descriptors() const { return most_; }

 private:
  FrontDoor(TcpListeners listeners, Socket stop, size_t most);
  void Run();
  bool AcceptAll(int listener);

  const TcpListeners listeners_;
  const Socket stop_;  // readable: the thread ends
  const size_t most_;
  std::unique_ptr<Taker> taker_;
  std::thread thread_;
};

}  // namespace atolld

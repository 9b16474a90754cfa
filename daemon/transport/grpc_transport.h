// The Transport used in production: every call is a bidirectional gRPC stream of frames over TCP or
// a Unix-domain socket.
//
// gRPC's threads only pass bytes to the loop. No function blocks the loop, except that destroying a
// Listener or the transport waits some milliseconds until gRPC has released its calls. A frame is
// one gRPC message, so the transport interoperates with generated stubs of unary and streaming
// services. Used on the loop thread.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "daemon/env/env.h"
#include "daemon/transport/tls.h"

namespace grpc {
class ResourceQuota;
}

namespace atolld {

class AddressBook;
class Looks;
class CappedLine;
class ChannelCache;
class LiveCalls;

// The bytes of the messages that have gone over a machine's line, without those of handshakes and
// retransmissions.
struct LineBytes {
  uint64_t sent = 0;
  uint64_t received = 0;
};

class GrpcTransport final : public Transport {
 public:
  struct Options {
    // [membership] failure_timeout. Keepalive follows from it: a link is probed when it has been
    // silent for half this time, and is broken if the probe is not answered within the whole of
    // this time.
    absl::Duration failure_timeout = absl::Seconds(10);
    // The number of connections to one address; its calls use them in turn. One connection can have
    // about 18 MB in flight, which is too little for a fast long-distance link.
    int lanes = 1;
    // The memory that gRPC may hold for the messages of all calls together.
    size_t memory_bytes = size_t{512} << 20;
    // If it is not set, the connections are plain text. Unix-domain sockets never use it: the mode
    // of the socket file protects them.
    std::optional<TlsCredentials> tls;
  };

  GrpcTransport(Executor& executor, Options options);

  // Breaks the remaining calls; their owners get on_closed on the loop, if it runs again. All
  // Listeners must have been destroyed before.
  ~GrpcTransport() override;

  // Fails with the errors of Transport::Listen, with INVALID_ARGUMENT if the address is malformed,
  // and with PERMISSION_DENIED if this process may not listen on it.
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor acceptor) override;

  // After a broken link or a refusal, the next Dial connects immediately: the caller's back-off is
  // the only one.
  std::unique_ptr<Call> Dial(const std::string& address, const std::string& method,
                             absl::Duration deadline) override;

  void RefuseKeys(const std::set<std::string>& keys) override;

  // Sets caps on everything that goes over the network, headers included, in bytes a second; 0
  // means no cap. The caps apply immediately. The first caps break the calls to and from other
  // peers with UNAVAILABLE, and the peers must dial them again. A call to the coordinator is not
  // broken; the caps apply to it from its next dial. Fails with RESOURCE_EXHAUSTED, and changes
  // nothing, if no descriptor is left.
  absl::Status SetCaps(uint64_t up_cap, uint64_t down_cap);

  // Returns the bytes of all calls since construction, except calls on Unix-domain sockets.
  LineBytes line_bytes() const;

 private:
  Executor& executor_;
  const Options options_;
  const std::shared_ptr<CappedLine> line_;
  const std::unique_ptr<grpc::ResourceQuota> quota_;
  const std::shared_ptr<ChannelCache> channels_;
  const std::shared_ptr<AddressBook> addresses_;
  const std::shared_ptr<Looks> looks_;
  const std::shared_ptr<LiveCalls> dialled_;  // calls to other peers
  const std::shared_ptr<LiveCalls> dialled_coordinator_;
  const std::shared_ptr<LiveCalls> dialled_here_;  // calls to this machine's own worker
};

}  // namespace atolld
